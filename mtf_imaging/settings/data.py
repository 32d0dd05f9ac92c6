"""The settings of `convert`, `study` and `import_weights`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import Settings, changed, setting, settings, settings_of
from mtf_imaging.settings.step import (
    BatchSettings,
    NetworkSettings,
    PlacementSettings,
    ProgressSettings,
    SpacingTableSettings,
    WorkerSettings,
)
from mtf_imaging.settings.training import RunSettings
from mtf_imaging.settings.values import Spacing

if TYPE_CHECKING:
    from mtf_imaging.training.checkpoints.weight_formats import WeightFormat
    from mtf_imaging.training.optimizers import Optimizer

NUM_CASES, NUM_CONTEXT_CASES = 24, 60
RESOLUTIONS = (32, 64, 96)
SEEDS = (1, 2, 3)
RESOLUTION, CONTEXT = "resolution", "context"  # the kinds of studies
PHANTOMS = ("marker", "side", "texture")
_SETTINGS_OF_KIND = {
    RESOLUTION: ("resolutions",),
    CONTEXT: ("phantoms", "contenders", "spacing", "multiple", "spacing_table", "workers"),
}
STEPS_OF_PHANTOMS = {"marker": 150, "side": 150, "texture": 100}  # roughly as many as whole volumes need
CONTENDERS = ("whole", "patch_96", "patch_64", "patch_32", "half")


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
    """

    input_dir: str | Path = setting(flag=True)
    output_dir: str | Path = setting(flag=True)
    resolution: str | int | None = setting(default=None, unit="voxels", flag=True)
    spacing: Spacing | None = setting(default=None, unit="mm", flag=True)
    grids: int = setting(default=1, flag=True)
    multiple: int | None = setting(default=None, unit="voxels", flag=True)
    chunk: str | int | None = setting(default=None, unit="voxels", flag=True)


@settings
class StudyCases(SpacingTableSettings, WorkerSettings, ProgressSettings):
    """The cases, resolutions, contenders and seeds of a study.

    Attributes:
      kind: the comparison. resolution: one network at several resolutions. context: whole volumes, patches and
        half the resolution, at equal steps and at equal CPU time.
      output_dir: folder for all files of the study.
      input_dir: folder of LiTS cases; for context, of any labeled cases. Default: synthetic cases.
      held_out_dir: folder of held-out cases. Default: every fourth case of `input_dir`.
      num_cases: number of synthetic cases. Default: 24, of which a quarter is held out; for context, 60 of each kind,
        of which a sixth is held out.
      resolutions: resolutions, in voxels along each axis.
      seeds: seeds; the network is trained once per seed at every resolution, or for every contender.
      phantoms: with `kind` context: the kinds of synthetic cases, each of which is a separate study; may be
        repeated.
      contenders: with `kind` context: what to compare with whole volumes: patches of up to 96, 64 and 32 voxels along
        each axis, and whole volumes at half the resolution; may be repeated.
      spacing: with `kind` context and `input_dir`: voxel size in mm along x, y and z, as in convert.
      multiple: with `kind` context: record sizes are multiples of this number, as in convert.
    """

    kind: str = setting(default=RESOLUTION, choices=(RESOLUTION, CONTEXT), flag=True)
    output_dir: str | Path = setting(flag=True)
    input_dir: str | Path | None = setting(default=None, flag=True)
    held_out_dir: str | Path | None = setting(default=None, flag=True)
    num_cases: int | None = setting(default=None, least=2, flag=True)
    resolutions: Sequence[int] = setting(default=RESOLUTIONS, unit="voxels", flag=True)
    seeds: Sequence[int] = setting(default=SEEDS, flag=True)
    phantoms: Sequence[str] = setting(default=PHANTOMS, flag=True)
    contenders: Sequence[str] = setting(default=CONTENDERS, flag=True)
    spacing: Spacing | None = setting(default=None, unit="mm", flag=True)
    multiple: int | None = setting(default=None, unit="voxels", flag=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        other = "resolution" if self.kind == CONTEXT else "context"
        for one in settings_of(StudyCases):
            value = getattr(self, one.name)
            value = tuple(value) if isinstance(value, list) else value
            if one.name in _SETTINGS_OF_KIND[other] and value != one.default:
                raise ConfigError(
                    f"{one.name} = {value!r} has no effect on a study of {self.kind}. Fix: give kind {other}, or leave "
                    f"{one.name} out.",
                    [one.name, "kind"],
                )

    @property
    def cases_to_write(self) -> int:
        """The number of synthetic cases."""
        return self.num_cases or (NUM_CONTEXT_CASES if self.kind == CONTEXT else NUM_CASES)


@settings
class StudySettings(StudyCases, NetworkSettings, PlacementSettings):
    """The settings of `study`.

    Attributes:
      num_steps: number of steps of each training run.
    """

    num_steps: int = changed(RunSettings, "num_steps", default=400)
    optimizer: "Optimizer | None" = changed(RunSettings, "optimizer")
    batch_size: int = changed(BatchSettings, "batch_size")
    micro_batches: int = changed(BatchSettings, "micro_batches")


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
