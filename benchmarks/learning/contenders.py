"""The contenders: our jobs with their settings, and the Keras program."""

import dataclasses

JOB = "unet3d_real_ct"
# The conversion in the job's file: the CTs' own voxels in mm, padded only to an even size.
SPACING, MULTIPLE = "3", ("--multiple", "2")

_TASK, _NETWORK = "unet3d.LiverTumorSegmentation", "unet3d.UNet3D"
_WEIGHTS = (f"{_TASK}.class_weights = (1, 8, 16)",)
_PAPER_LOSS = (f"{_TASK}.dice = 'lesion'", f"{_TASK}.dice_weight = 0.2", *_WEIGHTS)
_BATCH_NORM = (f"{_NETWORK}.norm = 'batch'",)
_ZERO = ("train.class_frequencies = None",)
_STEP_DECAY = (
    "Adam.learning_rate = @StepDecay()",
    "StepDecay.initial = 0.003",
    "StepDecay.factor = 0.3",
    "StepDecay.every = 266",
)
_WARM_UP = ("Adam.learning_rate = @WarmUp()", "WarmUp.schedule = @PolyDecay()", "WarmUp.steps = 40")
_PATCHES = ("train.patch = (64, 64, 30)", "setup.batch_size = 2")
_WARP = ("Augmentation.rotation = 10.0", "Augmentation.zoom = 0.1", "Augmentation.elastic = 0.02")


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to train.

    Attributes:
      name: its name on the command line.
      title: what it is.
      settings: gin bindings on top of the job, or flags of the Keras program.
      steps: the number of steps, which take about 240 s of CPU.
      is_keras: whether it is the Keras program.
      exchanges_weights: whether it starts from the first weights that the other program has with the same seed.
    """

    name: str
    title: str
    settings: tuple[str, ...] = ()
    steps: int = 400
    is_keras: bool = False
    exchanges_weights: bool = False


def _whole(name: str, title: str, *flags: str) -> Contender:
    return Contender(f"keras_whole{name}", f"plain Keras, whole volumes{title}", flags, 336, True)


def _patches(name: str, title: str, *flags: str) -> Contender:
    title = f"plain Keras, 2 patches of 64 x 64 x 32 voxels{title}"
    return Contender(f"keras_patches{name}", title, ("--patches", *flags), 560, True)


ALL = {
    contender.name: contender
    for contender in (
        Contender("documented", "the job as documented"),
        _whole("", ""),
        _patches("", ""),
        _whole("_frequencies", ", first biases from the class frequencies", "--frequencies"),
        _patches("_frequencies", ", first biases from the class frequencies", "--frequencies"),
        _whole("_slow", ", learning rate 0.001", "--rate", "0.001"),
        _whole("_fast", ", learning rate 0.01", "--rate", "0.01"),
        _patches("_slow", ", learning rate 0.001", "--rate", "0.001"),
        _patches("_fast", ", learning rate 0.01", "--rate", "0.01"),
        Contender("keras_weights", "first weights of the Keras program", exchanges_weights=True),
        Contender(
            "keras_patches_our_weights",
            "plain Keras, 2 patches of 64 x 64 x 32 voxels, first weights of the job",
            ("--patches",),
            560,
            is_keras=True,
            exchanges_weights=True,
        ),
        Contender("slow", "learning rate 0.001", ("PolyDecay.initial = 0.001",)),
        Contender("fast", "learning rate 0.01", ("PolyDecay.initial = 0.01",)),
        Contender("patches", "2 patches of 64 x 64 x 30 voxels", _PATCHES, 560),
        Contender(
            "patches_fast",
            "2 patches of 64 x 64 x 30 voxels, learning rate 0.01",
            (*_PATCHES, "PolyDecay.initial = 0.01"),
            560,
        ),
        Contender("zero_biases", "first biases of 0", _ZERO),
        Contender("weights", "class weights 1, 8, 16", _WEIGHTS),
        Contender(
            "paper_loss", "the loss of the paper: class weights 1, 8, 16, Dice of the lesion, weight 0.2", _PAPER_LOSS
        ),
        Contender("batch_norm", "batch norm", _BATCH_NORM),
        Contender("step_decay", "StepDecay: a factor of 0.3 after two thirds of the steps", _STEP_DECAY),
        Contender("warm_up", "a warm-up of a tenth of the steps", _WARM_UP),
        Contender("clip", "gradients clipped to a norm of 1", ("Adam.clip_norm = 1.0",)),
        Contender("supervision", "deep supervision", (f"{_NETWORK}.deep_supervision = 2",)),
        Contender("batch_of_2", "batches of 2", ("setup.batch_size = 2",), 200),
        Contender("warp", "rotation, zoom and elastic deformation", _WARP),
        Contender("lesions", "synthetic lesions in half of the samples", ("Augmentation.lesions = 0.5",)),
    )
}
