"""`mtf-imaging demo`: runs the whole workflow as command lines that a user could type, and prints each of them."""

import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.demo.choosing import KINDS, choose_workflow
from mtf_imaging.cli.runtime.demo.summary import COMPARED_STEPS, compared_folders, summarize
from mtf_imaging.cli.runtime.subprocesses import run_command, say
from mtf_imaging.kinds.demo import Command, Step, Workflow
from mtf_imaging.settings.setting import Settings, setting, settings


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      output_dir: folder for all files of the demo.
      input_dir: folder of cases, of LiTS or with a dataset.json that describes other data; of photos with label images
        and the lists train and val; or of images with objects in the COCO layout, with the splits train and val.
        Default: synthetic data.
      kind: synthetic data: CTs of livers with lesions, MR images of brains with tumors, photos of textured shapes with
        a class for each pixel (scenes), or such photos with boxes and masks (objects). Default: liver, or the kind of
        the data in `input_dir`.
    """

    output_dir: str = setting(default="demo", flag=True)
    input_dir: str | None = setting(default=None, flag=True)
    kind: str | None = setting(default=None, choices=tuple(KINDS), flag=True)


SUMMARY = "runs the whole workflow, from data to predictions, on synthetic images or yours."
EXAMPLE = "mtf-imaging demo --output_dir demo"
SETTINGS = (_Flags,)
NOTES = (
    "On 2 CPU cores, the demo takes 6 minutes, or 10 minutes with objects, and up to 4 GiB of memory. It prints every "
    "command that it runs.",
)


def run(values: flags.FlagValues) -> str:
    out = Path(values.output_dir)
    workflow = choose_workflow(out, Path(values.input_dir) if values.input_dir else None, values.kind)
    steps = [*workflow.steps(), _comparison(out, workflow)]
    for number, step in enumerate(steps, 1):
        say(f"Step {number} of {len(steps)}: {step.purpose} (about {step.duration}).")
        if step.note:
            print(f"# {step.note}", flush=True)
        for command, options in step.commands():
            run_command(command, **options)
    print("\n" + summarize(out, workflow), flush=True)
    model, data = (shlex.quote(str(folder)) for folder in (out / "model", workflow.data_dir))
    return f"mtf-imaging explain --model_dir {model} --data_dir {data}"


def _comparison(out: Path, workflow: Workflow) -> Step:
    """Returns the step that repeats the first training steps under the layout and on one processor."""

    def compare() -> list[Command]:
        folders = compared_folders(out, workflow.processors)
        jobs = zip((workflow.job, workflow.job_of_one), folders, strict=True)
        rest = {"num_steps": COMPARED_STEPS, "gin_param": 'job.dtype="float64"'}
        return [
            ("train", {"data_dir": workflow.data_dir, "model_dir": to, "gin_file": job, **rest}) for job, to in jobs
        ]

    return Step(
        f"repeat the first {COMPARED_STEPS} training steps on {workflow.processors} processors and on 1",
        workflow.compared_duration,
        compare,
        "A layout never changes results. These steps use float64, because float32 rounds differently under every "
        "layout and Adam amplifies the difference.",
    )
