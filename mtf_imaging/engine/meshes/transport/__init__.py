"""Transports move tensors between the shards of a mesh: within a process, or between processes."""

from mtf_imaging.engine.meshes.transport.in_process import InProcess
from mtf_imaging.engine.meshes.transport.transport import Message, Transport

__all__ = ["InProcess", "Message", "Transport"]
