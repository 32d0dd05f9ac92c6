"""`mtf-imaging launch`: output, exit codes, signals, restarts and the environment of its processes.

The programs of these tests are tiny Python programs, so TensorFlow is never imported.
"""

import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from mtf_imaging.cli.main import main
from mtf_imaging.cli.runtime.launching.environment import build_environments
from mtf_imaging.cli.runtime.launching.output import Output
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.engine.processes.secret import SECRET
from tests import waiting

ROOT = Path(__file__).parents[2]
GRACE = 0.5
LONG = 60.0  # a grace time that does not expire, even on a busy machine
# The command line with another grace time, which is its first word.
_PROGRAM = """
import sys
from mtf_imaging.cli.main import main
from mtf_imaging.cli.runtime.launching import group
group.GRACE = float(sys.argv[1])
sys.exit(main(["launch", *sys.argv[2:]]))
"""
# The first lines of every program.
_HEADER = """
import json, os, signal, sys, time
from pathlib import Path
me = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.005)
"""
NO_PROGRAM = "there is no command, Python file or executable program"
_SLEEP = "time.sleep(3600)"  # longer than any test


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("TF_CONFIG", "MTF_IMAGING_TIMEOUT", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)


def reset_signals():
    """Undoes what a background shell and nohup set: their processes ignore Ctrl-C and SIGHUP."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(body, *words, grace=GRACE, preexec=reset_signals, **options):
    """Starts `launch` with a program."""
    Path("program.py").write_text(_HEADER + body)
    command = [sys.executable, "-c", _PROGRAM, str(grace), *words, "--", "program.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, text=True, preexec_fn=preexec, **pipes)


def finish(process):
    with waiting.killed_at_end(process):
        return waiting.communicate(process, "the end of launch")


def launch(body, *words, num=2, **options):
    """Returns the exit code, stdout and stderr of `launch` with a program."""
    return finish(start(body, f"--num_processes={num}", *words, **options))


def wait_for_files(process, *names):
    waiting.wait_until(lambda: all(Path(name).exists() for name in names), f"{names}", [process], every=0.005)


def is_running(name):
    """Returns whether the process runs whose process ID is in a file."""
    return waiting.is_running(int(Path(name).read_text()))


def test_lines_of_other_processes_have_a_prefix():
    code, out, err = launch("print(f'a{me}\\nb{me}'); print(f'e{me}', file=sys.stderr)", num=3)
    assert code == 0
    assert sorted(out.splitlines()) == ["[1] a1", "[1] b1", "[2] a2", "[2] b2", "a0", "b0"]
    assert sorted(err.splitlines()) == ["[1] e1", "[2] e2", "e0"]


def test_lines_never_mix():
    body = "for i in range(300): sys.stdout.write(f'{me}' * 40); sys.stdout.write(f'{me}' * 40 + '\\n')"
    code, out, _ = launch(body, num=4)
    assert code == 0
    expected = ["0" * 80, *(f"[{me}] {str(me) * 80}" for me in (1, 2, 3))]
    assert sorted(out.splitlines()) == sorted(expected * 300)


def test_output_without_a_line_end_is_complete():
    code, out, _ = launch("sys.stdout.write('x' * 200_000 if me else '')")
    assert code == 0
    assert out.endswith("\n")
    assert "".join(line.removeprefix("[1] ") for line in out.splitlines()) == "x" * 200_000


def test_output_is_copied_at_once():
    process = start("print('ready', me); wait_for('go')", "--num_processes=2")
    lines = {process.stdout.readline(), process.stdout.readline()}
    Path("go").touch()
    assert lines == {"ready 0\n", "[1] ready 1\n"}
    assert finish(process)[0] == 0


@pytest.mark.parametrize("program", ["sleep 3600", "yes"])
def test_a_program_that_stays_behind_does_not_keep_the_output_open(program):
    """Neither program ends before launch does: `yes` ends when nobody reads its output."""
    body = f"import subprocess; Path('pid').write_text(str(subprocess.Popen({program.split()}).pid))"
    try:
        assert launch(body, num=1, stdout=subprocess.DEVNULL)[0] == 0
        assert program == "yes" or is_running("pid")
    finally:
        with contextlib.suppress(ProcessLookupError):  # `yes` ends when nobody reads its output
            os.kill(int(Path("pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("prefix", "chunks", "writes"),
    [
        (b"", [b"\r10%", b"\r20%", b"\n"], [b"\r", b"10%\r", b"20%\n", b""]),
        (b"", [b"a", b"b\nc", b"d"], [b"", b"ab\n", b"", b"cd"]),
        (b"[1] ", [b"\r10%", b"\r20%", b"\nend"], [b"", b"", b"[1] 20%\n", b"[1] end\n"]),
        (b"[1] ", [b"a\r\n\n", b"b"], [b"[1] a\n[1] \n", b"", b"[1] b\n"]),
    ],
)
def test_progress_bars_in_a_pipe(prefix, chunks, writes, tmp_path):
    """Without a prefix, a bar is copied as it is; with a prefix, only its last state is."""
    (pipe, end), output, texts = os.pipe(), Output(), [b""]
    with open(tmp_path / "text", "wb") as file:
        output.add(pipe, file.fileno(), prefix)
        for chunk in chunks:
            os.write(end, chunk)
            output.copy(5.0)
            texts.append((tmp_path / "text").read_bytes())
        os.close(end)
        output.close()
        texts.append((tmp_path / "text").read_bytes())
    assert [after.removeprefix(before) for before, after in itertools.pairwise(texts)] == writes


def test_process_0_writes_to_the_terminal_itself():
    controller, terminal = pty.openpty()
    # One write, because the line of process 1 may come between two writes.
    body = "sys.stdout.write(f'{me} {sys.stdout.isatty()} {sys.stderr.isatty()}\\n')"
    process = start(body, "--num_processes=2", stdout=terminal)
    os.close(terminal)
    text = b""
    with contextlib.suppress(OSError):  # the end of the terminal
        while data := os.read(controller, 1000):
            text += data
    assert finish(process)[0] == 0
    os.close(controller)
    assert sorted(text.decode().splitlines()) == ["0 True False", "[1] 1 False False"]


def test_the_environment(monkeypatch):
    body = "print(json.dumps([me, {k: v for k, v in os.environ.items() if 'T' in k}]))"
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "7")
    code, out, _ = launch(body, "--timeout=2.5", num=3)
    assert code == 0
    environments = dict(json.loads(re.sub(r"^\[\d\] ", "", line)) for line in out.splitlines())
    processes = [find_processes(environments[me]) for me in range(3)]
    assert [one.index for one in processes] == [0, 1, 2]
    assert len({one.addresses for one in processes}) == 1
    assert {address.host for address in processes[0].addresses} == {"127.0.0.1"}
    assert {one.timeout for one in processes} == {2.5}
    for environ in environments.values():
        assert environ["TF_NUM_INTRAOP_THREADS"] == "7"
        assert environ["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 3))
        assert "TF_NUM_INTEROP_THREADS" not in environ


def test_the_timeout_of_the_environment():
    assert [one["MTF_IMAGING_TIMEOUT"] for one in build_environments({}, 2, None)] == ["60", "60"]
    given = {"MTF_IMAGING_TIMEOUT": "5"}
    assert build_environments(given, 1, None)[0]["MTF_IMAGING_TIMEOUT"] == "5"
    assert build_environments(given, 1, 7.0)[0]["MTF_IMAGING_TIMEOUT"] == "7"


def test_cores_are_divided(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    for num, share in ((1, "8"), (3, "2"), (16, "1")):
        for environ in build_environments({}, num, None):
            assert (environ["OMP_NUM_THREADS"], environ["TF_NUM_INTRAOP_THREADS"]) == (share, share)


def test_processes_have_no_standard_input():
    code, out, _ = launch("print(repr(sys.stdin.read()))", num=1, stdin=subprocess.PIPE)
    assert (code, out) == (0, "''\n")


def test_the_first_failure_decides_the_exit_code():
    body = "wait_for('failed') if me != 1 else None; Path('failed').touch(); time.sleep(me == 0); sys.exit(me + 3)"
    code, out, err = launch(body, num=2)
    assert (code, out, err) == (4, "", "mtf-imaging: process 1 failed with exit code 4.\n")


def test_a_killed_process_decides_the_exit_code():
    body = """
Path(f"{me}").touch()
if me == 2:
    os.kill(os.getpid(), signal.SIGKILL)
wait_for("2")
time.sleep(0.2)
sys.exit("process 2 is lost")
"""
    code, _, err = launch(body, num=3, grace=LONG)
    assert code == 128 + signal.SIGKILL
    *others, last = err.splitlines()
    assert last == "mtf-imaging: process 2 was killed by SIGKILL."
    assert sorted(others) == ["[1] process 2 is lost", "process 2 is lost"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_that_outlive_a_failure_are_ended(number):
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if number == signal.SIGKILL else "pass"
    body = f"""
if me == 0:
    wait_for("ready")
    sys.exit(7)
{ignore}
Path("ready").write_text(str(os.getpid()))
{_SLEEP}
"""
    began = time.monotonic()
    code, _, err = launch(body)
    assert (code, err) == (7, "mtf-imaging: process 0 failed with exit code 7.\n")
    assert time.monotonic() - began > GRACE
    assert not is_running("ready")


def test_a_failure_leaves_the_others_time_to_report_it():
    body = "wait_for('go') if me else None; Path('go').touch(); time.sleep(me * 0.25); sys.exit(f'{me} ends')"
    code, _, err = launch(body, grace=LONG)
    assert (code, err) == (1, "0 ends\n[1] 1 ends\nmtf-imaging: process 0 failed with exit code 1.\n")


@pytest.mark.parametrize("exit_code", [75, 130])
def test_processes_that_were_all_stopped(exit_code):
    assert launch(f"sys.exit({exit_code})", "--restarts=2", num=3) == (exit_code, "", "")


@pytest.mark.parametrize("exit_code", [75, 130])
def test_a_process_that_is_stopped_first_decides_the_exit_code(exit_code):
    body = f"""
if me == 1:
    sys.exit({exit_code})
while os.path.exists(f"/proc/{{Path('pid').read_text()}}"):
    time.sleep(0.01)
time.sleep(0.3)
sys.exit("lost process 1")
"""
    body = f"if me: Path('pid').write_text(str(os.getpid()))\nelse: wait_for('pid')\n{body}"
    assert launch(body, grace=LONG) == (exit_code, "", "lost process 1\n")


def test_a_second_signal_ends_programs_that_ignore_it():
    body = f"""
signal.signal(signal.SIGTERM, lambda *_: Path(f"first{{me}}").touch())
Path(f"ready{{me}}").touch()
while True:
    {_SLEEP}
"""
    process = start(body, "--num_processes=2")
    wait_for_files(process, "ready0", "ready1")
    process.send_signal(signal.SIGTERM)
    wait_for_files(process, "first0", "first1")
    time.sleep(1.1)  # signals in a shorter time count once
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 128 + signal.SIGKILL


def test_a_lost_terminal_leaves_the_processes_time_to_save():
    body = """
def save(*_):
    for _ in range(100 * me):  # through launch, which process 0 does not need in a terminal
        print("a line")
    Path(f"saved{me}").touch()
    sys.exit(75)
signal.signal(signal.SIGHUP, save)
print("ready", flush=True)
Path(f"ready{me}").touch()
while True:
    time.sleep(0.01)
"""
    master, slave = pty.openpty()

    def in_the_terminal():
        reset_signals()
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = start(body, "--num_processes=2", stdout=slave, stderr=slave, preexec=in_the_terminal)
    os.close(slave)
    wait_for_files(process, "ready0", "ready1")
    os.close(master)
    assert waiting.wait_for_end(process) == 75
    assert Path("saved0").exists()
    assert Path("saved1").exists()


def test_a_process_that_was_stopped_leaves_the_others_all_the_time_they_need():
    body = f"""
if me:
    wait_for("stopped")
    time.sleep({3 * GRACE})
    Path("saved").touch()
Path("stopped").touch()
sys.exit(75)
"""
    assert launch(body) == (75, "", "")
    assert Path("saved").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"])
def test_signals_are_passed_on_once_to_each_process(name):
    body = f"""
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.{name}, handle)
Path(f"ready{{me}}").touch()
while not count:
    time.sleep(0.01)
Path(f"first{{me}}").touch()
wait_for("go")
print(count)
sys.exit(75)
"""
    process = start(body, "--num_processes=2", "--restarts=1")
    wait_for_files(process, "ready0", "ready1")
    process.send_signal(getattr(signal, name))
    wait_for_files(process, "first0", "first1")
    time.sleep(0.1)
    Path("go").touch()
    code, out, err = finish(process)
    assert (code, sorted(out.splitlines()), err) == (75, ["1", "[1] 1"], "")


def test_a_second_signal_is_passed_on_as_well():
    body = """
signal.signal(signal.SIGTERM, lambda *_: (Path(f"first{me}").touch(), signal.signal(signal.SIGTERM, signal.SIG_DFL)))
Path(f"ready{me}").touch()
while True:
    time.sleep(0.1)
"""
    process = start(body, "--num_processes=2", "--restarts=1")
    wait_for_files(process, "ready0", "ready1")
    process.terminate()
    wait_for_files(process, "first0", "first1")
    time.sleep(2 * GRACE)
    assert process.poll() is None
    process.terminate()
    code, _, err = finish(process)
    assert code == 128 + signal.SIGTERM
    assert re.fullmatch(r"mtf-imaging: process [01] was killed by SIGTERM\.\n", err)


def test_an_ignored_ctrl_c_stays_ignored():
    Path("program.py").write_text(_HEADER + "Path('ready').touch(); wait_for('go')")
    command = [sys.executable, "-c", _PROGRAM, str(GRACE), "--num_processes=1", "--", "program.py"]
    process = subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    wait_for_files(process, "ready")
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    Path("go").touch()
    assert waiting.wait_for_end(process) == 0


def test_ctrl_c_in_a_terminal_reaches_each_process_once():
    """The terminal signals the processes of its foreground group. Those of `launch` are not in it."""
    body = """
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, handle)
Path(f"ready{me}").touch()
wait_for("go")
sys.exit(count + 10)
"""
    process = start(body, "--num_processes=2", start_new_session=True)
    wait_for_files(process, "ready0", "ready1")
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.2)
    Path("go").touch()
    assert finish(process)[0] == 11


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can end a process with its parent")
def test_processes_end_with_a_killed_launcher():
    body = f"Path(f'{{me}}.part').write_text(str(os.getpid())); os.rename(f'{{me}}.part', f'{{me}}'); {_SLEEP}"
    process = start(body, "--num_processes=2", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_files(process, "0", "1")
    process.kill()
    process.wait()
    waiting.wait_until(lambda: not any(map(is_running, "01")), "the end of the processes")


def test_processes_end_when_nobody_reads_the_output():
    body = f"Path(f'{{me}}').write_text(str(os.getpid())); wait_for('go'); print(me); {_SLEEP}"
    process = start(body, "--num_processes=2")
    wait_for_files(process, "0", "1")
    process.stdout.close()
    Path("go").touch()
    assert waiting.wait_for_end(process) == 1
    assert process.stderr.read() == ""
    process.stderr.close()
    assert not any(map(is_running, "01"))


COUNT = """
attempts = sorted(Path().glob(f"attempt{me}.*"))
Path(f"attempt{me}.{len(attempts)}").write_text(os.environ["TF_CONFIG"])
"""


def test_all_processes_start_again_after_a_failure():
    body = f"{COUNT}\nif me == 1 and len(attempts) < 2: os.kill(os.getpid(), signal.SIGKILL)\nprint('done')"
    code, out, err = launch(body, "--restarts=3")
    assert code == 0
    assert sorted(out.splitlines()) == ["[1] done", *["done"] * 3]
    line = "mtf-imaging: process 1 was killed by SIGKILL; starting all processes again, restart {} of 3\n"
    assert err == line.format(1) + line.format(2)
    configs = [{Path(f"attempt{me}.{n}").read_text() for n in range(3)} for me in range(2)]
    assert [len(one) for one in configs] == [3, 3], "each attempt has new ports"


def test_restarts_are_counted():
    code, _, err = launch(f"{COUNT}\nsys.exit(5)", "--restarts=1", num=1)
    assert code == 5
    assert err.splitlines() == [
        "mtf-imaging: process 0 failed with exit code 5; starting all processes again, restart 1 of 1",
        "mtf-imaging: process 0 failed with exit code 5.",
    ]
    assert len([*Path().glob("attempt0.*")]) == 2


def test_a_wrong_command_line_is_not_started_again():
    code, _, err = launch(f"{COUNT}\nsys.exit(2)", "--restarts=1", num=1)
    assert (code, err) == (2, "mtf-imaging: process 0 failed with exit code 2.\n")
    assert len([*Path().glob("attempt0.*")]) == 1


def test_a_failure_after_a_signal_is_not_started_again():
    body = f"{COUNT}\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nPath('ready').touch()\n{_SLEEP}"
    process = start(body, "--num_processes=1", "--restarts=1")
    wait_for_files(process, "ready")
    process.terminate()
    assert finish(process) == (9, "", "mtf-imaging: process 0 failed with exit code 9.\n")
    assert len([*Path().glob("attempt0.*")]) == 1


def run(*words):
    command = [sys.executable, "-c", _PROGRAM, str(GRACE), "--num_processes=2", "--", *words]
    return finish(subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))


@pytest.mark.parametrize("words", [["--version"], ["mtf-imaging", "--version"]], ids=" ".join)
def test_commands_run_with_this_interpreter(words, monkeypatch):
    monkeypatch.setenv("PATH", "")  # neither python nor mtf-imaging is on PATH
    code, out, err = run(*(["mtf-imaging", *words] if words[0] != "mtf-imaging" else words))
    assert (code, err) == (0, "")
    first, second = sorted(out.splitlines())
    assert first.startswith("[1] mtf-imaging ")
    assert second == first.removeprefix("[1] ")


@pytest.mark.slow
@pytest.mark.parametrize("program", [[], ["mtf-imaging"]], ids=["alone", "mtf-imaging"])
def test_a_command_gets_all_its_flags(program):
    code, out, _ = run(*program, "parameters", "--help")
    assert code == 0
    assert "mtf-imaging parameters: lists the gin parameters" in out
    assert "[1] mtf-imaging parameters: lists the gin parameters" in out
    code, _, err = run(*program, "evaluate", "--model_dir=a", "--input_dir=b", "--output_dir=c")
    assert code == 2
    assert "a: this folder does not exist." in err


def test_other_programs_get_their_arguments_unchanged():
    code, out, _ = run("echo", "--num_processes=9", "--", "-x", "a  b", "--help")
    assert code == 0
    assert sorted(out.splitlines()) == [
        "--num_processes=9 -- -x a  b --help",
        "[1] --num_processes=9 -- -x a  b --help",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--num_processes=2",
            "launch needs a command after --. Example: mtf-imaging launch --num_processes 4 -- train",
        ),
        ("--num_processes=2 --", "launch needs a command after --."),
        ("--num_processes=2 train --data_dir=a", "launch needs a command after --."),
        ("-- train", "launch needs --num_processes."),
        ("train -- train", "launch takes only flags, but 'train' is not a flag."),
        ("--num_processes=0 -- ls", "--num_processes must be an int of at least 1, not 0."),
        ("--num_processes=-1 -- ls", "--num_processes must be an int of at least 1, not -1."),
        ("--num_processes=two -- ls", "--num_processes=two: 'two' is not an integer."),
        ("--num_processes=2 --restarts=-1 -- ls", "--restarts must be an int of at least 0, not -1."),
        ("--num_processes=2 --command=ls -- ls", "launch has no flag '--command'"),
        ("--num_processes=2 --timeout=0 -- ls", "--timeout must be a number above 0, not 0.0."),
        ("--num_processes=2 --timeout=nan -- ls", "--timeout must be a number above 0, not nan."),
        ("--num_processes=2 -- trian", f"{NO_PROGRAM} 'trian'. Did you mean 'train'? Fix: "),
        ("--num_processes=2 -- mtf-imaging trian", "there is no command 'trian'. Did you mean 'train'? Commands: "),
        ("--num_processes=2 -- mtf-imaging", "mtf-imaging after -- has no command. Commands: "),
        ("--num_processes=2 -- train --data=a", "train has no flag '--data'. Did you mean '--data_dir'?"),
        ("--num_processes=2 -- train", "train needs --data_dir and --model_dir."),
        ("--num_processes=2 -- launch --num_processes=2 -- ls", "launch cannot start itself. Fix: "),
        ("--num_processes=2 -- missing.py", f"{NO_PROGRAM} 'missing.py'."),
        ("--num_processes=2 -- ./folder", f"{NO_PROGRAM} './folder'."),
        ("--num_processes=2 -- ./text", f"{NO_PROGRAM} './text'."),
        ("--num_processes=2 -- ./script", "script: cannot be started: Exec format error. Fix: put the interpreter of"),
    ],
)
def test_wrong_command_lines_are_refused_in_one_line(words, message, capsys):
    Path("folder").mkdir()
    Path("text").touch()
    Path("script").write_text("echo no interpreter")
    Path("script").chmod(0o755)
    assert main(["launch", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err.removeprefix("mtf-imaging: ")


def test_help_is_for_launch_before_the_dashes_only(capsys):
    assert main(["launch", "--help"]) == 0
    out, _ = capsys.readouterr()
    assert "Usage:\n  mtf-imaging launch [flags] -- COMMAND ...\n" in out
    assert "--command" not in out


def test_launch_makes_one_secret_for_every_group_of_processes():
    groups = [{environ[SECRET] for environ in build_environments({}, 3, None)} for _ in range(2)]
    assert [len(group) for group in groups] == [1, 1]
    assert groups[0].isdisjoint(groups[1])
    assert build_environments({SECRET: "mine"}, 2, None)[1][SECRET] == "mine"
