"""Kinds of devices for planning, with their memory, speed and links."""

import dataclasses
import math

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A kind of device and its links.

    The defaults of the last fields describe a data center GPU.

    Attributes:
      name: the name to print.
      memory: bytes per device.
      flops: dense operations per second in bfloat16 with float32 sums, from the data sheet.
      flops_float32: operations per second in float32 (TF32 if available), from the data sheet; float64 counts as half
        of it.
      link: bytes per second that a device sends to all other devices of its host together.
      latency: seconds until the first byte of an exchange within a host arrives.
      share: the share of `flops` that convolutions achieve.
      usable: the share of the memory that a plan's tensors may take. A plan includes neither kernel work space nor
        memory that the allocator wastes: on a CPU, measured tensors took up to 1.21 times the planned memory for
        U-Nets, and 1.37 times for DeepLab (docs/evidence/memory.md).
      bandwidth: bytes per second that a device reads from and writes to its memory, from the data sheet.
      bandwidth_share: the share of `bandwidth` that elementwise operations achieve.
      network: bytes per second that a host sends to other hosts.
      network_latency: seconds until the first byte of an exchange between hosts arrives.
      offload: bytes per second that a device stores while its processors take turns, and reads again: in the memory of
        the host, or on a disk.
      is_host: whether the device is the CPU, whose memory is that of the process.
    """

    name: str
    memory: float
    flops: float
    flops_float32: float
    link: float
    latency: float = 20e-6
    share: float = 0.3
    usable: float = 0.75
    bandwidth: float = 1e12
    bandwidth_share: float = 0.75
    network: float = 25e9
    network_latency: float = 50e-6
    offload: float = 6e9
    is_host: bool = False

    def __post_init__(self):
        for name, value in vars(self).items():
            most = 1 if name in ("share", "usable", "bandwidth_share") else math.inf
            if name not in ("name", "is_host") and not (isinstance(value, int | float) and 0 < value <= most):
                raise ConfigError(
                    f"hardware {self.name}: {name} must be a number above 0{' and at most 1' * (most == 1)}, not "
                    f"{value!r}. Fix: set {name} to such a number."
                )

    def flops_of(self, dtype: str) -> float:
        """Returns the operations per second that convolutions of a dtype achieve."""
        stated = {"bfloat16": self.flops, "float32": self.flops_float32, "float64": self.flops_float32 / 2}[dtype]
        return stated * self.share

    @property
    def usable_memory(self) -> float:
        """Bytes per device that a plan's tensors may take."""
        return self.memory * self.usable

    @property
    def achieved_bandwidth(self) -> float:
        """Bytes per second that elementwise operations read and write."""
        return self.bandwidth * self.bandwidth_share


def _gpu(name, gib, tera, tera_float32, link_gb, bandwidth_gb, network_gb=25.0):
    return Hardware(
        name,
        gib * GIB,
        tera * 1e12,
        tera_float32 * 1e12,
        link_gb * 1e9,
        bandwidth=bandwidth_gb * 1e9,
        network=network_gb * 1e9,
    )


# From the data sheets: dense (not "with sparsity"), links in one direction, memory bandwidth. The network is not
# part of a data sheet. It is assumed to have 200 Gbit/s per host for A100 and later GPUs with NVLink, 100 Gbit/s for
# V100 and GPUs with PCIe 4, and 50 Gbit/s for T4.
_KNOWN = (
    _gpu("h200", 131, 989, 494, 450, 4800),  # 141 GB; NVLink 4
    _gpu("h100", 74.5, 989, 494, 450, 3350),  # 80 GB, SXM
    _gpu("a100", 74.5, 312, 156, 300, 2000),  # 80 GB, SXM; NVLink 3
    _gpu("a100_40gb", 37.2, 312, 156, 300, 1555),
    _gpu("v100", 29.8, 15.7, 15.7, 150, 900, 12.5),  # 32 GB, SXM2; no bfloat16, so the float32 rate
    _gpu("l40s", 44.7, 362, 183, 32, 864, 12.5),  # 48 GB; PCIe 4
    _gpu("a10", 22.4, 125, 62.5, 32, 600, 12.5),  # 24 GB; PCIe 4
    _gpu("l4", 22.4, 121, 60, 32, 300, 12.5),  # 24 GB; PCIe 4
    _gpu("t4", 14.9, 8.1, 8.1, 16, 320, 6.25),  # 16 GB; PCIe 3; no bfloat16, so the float32 rate
    _gpu("rtx4090", 22.4, 165, 82.6, 32, 1008, 12.5),  # 24 GB; PCIe 4
    # Half a chip, to compare with published times: this package does not run on TPUs. From Jouppi et al. 2020, "A
    # domain-specific supercomputer for training deep neural networks". Convolutions round float32 to bfloat16.
    _gpu("tpu_v2", 8, 23, 23, 124, 350, 12.5),  # a chip has 46 TFLOP/s, 16 GiB and 4 links of 496 Gbit/s
    _gpu("tpu_v3", 16, 61.5, 61.5, 164, 450, 12.5),  # a chip has 123 TFLOP/s, 32 GiB and 4 links of 656 Gbit/s
)
HARDWARE = {hardware.name: hardware for hardware in _KNOWN}


def find_hardware(name: str) -> Hardware:
    """Returns the kind of device with the given name.

    Raises:
      ConfigError: the name is unknown.
    """
    if name.lower() in HARDWARE:
        return HARDWARE[name.lower()]
    raise ConfigError(
        f"hardware '{name}' is unknown.{did_you_mean(name.lower(), HARDWARE)} Known: {', '.join(HARDWARE)}. "
        "Fix: use one of these, or define your own hardware by its name, memory (bytes), flops and flops_float32 "
        "(operations per second), link, bandwidth and network (bytes per second) and latency (seconds).",
        settings=["hardware"],
    )
