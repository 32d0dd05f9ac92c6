"""Every setting once, as a field of a dataclass. Flags, gin parameters and keyword arguments are derived from it."""
