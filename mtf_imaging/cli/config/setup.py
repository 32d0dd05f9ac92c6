"""The gin configurable `setup`: the mesh, the layout, the resolution and the batch of a job."""

import functools

import gin

from mtf_imaging.cli.config.groups import SETUP
from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import filled, settings
from mtf_imaging.settings.step import Devices
from mtf_imaging.settings.values import AUTO


@gin.configurable("setup", module="mtf_imaging")
@settings
class JobSetup(*SETUP):
    """The setup of a job. The files in layouts/ and the setup flags bind it."""

    def __post_init__(self):
        super().__post_init__()
        parse_spacing(self.spacing)
        _ = self.has_auto_layout or self.parsed_layout  # which checks its settings

    @property
    def has_auto_layout(self) -> bool:
        """Whether train chooses the mesh and the layout."""
        return self.layout == AUTO

    @functools.cached_property
    def parsed_layout(self) -> Layout:
        """The mesh and its rules.

        Raises:
          ConfigError: the layout is "auto".
        """
        if self.has_auto_layout:
            raise ConfigError(
                "only train chooses a layout for layout 'auto'. Fix: give mesh_shape and layout; search ranks them.",
                ["mesh_shape", "layout"],
            )
        return Layout.parse(self.mesh_shape, self.layout, self.sequential, self.offload_dir)

    @functools.cached_property
    def devices(self) -> Devices:
        """The devices that compute the processors."""
        return filled(Devices, self)
