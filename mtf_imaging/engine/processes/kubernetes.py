"""The pods of an indexed Kubernetes Job: their addresses, from two variables of its manifest. Pure Python."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.errors import ConfigError

_NUM, _SERVICE = "MTF_IMAGING_PROCESSES", "MTF_IMAGING_SERVICE"  # set by the manifest
_INDEX = "JOB_COMPLETION_INDEX"  # set by Kubernetes in the pods of an indexed Job
_HOST = "HOSTNAME"  # set by the container runtime

PORT = 2222  # each pod has its own network, so all pods use the same port

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SERVICE_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")  # with or without its namespace: "unet", "unet.research"


class Pods(NamedTuple):
    """The pods of a Job."""

    addresses: tuple[Address, ...]
    number: int  # the completion index of this pod


def find_pods(environ: Mapping[str, str]) -> Pods | None:
    """Returns the pods of the Job that this process belongs to, or None outside such a Job or in a Job with one pod.

    Kubernetes does not tell a pod how many pods its Job has, so the manifest sets MTF_IMAGING_PROCESSES. Without this
    variable, the pods of an indexed Job run independently of each other.

    The host name of pod 3 of the Job "unet" is "unet-3". Pods with the subdomain "unet" reach it as "unet-3.unet".

    Args:
      environ: the environment variables.

    Raises:
      ConfigError: a variable is missing or malformed, or the host name does not belong to a pod of an indexed Job.
    """
    if not environ.get(_NUM, "").strip():
        return None
    num = _integer(environ, _NUM, "set it to the number of pods, the `completions` of the Job")
    if num == 0:
        raise ConfigError(f"{_NUM}=0: a Job has at least one pod. Fix: set it to the `completions` of the Job.")
    if num == 1:
        return None
    index = _integer(environ, _INDEX, "give the Job `completionMode: Indexed`, so that Kubernetes sets it")
    if index >= num:
        raise ConfigError(
            f"this pod has the number {index} ({_INDEX}), but the {num} pods ({_NUM}) have the numbers 0 to {num - 1}. "
            f"Fix: set {_NUM}, `completions` and `parallelism` to the same number."
        )
    service = _text(environ, _SERVICE, "set it to the `subdomain` of the pods, the name of their headless service")
    if not _SERVICE_NAME.fullmatch(service):
        raise ConfigError(f"{_SERVICE}={service}: is not the name of a service such as unet.")
    job = _job_name(environ, index)
    return Pods(tuple(Address(f"{job}-{pod}.{service}", PORT) for pod in range(num)), index)


def _job_name(environ: Mapping[str, str], index: int) -> str:
    """Returns the name of the Job, from the host name of this pod."""
    host = _text(environ, _HOST, "set it to the host name of the pod, the output of `hostname`")
    job = host.removesuffix(f"-{index}")
    if job in ("", host):
        raise ConfigError(
            f"{_HOST}={host}: does not end with -{index}, the number of this pod ({_INDEX}). Fix: remove `hostname` "
            "and `hostNetwork` from the template of the pods, so that each one has a host name of its own; or set "
            "TF_CONFIG."
        )
    return job


def _text(environ: Mapping[str, str], name: str, fix: str) -> str:
    text = environ.get(name, "").strip()
    if not text:
        raise ConfigError(f"{name} is not set, but {_NUM} is. Fix: {fix}.")
    return text


def _integer(environ: Mapping[str, str], name: str, fix: str) -> int:
    text = _text(environ, name, fix)
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name}={text}: is not a non-negative integer such as 4. Fix: {fix}.")
    return int(text)
