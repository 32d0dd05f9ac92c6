"""The context study: whole volumes, patches and lower resolutions at equal steps and at equal CPU time."""
