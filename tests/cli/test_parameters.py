"""`mtf-imaging parameters`: every gin parameter has a type and a meaning, including those of custom modules."""

import json
import subprocess
import sys

import gin
import pytest

from mtf_imaging.cli.config.configurables import Parameter
from mtf_imaging.cli.main import main
from mtf_imaging.settings.docstrings import parameter_meanings

MODULE = '''
import dataclasses
import gin

@gin.configurable(module="mine")
@dataclasses.dataclass
class Widths:
    """Widths.

    Attributes:
      least, most: voxels of a thing that is
        kept.
    """
    least: int
    most: "int | None" = None
    names: list = dataclasses.field(default_factory=list)

@gin.configurable(module="mine", denylist=["hidden"])
def unknown(number=3, hidden=1):
    """Has no description of its parameter."""
'''


@pytest.fixture(scope="module")
def found():
    """Lists the parameters in a new process, because other tests register their own functions."""
    command = [sys.executable, "-m", "mtf_imaging.cli.main", "parameters", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {one["name"]: Parameter(**one) for one in json.loads(done.stdout)}


def test_every_parameter_has_a_meaning(found):
    """Every new parameter needs an entry under Args or Attributes of its docstring."""
    assert [name for name, one in found.items() if not one.meaning.strip()] == []


def test_every_parameter_has_a_type(found):
    assert [name for name, one in found.items() if one.type in ("any", "object", "NoneType")] == []


def test_the_list_includes_every_parameter_of_the_gin_files(found):
    assert {
        *("job.task", "setup.mesh_shape", "train.num_steps", "hardware.memory", "Adam.learning_rate"),
        *("unet3d.UNet3D.depth", "resnet.ResNet.blocks", "Augmentation.flips", "PolyDecay.power"),
    } <= found.keys()
    assert not [name for name in found if "mesh_tensorflow" in name or name.startswith("gin.")]
    assert found["train.num_steps"][:3] == ("train.num_steps", "int, steps", None)
    assert found["unet3d.UNet3D.depth"][1:] == ("int", "4", None, "number of resolutions.")
    assert found["setup.resolution"].type == "str | int | Sequence[int] | None, voxels"
    assert found["setup.mesh_shape"].default == "''"
    assert "parameters" not in " ".join(found)


def test_parameters_of_custom_modules_and_values_of_gin_files(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_widths.py").write_text(MODULE)
    (tmp_path / "own.gin").write_text("import own_widths\nmine.Widths.least = 3\nsetup.layout = 'x:rows'\n")
    monkeypatch.chdir(tmp_path)
    assert main(["parameters", "mine.", "--gin_file=own.gin"]) == 0
    assert capsys.readouterr().out == (
        "mine.unknown.number: int (default: 3)\n"
        "mine.Widths.least: int (required, set to 3)\n      voxels of a thing that is kept.\n"
        "mine.Widths.most: int | None (default: None)\n      voxels of a thing that is kept.\n"
        "mine.Widths.names: list (default: [])\n"
        "Next: mtf-imaging train --help\n"
    )
    gin.clear_config()
    assert main(["parameters", "--json", "--gin_file=own.gin", "SETUP.LAYOUT"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["name"], one["type"], one["default"], one["value"]) == ("setup.layout", "str", "''", "'x:rows'")


def test_words_filter_names_and_meanings(capsys):
    assert main(["parameters", "batch", "norm", "--filter=moving"]) == 0
    out = capsys.readouterr().out
    meaning = "fraction of the moving statistics that each update of a batch norm keeps."
    assert f"unet3d.UNet3D.norm_momentum: float (default: 0.9)\n      {meaning}\n" in out
    assert "resnet.ResNet.norm_momentum" in out
    assert "UNet3D.depth" not in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["UNet4D"], "no parameter has 'UNet4D' in its name or meaning. Did you mean 'UNet3D'? Fix: try another word"),
        (["--gin_file=none"], "there is no gin file 'none'"),
        (["--gin_param=UNet3D.deph=1"], "Did you mean 'depth'?"),
    ],
)
def test_errors(words, text, capsys):
    assert main(["parameters", *words]) == 2
    assert text in capsys.readouterr().err


def test_a_docstring_takes_precedence_over_those_of_base_classes():
    class Base:
        """A base.

        Args:
          first: of the base.
          second (int): of the base,
            on two lines.

        Returns:
          third: nothing.
        """

    class Own(Base):
        def __init__(self, first, second):
            """Makes it.

            Args:
              first: of its own.
            """

    assert parameter_meanings(Own) == {"first": "of its own.", "second": "of the base, on two lines."}
