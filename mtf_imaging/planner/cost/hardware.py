"""Devices that a layout can be planned for: what they hold, how fast they compute, and what they send each other."""

import dataclasses

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A kind of device, and the links between them.

    Attributes:
      name: what to call it.
      memory: bytes a device.
      flops: operations a second that the maker states, dense, with float32 sums: of bfloat16.
      flops_float32: the same of float32 (TF32 where there is such a thing); of float64 a half of it is taken.
      link: bytes a second that a device sends, to all others together.
      latency: seconds until the first byte of an exchange is there.
      share: of `flops` that convolutions of this kind achieve.
      usable: the share of the memory that a plan's tensors may take. A plan covers neither the work space of kernels
        nor fragmentation: measured steps (docs/evidence/memory.md) took up to 1.31 times their planned memory.
    """

    name: str
    memory: float
    flops: float
    flops_float32: float
    link: float
    latency: float = 20e-6
    share: float = 0.3
    usable: float = 0.75

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "name" and not (isinstance(value, int | float) and value > 0):
                raise ConfigError(f"hardware {self.name}: {field.name} must be a number above 0, not {value!r}.")
        for name in ("share", "usable"):
            if getattr(self, name) > 1:
                raise ConfigError(f"hardware {self.name}: {name} is a share, at most 1, not {getattr(self, name)!r}.")

    def flops_of(self, dtype: str) -> float:
        """Operations a second of this dtype that convolutions achieve."""
        stated = {"bfloat16": self.flops, "float32": self.flops_float32, "float64": self.flops_float32 / 2}[dtype]
        return stated * self.share


def _gpu(name, gib, tera, tera_float32, link_gb):
    return Hardware(name, gib * GIB, tera * 1e12, tera_float32 * 1e12, link_gb * 1e9)


# As their makers' data sheets have them: dense (not "with sparsity"), links in one direction.
_KNOWN = (
    _gpu("h200", 131, 989, 494, 450),  # 141 GB; NVLink 4
    _gpu("h100", 74.5, 989, 494, 450),  # 80 GB, SXM
    _gpu("a100", 74.5, 312, 156, 300),  # 80 GB, SXM; NVLink 3
    _gpu("a100_40gb", 37.2, 312, 156, 300),
    _gpu("v100", 29.8, 15.7, 15.7, 150),  # 32 GB, SXM2; no bfloat16: as float32
    _gpu("l40s", 44.7, 362, 183, 32),  # 48 GB; PCIe 4
    _gpu("a10", 22.4, 125, 62.5, 32),  # 24 GB; PCIe 4
    _gpu("l4", 22.4, 121, 60, 32),  # 24 GB; PCIe 4
    _gpu("t4", 14.9, 8.1, 8.1, 16),  # 16 GB; PCIe 3; no bfloat16: as float32
    _gpu("rtx4090", 22.4, 165, 82.6, 32),  # 24 GB; PCIe 4
)
HARDWARE = {hardware.name: hardware for hardware in _KNOWN}


def find_hardware(name: str) -> Hardware:
    """A kind of device by its name.

    Raises:
      ConfigError: it is not known.
    """
    if name.lower() in HARDWARE:
        return HARDWARE[name.lower()]
    raise ConfigError(
        f"hardware '{name}': no such device is known.{did_you_mean(name.lower(), HARDWARE)} Known: "
        f"{', '.join(HARDWARE)}. Fix: one of these, or hardware of your own: its name, memory (bytes), flops and "
        "flops_float32 (operations a second), link (bytes a second) and latency (seconds).",
        settings=["hardware"],
    )
