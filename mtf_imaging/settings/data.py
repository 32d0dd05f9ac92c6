"""The settings of `convert`, `inspect` and `import_weights`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.settings.setting import Settings, setting, settings
from mtf_imaging.settings.step import ProgressSettings, SpacingTableSettings, WorkerSettings
from mtf_imaging.settings.values import Spacing

if TYPE_CHECKING:
    from mtf_imaging.training.checkpoints.name_tables import WeightFormat


@settings
class ConvertSettings(SpacingTableSettings, WorkerSettings, ProgressSettings):
    """The settings of `convert`.

    Attributes:
      input_dir: folder of cases, with file names as in LiTS, the Medical Segmentation Decathlon or nnU-Net.
      output_dir: folder for the records.
      resolution: voxels along x, y and z, for instance 64 or x:192,y:192,z:96. Without `spacing`, they span the whole
        field of view of each volume, whatever its size in mm. Default: 256; with `spacing`, the smallest box that
        contains every case, in multiples of 16, which crops nothing.
      spacing: voxel size in mm along x, y and z, for instance 1.5,1.5,2. Volumes are resampled to it, then padded with
        air or cropped around the center of their field of view to a box of `resolution` voxels. A warning for each file
        counts the liver and lesion voxels that are cropped. evaluate and predict map their segmentations back to the
        voxels of each volume, with background outside of the box. Default: the whole field of view of each volume is
        resampled.
      grids: with `spacing`: the largest number of different grids, for cases of different sizes. Each case gets the
        smallest grid that contains it, and train builds a network per grid, with the same weights. The grids are chosen
        for the fewest voxels in total.
      multiple: with `spacing`: the chosen grid sizes are multiples of this number. Default: 16.
      chunk: voxels of a chunk of a record along x, y and z, for instance 64 or x:64,y:64,z:32. Each chunk is a
        compressed file, and a process reads only the chunks of its slice. Default: 64.
      crop_to_nonzero: whether each image is first cropped to the box of the voxels that are not 0 in some channel, for
        images with a removed background. evaluate, predict and exported networks do the same, with background outside
        of the box. Default: as dataset.json states.
    """

    input_dir: str | Path = setting(flag=True)
    output_dir: str | Path = setting(flag=True)
    resolution: str | int | None = setting(default=None, unit="voxels", flag=True)
    spacing: Spacing | None = setting(default=None, unit="mm", flag=True)
    grids: int = setting(default=1, flag=True)
    multiple: int | None = setting(default=None, unit="voxels", flag=True)
    chunk: str | int | None = setting(default=None, unit="voxels", flag=True)
    crop_to_nonzero: bool = setting(default=False, flag=True)


@settings
class InspectSettings(SpacingTableSettings, WorkerSettings, ProgressSettings):
    """The settings of `inspect`.

    Attributes:
      data_dir: the data set: a folder of volumes, photos or images with objects.
      num_cases: number of volumes whose voxels are read, evenly spread over the data set.
      write: a `dataset.json` to write, which describes the volumes and lists the cases with masks, for convert.
      page: an HTML file to write, with pictures of some cases.
    """

    data_dir: str | Path = setting()
    write: str | Path | None = setting(default=None, flag=True)
    page: str | Path | None = setting(default=None, flag="output")
    num_cases: int = setting(default=8, least=1, flag=True)


@settings
class ImportWeightsSettings(Settings):
    """The settings of `import_weights`.

    Attributes:
      checkpoint: a file of torch.save, of safetensors or of Keras (.keras, .h5); or the path of a TensorFlow checkpoint
        without the ending .index, for instance model.ckpt-112603; or a folder, whose last checkpoint is read.
      output_dir: folder for the weights.
      formats: the formats of checkpoints, such as `mtf_imaging.models.resnet.WEIGHT_FORMATS`.
      file_format: names of the variables. tpu: tensorflow/tpu, conv2d_1/kernel. tf_slim: TF-Slim and DeepLab,
        resnet_v1_50/block1/unit_1/bottleneck_v1/conv1/weights. tf_vision: official/vision of tensorflow/models,
        backbone/layer_with_weights-2/_conv1/kernel; tf_vision_retinanet and tf_vision_mask_rcnn: the same with the
        heads of a detector. torchvision: layer1.0.conv1.weight. keras: Keras applications, conv2_block1_1_conv.
        Default: the format that the names show; a detector with its heads.
    """

    checkpoint: str | Path = setting(flag=True)
    output_dir: str | Path = setting(flag=True)
    formats: "Sequence[WeightFormat]" = setting()
    file_format: str | None = setting(default=None, flag="format")
