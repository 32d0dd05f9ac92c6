"""TensorFlow in several processes with a proxy in the environment, or with different secrets."""

import pytest

from tests.engine.meshes.test_runtime import JOIN, PRELUDE
from tests.engine.processes import starting

# Nothing listens there, so a connection through it fails.
PROXY = "http://user:password@127.0.0.1:9"
PROXIES = {"grpc_proxy": PROXY, "https_proxy": PROXY, "http_proxy": PROXY, "no_proxy": "example.org"}

BROADCAST = (
    PRELUDE
    + """
def main():
    start_together()
    print(mi.meshes.join().broadcast("here"), flush=True)

run_main(main)
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_messages_between_processes_use_no_proxy(tmp_path, host):
    def edit(_, config):
        workers = config["cluster"]["worker"]
        workers[:] = [f"{host}:{address.rpartition(':')[2]}" for address in workers]

    assert starting.run(tmp_path, BROADCAST, 2, timeout=600, environ=PROXIES, edit=edit) == ["here\n"] * 2


@pytest.mark.slow
def test_a_late_process_is_reported_with_the_proxy_and_without_its_password(tmp_path):
    with starting.Group(tmp_path, JOIN, 2, timeout=1, environ={"http_proxy": PROXY}, skip=[1]) as group:
        text = group.wait()[0].message(1)
    assert "Connection refused). http_proxy=http://127.0.0.1:9 is set in this process, but it connects to " in text
    assert "password" not in text


OWN_SECRET = """
import json, os
number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
os.environ["MTF_IMAGING_SECRET"] = ["alpha", "alpha", "omega"][number]
"""


@pytest.mark.slow
def test_processes_with_different_secrets_end_before_the_first_step(tmp_path):
    with starting.Group(tmp_path, OWN_SECRET + JOIN, 3, timeout=600) as group:
        ends = group.wait()
    name = [f"process {i} ({address})" for i, address in enumerate(group.addresses)]
    for end in ends.values():
        assert end.message(2) == (
            f"{name[2]} was started with another secret than {name[0]}, or without one. Fix: start all processes with "
            "the same MTF_IMAGING_SECRET."
        )
        assert not any(secret in end.out + end.err for secret in ("alpha", "omega"))
