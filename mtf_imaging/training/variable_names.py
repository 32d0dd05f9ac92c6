"""Patterns of variable names, with which settings select scopes of a network."""

import fnmatch
from collections.abc import Iterable, Sequence

from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_value
from mtf_imaging.spelling import did_you_mean


class NamePatterns:
    """Selects variables by name patterns.

    A pattern matches a variable if it matches its whole name or one of its scopes. `resnet/stem` selects the variables
    in this scope, and `resnet/stem*` those in `resnet/stem` and `resnet/stem_norm`. `*` stands for any characters,
    slashes included, `?` for one character, and `[01]` for one of several.

    Args:
      patterns: the patterns, or a string of comma-separated patterns.
      setting: the name of the setting that contains them, for messages.

    Attributes:
      patterns: the patterns, without empty strings.

    Raises:
      ConfigError: the patterns are not strings.
    """

    def __init__(self, patterns: str | Sequence[str], setting: str) -> None:
        check_value(setting, patterns, str | Sequence[str], [setting], can_be_empty=True)
        listed = patterns.split(",") if isinstance(patterns, str) else patterns
        stripped = (pattern.strip().strip("/") for pattern in listed)
        self.patterns = tuple(pattern for pattern in stripped if pattern)
        self._setting = setting

    def matches(self, name: str) -> bool:
        """Returns whether a pattern matches the name of a variable or one of its scopes."""
        return any(_matches(pattern, name) for pattern in self.patterns)

    def check(self, names: Iterable[str], owner: str) -> None:
        """Checks that every pattern matches a variable.

        Args:
          names: the names of all variables.
          owner: the owner of these variables, for the message.

        Raises:
          ConfigError: a pattern matches no variable.
        """
        names = sorted(names)
        for pattern in self.patterns:
            if not any(_matches(pattern, name) for name in names):
                scopes = sorted({scope for name in names for scope in _scopes(name)})
                similar = did_you_mean(pattern.replace("*", ""), [*scopes, *names])
                raise ConfigError(
                    f"{self._setting}: no variable of {owner} has this name or is in the scope '{pattern}'.{similar} "
                    f"Fix: use a scope such as '{(scopes or names)[0]}'.",
                    [self._setting],
                )


def _matches(pattern: str, name: str) -> bool:
    return any(fnmatch.fnmatchcase(each, pattern) for each in (*_scopes(name), name))


def _scopes(name: str) -> list[str]:
    """Returns the scopes of a variable, such as ["a", "a/b"] for "a/b/c"."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
