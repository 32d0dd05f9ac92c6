"""The files for Kubernetes: the schemas of its releases, names and numbers that must agree, and the image."""

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
from kubernetes_validate.utils import all_versions

import mtf_imaging
from mtf_imaging.cli.commands import train
from mtf_imaging.cli.runtime import failures, usage
from mtf_imaging.engine.layout.layout import Layout
from mtf_imaging.engine.processes import kubernetes
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.errors import ConfigError
from tests import waiting
from tests.hosts import pods
from tests.hosts.pods import DOCKERFILE, FOLDER, documents
from tests.test_packaging import FILES, FOLDERS

ROOT = Path(__file__).parents[1]
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
OLDEST = 29  # podReplacementPolicy is on by default since Kubernetes 1.29
VERSIONS = [version for version in all_versions() if int(version.split(".")[1]) >= OLDEST]
LONGEST_PAUSE = 360  # seconds before a Job replaces a failed pod


@pytest.fixture
def manifest():
    found = pods.read_job()
    assert found.keys() == {"Service", "NetworkPolicy", "Job"}
    return found


@pytest.fixture
def job(manifest):
    return manifest["Job"]["spec"]


@pytest.fixture
def pod(job):
    return job["template"]["spec"]


@pytest.fixture
def container(pod):
    (only,) = pod["containers"]
    return only


@pytest.fixture
def environ(container):
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


@pytest.fixture
def flags(container):
    """Returns the flags of the command, as the command line parses them."""
    assert container["args"][0] == "train"
    return usage.parse_flags("train", train, container["args"][1:])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_valid(path, version):
    for document in documents(path):
        assert kubernetes_validate.validate(document, version, strict=True) == version.rpartition(".")[0]


def test_the_validation_finds_faults(manifest):
    misspelled, untyped = copy.deepcopy(manifest["Job"]), copy.deepcopy(manifest["Job"])
    misspelled["spec"]["parallelisms"] = misspelled["spec"].pop("parallelism")
    untyped["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = 4
    for document, text in ((misspelled, "parallelisms"), (untyped, "4 is not of type")):
        with pytest.raises(kubernetes_validate.ValidationError, match=text):
            kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_the_guide_names_the_oldest_version():
    assert VERSIONS[0] == f"1.{OLDEST}.0"
    assert f"Kubernetes 1.{OLDEST} or later" in (ROOT / "docs/guides/kubernetes.md").read_text()


def test_the_numbers_of_pods_agree(job, environ, flags):
    num = job["completions"]
    assert job["completionMode"] == "Indexed"
    assert job["parallelism"] == num == int(environ["MTF_IMAGING_PROCESSES"])
    assert job["backoffLimit"] % num == 0
    assert Layout.parse(flags.mesh_shape, flags.layout).processors % num == 0


def test_the_processes_of_the_pods(manifest, job, pod, environ):
    service, name = manifest["Service"]["metadata"]["name"], manifest["Job"]["metadata"]["name"]
    assert pod["subdomain"] == service == environ["MTF_IMAGING_SERVICE"]
    hosts = [f"{name}-{index}" for index in range(job["completions"])]  # as Kubernetes names the pods
    for index, host in enumerate(hosts):
        processes = find_processes({**environ, "JOB_COMPLETION_INDEX": str(index), "HOSTNAME": host})
        assert processes.index == index
        assert [str(address) for address in processes.addresses] == [f"{host}.{service}:2222" for host in hosts]
        assert processes.timeout > LONGEST_PAUSE


def test_the_secret_of_the_guide_is_that_of_the_job(container):
    text = (ROOT / "docs/guides/kubernetes.md").read_text()
    name, key = re.search(r"^kubectl create secret generic (\S+) --from-literal=(\w+)=", text, re.MULTILINE).groups()
    (variable,) = [each for each in container["env"] if each["name"] == "MTF_IMAGING_SECRET"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": name, "key": key, "optional": True}


def test_the_service_and_the_policy_select_the_pods(manifest, job):
    labels, service = job["template"]["metadata"]["labels"], manifest["Service"]["spec"]
    assert service["selector"] == labels
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    policy = manifest["NetworkPolicy"]["spec"]
    (rule,) = policy["ingress"]
    assert [policy["podSelector"], *(peer["podSelector"] for peer in rule["from"])] == [{"matchLabels": labels}] * 2
    assert policy["policyTypes"] == ["Ingress"]


def test_the_ports_are_those_of_the_processes(manifest, container):
    both = {(kubernetes.PORT, "TCP"), (kubernetes.PORT, "UDP")}
    (rule,) = manifest["NetworkPolicy"]["spec"]["ingress"]
    assert {(port["port"], port["protocol"]) for port in manifest["Service"]["spec"]["ports"]} == both
    assert {(port["port"], port["protocol"]) for port in rule["ports"]} == both
    assert {(port["containerPort"], port["protocol"]) for port in container["ports"]} == both


def test_exit_codes_decide_about_a_new_pod(job, pod, container):
    assert pod["restartPolicy"] == "Never"  # podFailurePolicy has no effect with another one
    rules = [rule for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert {rule["onExitCodes"]["containerName"] for rule in rules} == {container["name"]}
    actions = {code: rule["action"] for rule in rules for code in rule["onExitCodes"]["values"]}
    assert actions == {
        failures.INTERRUPTED: "Ignore",
        128 + signal.SIGTERM: "Ignore",
        failures.exit_code(ConfigError("")): "FailJob",
    }


def mounts(pod):
    """Returns {folder: (claim, whether it is read-only)} of the volumes that outlive a pod."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    return {
        mount["mountPath"]: (volumes[mount["name"]]["persistentVolumeClaim"]["claimName"], mount.get("readOnly", False))
        for mount in container["volumeMounts"]
        if "persistentVolumeClaim" in volumes[mount["name"]]
    }


def test_the_folders_of_the_command_are_on_volumes(pod, flags):
    claims = {claim["metadata"]["name"] for claim in documents(FOLDER / "volumes.yaml")}
    mounted = mounts(pod)
    assert {claim for claim, _ in mounted.values()} == claims
    assert mounted[flags.data_dir] == ("records", True)
    assert mounted[str(Path(flags.model_dir).parent)] == ("runs", False)
    (files,) = documents(FOLDER / "files.yaml")
    assert mounts(files["spec"]) == {folder: (claim, False) for folder, (claim, _) in mounted.items()}


def test_all_pods_run_the_image_as_its_user(pod):
    (files,) = documents(FOLDER / "files.yaml")
    user, group = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE.read_text(), re.MULTILINE).groups()
    for spec in (pod, files["spec"]):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert (security["runAsUser"], security["runAsGroup"]) == (int(user), int(group))
        assert security["fsGroup"] == int(group)
        assert spec["containers"][0]["image"].endswith(f"/mtf-imaging:{mtf_imaging.__version__}")
    assert f"--tag mtf-imaging:{mtf_imaging.__version__} ." in DOCKERFILE.read_text()


def test_the_context_of_the_image_is_the_sources_of_the_package():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {*FOLDERS, *FILES}


def test_the_base_of_the_image_has_a_supported_python():
    version = re.search(r"^ARG BASE=\S+python:3\.(\d+)-slim", DOCKERFILE.read_text(), re.MULTILINE)[1]
    first, end = re.search(r'python_requires=">=3\.(\d+),<3\.(\d+)"', (ROOT / "setup.py").read_text()).groups()
    assert int(first) <= int(version) < int(end)


def test_hadolint_accepts_the_dockerfile():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("touch started; exec sleep 3600", 143),  # does not handle SIGTERM, like Python while it starts
        ("trap 'exit 75' TERM; touch started; while :; do sleep 0.1; done", 75),
    ],
)
def test_the_entry_point_obeys_sigterm_as_process_1(tmp_path, program, code):
    fake = tmp_path / "mtf-imaging"
    fake.write_text(f"#!/bin/bash\n{program}\n")
    fake.chmod(0o755)
    words = pods.as_process_1(*pods.entry_point(), "train")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.Popen(words, env=environment, cwd=tmp_path, start_new_session=True)
    with pods.killed_with_namespace(process):
        waiting.wait_until((tmp_path / "started").is_file, "the program", [process])
        os.kill(pods.find_process_1(process, pods.entry_point()[0]), signal.SIGTERM)
        assert waiting.wait_for_end(process) == code
