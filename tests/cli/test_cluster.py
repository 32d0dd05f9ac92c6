"""Several servers, each a local process: results, files, memory, and missing or lost servers."""

import contextlib
import os
import re
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import gin
import numpy as np
import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import serve
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.layout import Layout
from mtf_imaging.processes.servers import Server, free_port, silence, stranger
from tests import forked, waiting
from tests.processes.test_servers import grpc_service, web_server

TINY = [
    "--gin_file=unet3d_demo",
    "--gin.UNet3D.base_filters=2",
    "--gin.UNet3D.depth=2",
    "--gin.UNet3D.convs=1",
    "--gin.UNet3D.dropout_rate=0.5",
    "--gin.Adam.learning_rate=0.003",  # the job's schedule ends with the run, and these tests resume with more steps
]
MESHES = {2: ("rows:2", "x:rows"), 4: ("rows:2,cols:2", "x:rows,y:cols")}


def run(*words):
    """Runs a command in this process, with an empty gin configuration."""
    gin.clear_config()
    try:
        return main.main([str(word) for word in words])
    finally:
        gin.clear_config()


def start(*words, **options):
    return forked.start("mtf_imaging.cli.main", *words, **options)


@contextlib.contextmanager
def serving(folder, number, port=0, **options):
    """Starts servers in the working folder `folder`, and yields their processes, addresses and files of output."""
    with contextlib.ExitStack() as ended, tempfile.TemporaryDirectory() as outputs:
        processes, files = [], [Path(outputs, str(index)) for index in range(number)]
        for file in files:
            processes.append(start("serve", f"--port={port}", cwd=folder, stdout=file, **options))
            ended.callback(forked.end, processes[-1])
        yield processes, [f"localhost:{_ready_port(*each)}" for each in zip(processes, files, strict=True)], files


def _ready_port(process, file):
    """Waits until a server is ready, and returns its port."""

    def find():
        return file.exists() and re.search(r":(\d+) is ready, with ", file.read_text())

    return waiting.wait_until(find, "the server", [process], [file])[1]


def chief(*words, cwd, **options):
    """Runs a command in a new process and returns its exit code, stdout and stderr."""
    with tempfile.TemporaryDirectory() as outputs:
        out, err = Path(outputs, "out"), Path(outputs, "err")
        process = start(*words, cwd=cwd, stdout=out, stderr=err, **options)
        try:
            code = waiting.wait_for_end(process, f"the end of {words[0]}", [out, err])
        finally:
            forked.end(process)
        return code, out.read_text(), err.read_text()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    assert run("phantom", "--output_dir", folder / "cases", "--num_cases", 2, "--seed", 1) == 0
    uneven = "x:15,y:13,z:16"  # slices of 8 and 7 voxels along x, and of 7 and 6 along y
    words = ["--input_dir", folder / "cases", "--output_dir", folder / "records", "--resolution", uneven]
    assert run("convert", *words, "--workers", 1) == 0
    return folder


@pytest.fixture(scope="module")
def servers(data):
    (data / "elsewhere").mkdir()
    with serving(data / "elsewhere", 4) as (processes, addresses, _):
        yield addresses
        assert all(process.is_alive() for process in processes), "a server exited during a run"


def job(data, dtype):
    return ["train", "--data_dir", data / "records", "--batch_size=2", *TINY, f"--gin.job.dtype='{dtype}'", "--seed=3"]


@pytest.fixture(scope="module")
def whole(data):
    """The reference runs of one process."""
    for dtype in ("float64", "float32"):
        assert run(*job(data, dtype), "--model_dir", data / f"whole-{dtype}", "--num_steps=4") == 0
    return data


def over(servers):
    mesh_shape, layout = MESHES[len(servers)]
    return [f"--mesh_shape={mesh_shape}", f"--layout={layout}", f"--cluster={','.join(servers)}"]


def losses(folder):
    return np.loadtxt(folder / "losses.csv", delimiter=",", skiprows=1, usecols=1, ndmin=1)


def variables(folder, step):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / f"ckpt-{step}"))
    names = [name for name in reader.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")]
    return {name: reader.get_tensor(name) for name in names}


def assert_same_variables(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("number", MESHES)
def test_servers_train_as_one_process_does(whole, servers, number):
    used, folder = servers[:number], whole / f"over-{number}"
    # A relative path, so that a server that writes to it would write to its own working folder.
    common = [*job(whole, "float64"), f"--model_dir=over-{number}", *over(used)]
    code, out, err = chief(*common, "--num_steps=4", cwd=whole)
    assert code == 0, err
    np.testing.assert_allclose(losses(folder), losses(whole / "whole-float64"), rtol=1e-9)
    assert_same_variables(variables(whole / "whole-float64", 4), variables(folder, 4))
    rows = dict(re.findall(r"^(\S.*?) +([\d,]+) MiB$", out, re.MULTILINE))
    assert rows.keys() == {"this process", *used}
    assert all(int(size.replace(",", "")) > 100 for size in rows.values())
    assert not list((whole / "elsewhere").iterdir())


@pytest.mark.slow
def test_servers_and_the_command_use_no_proxy(data, tmp_path):
    """Nothing listens at the address of the proxy, so a connection through it fails."""
    proxy = "http://127.0.0.1:9"
    environment = {"grpc_proxy": proxy, "https_proxy": proxy, "http_proxy": proxy, "no_proxy": "example.org"}
    with serving(tmp_path, 2, environment=environment) as (_, servers, _):
        words = [*job(data, "float32"), "--model_dir", tmp_path / "run", *over(servers), "--num_steps=1"]
        code, _, err = chief(*words, cwd=tmp_path, environment=environment)
    assert code == 0, err
    assert len(losses(tmp_path / "run")) == 1


@pytest.mark.slow
def test_servers_train_in_float32_and_one_process_resumes(whole, servers):
    folder = whole / "float32"
    code, _, err = chief(*job(whole, "float32"), "--model_dir", folder, *over(servers[:2]), "--num_steps=2", cwd=whole)
    assert code == 0, err
    np.testing.assert_allclose(losses(folder)[0], losses(whole / "whole-float32")[0], rtol=1e-5)
    # The configuration does not contain the servers, so the resumed run computes locally.
    assert "setup.cluster = ''" in (folder / "config.gin").read_text()
    assert run("train", "--data_dir", whole / "records", "--model_dir", folder, "--num_steps=4") == 0
    np.testing.assert_allclose(losses(folder), losses(whole / "whole-float32"), rtol=5e-3)  # Adam amplifies rounding


@pytest.mark.slow
def test_servers_predict_as_one_process_does(whole, servers):
    import nibabel

    volume = next((whole / "cases").glob("volume-*"))
    common = ["predict", "--model_dir", whole / "whole-float64", "--input", volume, "--output"]
    code, out, err = chief(*common, whole / "servers.nii.gz", *over(servers[:2]), cwd=whole)
    assert code == 0, err
    assert "peak memory" in out
    assert run(*common, whole / "one.nii.gz") == 0
    first, second = (np.asarray(nibabel.load(whole / f"{name}.nii.gz").dataobj) for name in ("servers", "one"))
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_lost_server_ends_the_run_and_the_same_command_resumes(whole, tmp_path, how):
    with serving(tmp_path, 2) as (processes, servers, _):
        common = [*job(whole, "float64"), "--model_dir", tmp_path / "run", *over(servers), "--num_steps=400"]
        common += ["--gin.train.checkpoint_every=2", "--gin.setup.cluster_timeout=5"]
        broken = start(*common, cwd=tmp_path, stderr=tmp_path / "err")
        try:
            waiting.wait_until((tmp_path / "run/ckpt-4.index").is_file, "step 4", [broken], [tmp_path / "err"])
            os.kill(processes[1].pid, getattr(signal, how))
            # Only the monitor of the servers notices that a server was stopped. Without it, this makes no progress.
            assert waiting.wait_for_end(broken, logs=[tmp_path / "err"]) == 1
        finally:
            forked.end(broken)
        err = (tmp_path / "err").read_text()
        assert re.search(rf"lost 1 of 2 servers.*: {servers[1]} \(.*start the same job again", err)
        assert "Traceback" not in err

        last = max(int(path.stem.split("-")[1]) for path in (tmp_path / "run").glob("ckpt-*.index"))
        forked.end(processes[1])
        with serving(tmp_path, 1, port=servers[1].split(":")[1]):
            code, _, err = chief(*common, f"--num_steps={last + 2}", cwd=tmp_path)
        assert code == 0, err
        assert f"resuming from step {last}" in err
        assert processes[0].is_alive(), "the other server must keep running"
        whole_losses = losses(whole / "whole-float64")
        np.testing.assert_allclose(losses(tmp_path / "run")[: len(whole_losses)], whole_losses, rtol=1e-9)
        assert len(losses(tmp_path / "run")) == last + 2


@pytest.mark.slow
def test_a_server_reports_its_devices_and_its_peak_memory(tmp_path):
    with serving(tmp_path, 1) as ([process], [address], [output]):
        server = Server("localhost", int(address.split(":")[1]))
        assert (silence(server, waiting.PATIENCE), stranger(server, waiting.PATIENCE)) == (None, None)
        process.terminate()
        assert waiting.wait_for_end(process, logs=[output]) == 0
        _, _, last = output.read_text().partition("\n")
    assert re.fullmatch(
        rf"Next: add --cluster \S+ to train, .*\n{socket.gethostname()}:\d+ ended; its peak memory was [\d,]+ MiB\n",
        last,
    )


def test_a_missing_server_is_reported_soon(data, capsys):
    missing = f"localhost:{free_port()}"
    words = [
        "train",
        "--data_dir",
        data / "records",
        "--model_dir=none",
        f"--cluster={missing}",
        "--gin.setup.cluster_timeout=0.5",
    ]
    begin = time.monotonic()
    assert run(*words) == 1
    assert time.monotonic() - begin < waiting.PATIENCE
    port = missing.partition(":")[2]
    assert capsys.readouterr().err.endswith(
        f"mtf-imaging: {missing} (Connection refused): 1 of 1 servers did not answer within 0.5 s. "
        f"Fix: start a server at port {port} of localhost, or name other servers in cluster.\n"
        "On the command line: `mtf-imaging serve --port PORT` on that host, --cluster.\n"
    )
    assert not Path("none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("service", [grpc_service, web_server])
def test_another_service_on_the_port_of_a_server_is_reported(data, tmp_path, service):
    with service() as server:
        words = ["train", "--data_dir", data / "records", f"--model_dir={tmp_path / 'run'}", f"--cluster={server}"]
        code, _, err = chief(*words, cwd=tmp_path)
    assert code == 1
    assert "Traceback" not in err
    assert f"mtf-imaging: {server}: another " in err
    assert "Fix: start a server at a free port of localhost, for instance port " in err
    assert err.endswith("On the command line: `mtf-imaging serve --port PORT` on that host, --cluster.\n")


@contextlib.contextmanager
def stopping_server():
    """Answers the checks of a server, but no client of gRPC; yields its address and its connections."""
    checks = 2  # that it listens, and that it is of TensorFlow
    settings, message = b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\0\1\0"
    answer = settings + len(message).to_bytes(3, "big") + b"\0\0\0\0\0\1" + message

    connections = []

    def serve():
        with contextlib.suppress(OSError):  # the end of the test closes the socket
            while True:
                connections.append(listening.accept()[0])
                if len(connections) <= checks:
                    connections[-1].sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", connections


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(None, 1), (signal.SIGTERM, 75), (signal.SIGHUP, 75)])
def test_first_contact_ends_after_the_timeout_or_a_signal(data, tmp_path, number, code):
    words = ["train", "--data_dir", data / "records", f"--model_dir={tmp_path / 'run'}", *TINY]
    words += [f"--gin.setup.cluster_timeout={3 if number is None else 3600}"]
    with stopping_server() as (server, connections):
        process = start(*words, f"--cluster={server}", cwd=tmp_path, stderr=tmp_path / "err")
        try:
            if number is not None:
                # The third connection asks for the address of this host, and the fourth one is of gRPC.
                condition = lambda: len(connections) > 3  # noqa: E731
                waiting.wait_until(condition, "the first contact", [process], [tmp_path / "err"])
                os.kill(process.pid, number)
            assert waiting.wait_for_end(process, logs=[tmp_path / "err"]) == code
        finally:
            forked.end(process)
    err = (tmp_path / "err").read_text()
    assert "Traceback" not in err
    if number is None:
        assert f"cluster: TensorFlow did not connect to {server} " in err
        assert " within 3 s, although all of them had answered. Fix: " in err
    else:
        assert f"{number.name}: stopped before the first step" in err


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cluster": "host"}, "'host' is not host:port. Fix: write 'host:2222'."),
        ({"cluster": "a:1,b:1", "mesh_impl": "stacked"}, "Fix: use mesh_impl 'placement', or one server."),
        ({"cluster_timeout": 0}, "cluster_timeout must be a positive number of seconds, not 0."),
    ],
)
def test_invalid_settings(fields, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        JobSetup(**fields)


def test_a_port_in_use_is_refused():
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}: Address already in use. Fix: give another --port, or 0"):
            serve._check_free(port)
    serve._check_free(port)


def device(number, kind="CPU:0"):
    return f"/job:worker/replica:0/task:{number}/device:{kind}"


@pytest.mark.parametrize(
    ("mesh_shape", "devices", "idle"),
    [
        ("rows:2", [device(0), device(1)], None),
        ("rows:4,cols:2", [device(0), device(1)], None),
        ("rows:2,cols:2", [device(n, f"GPU:{k}") for n in range(2) for k in range(2)], None),
        ("", [device(0), device(1)], "host1:1"),
        ("rows:2", [device(0), device(1), device(2)], "host1:1, host2:1"),
        ("rows:2", [device(n, f"GPU:{k}") for n in range(2) for k in range(2)], "host1:1"),
    ],
)
def test_idle_servers_are_refused(mesh_shape, devices, idle):
    from mtf_imaging.jobs import devices as job_devices
    from mtf_imaging.meshes import devices as mesh_devices

    number = 1 + max(mesh_devices.server_number(name) for name in devices)
    servers = tuple(Server(f"host{n}", 1) for n in range(number))
    expected = pytest.raises(ConfigError, match=f"leaves {idle} idle. Fix: ") if idle else contextlib.nullcontext()
    with expected:
        job_devices._check_all_compute(devices, servers, Layout.parse(mesh_shape))


def test_auto_places_processors_on_several_servers():
    import mtf_imaging as mi

    for devices, blocks in (([device(0), device(1)], 2), ([device(0)], 1), (["CPU:0", "CPU:1"], 1)):
        assert mi.meshes.make_mesh_impl("auto", mi.Layout.parse("rows:4"), devices).grid.num_shards == blocks
