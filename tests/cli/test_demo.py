"""The demo: the held-out cases, the commands that it runs, and the report."""

import json
import re

import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import all_commands, demo
from mtf_imaging.cli.runtime import subprocesses as commands
from mtf_imaging.cli.runtime import usage
from mtf_imaging.data.cases.hold_out import hold_out
from mtf_imaging.errors import DataError, MtfImagingError


def make_cases(folder, number):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(number):
        for kind in ("volume", "segmentation"):
            (folder / f"{kind}-{n}.nii.gz").touch()
    return folder


@pytest.mark.parametrize(("number", "held_out"), [(2, ["1"]), (3, ["2"]), (4, ["3"]), (9, ["3", "7"])])
def test_every_fourth_case_is_held_out(tmp_path, number, held_out):
    cases = make_cases(tmp_path / "cases", number)
    for _ in range(2):  # the second call keeps the links
        found = hold_out(cases, tmp_path / "train", tmp_path / "held_out")
        assert [case.key for case in found] == held_out
    assert len(list((tmp_path / "train").iterdir())) == 2 * (number - len(held_out))


def test_one_case_is_too_few(tmp_path):
    with pytest.raises(DataError, match=r"contains 1 case\. Fix: give at least 2"):
        hold_out(make_cases(tmp_path / "cases", 1), tmp_path / "train", tmp_path / "held_out")


def test_cases_of_another_run_are_not_mixed_in(tmp_path):
    hold_out(make_cases(tmp_path / "a", 5), tmp_path / "train", tmp_path / "held_out")
    with pytest.raises(DataError, match=r"belongs to another run\. Fix: use another output_dir"):
        hold_out(make_cases(tmp_path / "b", 5), tmp_path / "train", tmp_path / "held_out")


def fake_run(out):
    """Returns a replacement for `run_command` that writes the files of the report, and the list of its calls."""
    lines = []

    def run(command, **values):
        lines.append((command, values))
        if command == "phantom":
            make_cases(values["output_dir"], 4)
        if command == "train":
            values["model_dir"].mkdir()
            (values["model_dir"] / "losses.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
        if command == "evaluate":
            (out / "evaluation" / "pictures").mkdir(parents=True)
            (out / "evaluation" / "pictures" / "case-3.png").touch()
            dice = {"liver": {"dice": 0.9}, "lesion": {"dice": 0.5}}
            total = {"dice_per_case": 0.9, "dice_global": 0.8}
            metrics = {"cases": {"3": dice}, "liver": total, "lesion": total}
            (out / "evaluation" / "metrics.json").write_text(json.dumps(metrics))

    return run, lines


@pytest.mark.parametrize("own_data", [False, True])
def test_the_demo_runs_commands_with_flags_that_exist(tmp_path, monkeypatch, capsys, own_data):
    out = tmp_path / "demo"
    run, lines = fake_run(out)
    monkeypatch.setattr(demo, "run_command", run)
    argv = [f"--output_dir={out}"]
    if own_data:
        argv.append(f"--input_dir={make_cases(tmp_path / 'data', 4)}")
    assert main.main(["demo", *argv]) == 0
    commands = [command for command, _ in lines]
    expected = ["phantom", "convert", "convert", "train", "evaluate", "predict", "train", "train"]
    assert commands == expected[own_data:]
    for command, values in lines:
        words = [f"--gin_file={name}" for name in values.pop("gin_file", [])]
        words += [f"--{name}={value}" for name, value in values.items()]
        usage.parse_flags(command, all_commands.load(command), words)
    report = capsys.readouterr().out
    assert "step 2           0.250000000000   0.250000000000\n" in report
    assert "case 3                         0.900   0.500\n" in report
    assert f"Picture: {out / 'evaluation' / 'pictures' / 'case-3.png'}" in report
    total = 6 if own_data else 7
    assert re.findall(r"^# Step (\d+) of (\d+): .* \(about .*\)\.$", report, re.MULTILINE) == [
        (str(number + 1), str(total)) for number in range(total)
    ]
    assert report.endswith(
        f"tensorboard --logdir {out / 'model'}\n"
        f"Next: mtf-imaging explain --model_dir {out / 'model'} --data_dir {out / 'records'}\n"
    )
    (train, *_) = (values for command, values in lines if command == "train")
    assert (train["data_dir"], train["eval_dir"]) == (out / "records", out / "held_out_records")


def test_a_command_is_printed_as_typed_and_its_failure_ends_the_demo(tmp_path, capfd):
    missing = tmp_path / "not there"
    with pytest.raises(MtfImagingError, match="this command failed: mtf-imaging convert --input_dir '/"):
        commands.run_command("convert", input_dir=missing, output_dir=tmp_path, resolution=16)
    out, err = capfd.readouterr()
    assert out == f"$ mtf-imaging convert --input_dir '{missing}' --output_dir {tmp_path} --resolution 16\n"
    assert f"mtf-imaging: {missing}: " in err
    assert "Traceback" not in err
