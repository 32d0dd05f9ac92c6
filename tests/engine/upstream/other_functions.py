"""Public functions of mesh_tensorflow that have no row in `functions.py` or `layers.py`, with the reason."""

_LAYOUT = "converts or describes shapes and layouts"
_MESH = "numbers the processors of a mesh"
_INTERNAL = "a part of the lowering of other functions"
_GRADIENT = "the gradient of an operation of mtf.layers, which tests it; refused under a split of the windows"
_ATTENTION = "attention step by step during decoding: a state of the caller, and no gradient"
_BLOCKS = "attention between blocks that the caller declares, made of shift, concat, einsum and softmax"
_MASK = "an integer or a constant mask, made of range, comparisons and cast"

NOT_FUNCTIONS_OF_TENSORS = {
    **dict.fromkeys(
        [
            "anonymous_shape",
            "combined_dimension",
            "convert_to_dimension",
            "convert_to_layout_rules",
            "convert_to_shape",
        ],
        _LAYOUT,
    ),
    **dict.fromkeys(["is_subsequence", "verify_no_new_dims"], _LAYOUT),
    **dict.fromkeys(["tensor_dim_to_mesh_dim_size", "tensor_dim_to_size_per_split"], _LAYOUT),
    **dict.fromkeys(
        ["pnum_to_group", "pnum_to_processor_coordinates", "pnum_to_processor_coordinates_nd", "processor_groups"],
        _MESH,
    ),
    **dict.fromkeys(["processor_coordinates_to_pnum", "processor_coordinates_to_pnum_map_nd"], _MESH),
    **dict.fromkeys(
        ["binary_arguments_to_tensors", "binary_reduction_fn", "compatible_lazy_allreduce_sums", "pool_fn"], _INTERNAL
    ),
    **dict.fromkeys(["convert_args_to_laid_out_tensors", "parallel", "reduction_fn"], _INTERNAL),
    **dict.fromkeys(
        ["list_product", "log_variable_sizes", "pretty_print_counters", "transpose_list_of_lists"], "no tensors"
    ),
    **dict.fromkeys(
        [
            *("conv2d_backprop_filter", "conv2d_backprop_input", "conv3d_backprop_filter", "conv3d_backprop_input"),
            *("conv2d_transpose_backprop_filter", "conv2d_transpose_backprop_input", "pool_backprop"),
            *("conv3d_transpose_backprop_filter", "conv3d_transpose_backprop_input"),
        ],
        _GRADIENT,
    ),
    **dict.fromkeys(
        ["assign_add_slice", "assign_slice", "assign_sub_slice"],
        "functions of slices, which mtf.assign and others pass on",
    ),
    "import_laid_out_tensor": "takes slices of a certain mesh implementation",
    "scalar_summary": "writes a summary of TensorFlow 1; training writes events with TensorFlow 2",
    "serialize_training_step": "splits a batch of TensorFlow 1; mi.Program(part_of=...) replaces it",
}
LAYERS = {
    **dict.fromkeys(
        ["attention_bias_local_block", "attention_bias_local_2d_block", "attention_mask_same_segment"], _MASK
    ),
    **dict.fromkeys(["attention_mask_autoregressive", "attention_mask_ignore_padding"], _MASK),
    **dict.fromkeys(
        ["local_self_attention_spatial_blocks", "local_2d_self_attention_spatial_blocks", "local_1d_halo_exchange"],
        _BLOCKS,
    ),
    "local_2d_halo_exchange": _BLOCKS,
    **dict.fromkeys(["masked_local_attention_1d_incremental", "multihead_self_attention_incremental"], _ATTENTION),
    "multihead_encdec_attention_incremental": _ATTENTION,
    **dict.fromkeys(
        ["embedding_weights", "get_dense_kernel_weights", "multihead_attention_params", "multihead_attention_vars"],
        "creates the variables of another layer",
    ),
    **dict.fromkeys(
        ["conv2d_transpose_with_blocks", "conv3d_transpose_with_blocks"],
        "calls the transposed convolution between halo exchanges of blocks; use mi.ops.conv2d_transpose",
    ),
    **dict.fromkeys(
        ["avg_pool3d", "max_pool3d"], "as the 2-D pools, but TensorFlow has no float64 kernel; use mi.ops.max_pool3d"
    ),
    "separable_conv1d": "made of shift, multiply and dense",
    "corr": "correlations of two tensors, made of reduce_mean and einsum",
    "annealed_dropout": "mtf.dropout with a rate that depends on the global step of TensorFlow 1",
    "summary_for_clip_activation_gradient": "writes a summary of TensorFlow 1",
    "unit_scaling_convention": "a setting",
}
