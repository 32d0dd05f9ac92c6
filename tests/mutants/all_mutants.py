"""All mutants. Add some for new code, and the tests that kill them."""

from tests.mutants import (
    data_mutants,
    evaluation_mutants,
    file_mutants,
    format_mutants,
    kubernetes_mutants,
    layer_mutants,
    layout_mutants,
    learning_mutants,
    lowering_mutants,
    mesh_mutants,
    network_mutants,
    ops_mutants,
    process_mutants,
    program_mutants,
    result_mutants,
    slurm_mutants,
    training_mutants,
    turn_mutants,
    upstream_mutants,
    zarr_mutants,
)

_MODULES = (
    *(layout_mutants, mesh_mutants, turn_mutants, ops_mutants, layer_mutants, upstream_mutants, lowering_mutants),
    *(program_mutants, network_mutants, training_mutants, learning_mutants, evaluation_mutants, result_mutants),
    *(data_mutants, file_mutants, format_mutants, zarr_mutants, process_mutants, slurm_mutants, kubernetes_mutants),
)
MUTANTS = [mutant for module in _MODULES for mutant in module.MUTANTS]
