"""The contenders: our jobs with their settings, and the Keras program."""

import dataclasses

JOB = "unet3d_real_ct"
# The conversion in the job's file: the CTs' own voxels, padded only to an even size.
DOCUMENTED = ("--spacing", "3", "--multiple", "2")
CUBE = ("--resolution", "64")

_TASK, _NETWORK = "unet3d.LiverTumorSegmentation", "unet3d.UNet3D"
_WEIGHTS = (f"{_TASK}.class_weights = (1, 8, 16)",)
_PAPER_LOSS = (f"{_TASK}.dice = 'lesion'", f"{_TASK}.dice_weight = 0.2", *_WEIGHTS)
_BATCH_NORM = (f"{_NETWORK}.norm = 'batch'",)
_ZERO = ("train.class_frequencies = None",)
_STEP_DECAY = (
    "Adam.learning_rate = @StepDecay()",
    "StepDecay.initial = 0.003",
    "StepDecay.factor = 0.3",
    "StepDecay.every = {two_thirds}",
)
_WARM_UP = ("Adam.learning_rate = @WarmUp()", "WarmUp.schedule = @PolyDecay()", "WarmUp.steps = {tenth}")
_WARP = ("Augmentation.rotation = 10.0", "Augmentation.zoom = 0.1", "Augmentation.elastic = 0.02")


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to train.

    Attributes:
      name: its name on the command line.
      title: the difference from the documented job.
      conversion: flags of `convert`; None for the Keras program, which reads the files itself.
      settings: gin bindings on top of the job, in which {steps}, {tenth} and {two_thirds} are numbers of steps; or
        flags of the Keras program.
      cost_of: the contender whose steps cost the same, because only weights, losses or schedules differ; None for a
        separate pilot.
    """

    name: str
    title: str
    conversion: tuple[str, ...] | None = DOCUMENTED
    settings: tuple[str, ...] = ()
    cost_of: str | None = None

    @property
    def is_keras(self) -> bool:
        """Whether it is the Keras program."""
        return self.conversion is None

    def bindings(self, steps: int) -> list[str]:
        """Returns the gin bindings for a run with `steps` steps; schedules end with the run."""
        numbers = {"steps": steps, "tenth": max(1, steps // 10), "two_thirds": max(1, steps * 2 // 3)}
        ours = ["PolyDecay.steps = {steps}", *self.settings]
        return [binding.format(**numbers) for binding in ours]


ALL = {
    contender.name: contender
    for contender in (
        Contender("documented", "the job as documented"),
        Contender("keras_whole", "plain Keras, whole volumes", None),
        Contender("keras_patches", "plain Keras, patches of 64 x 64 x 32 voxels", None, ("--patches",)),
        Contender("zero_biases", "first biases of 0", settings=_ZERO, cost_of="documented"),
        Contender("cube", "records of 64^3 instead of the CTs' voxels", CUBE),
        Contender("weights", "class weights 1, 8, 16", settings=_WEIGHTS, cost_of="documented"),
        Contender(
            "paper_loss",
            "the loss of the paper: class weights 1, 8, 16, Dice of the lesion, weight 0.2",
            settings=_PAPER_LOSS,
            cost_of="documented",
        ),
        Contender("batch_norm", "batch norm", settings=_BATCH_NORM),
        Contender(
            "step_decay",
            "StepDecay: a factor of 0.3 after two thirds of the steps",
            settings=_STEP_DECAY,
            cost_of="documented",
        ),
        Contender("warm_up", "a warm-up of a tenth of the steps", settings=_WARM_UP, cost_of="documented"),
        Contender("clip", "gradients clipped to a norm of 1", settings=("Adam.clip_norm = 1.0",), cost_of="documented"),
        Contender("supervision", "deep supervision", settings=(f"{_NETWORK}.deep_supervision = 2",)),
        Contender("warp", "rotation, zoom and elastic deformation", settings=_WARP),
        Contender("lesions", "synthetic lesions in half of the samples", settings=("Augmentation.lesions = 0.5",)),
        Contender("batch_of_2", "batches of 2", settings=("setup.batch_size = 2",)),
        Contender(
            "paper_zero_biases",
            "batch norm, the paper's loss and StepDecay, first biases of 0",
            settings=(*_PAPER_LOSS, *_BATCH_NORM, *_STEP_DECAY, *_ZERO),
            cost_of="batch_norm",
        ),
    )
}
