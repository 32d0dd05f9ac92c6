"""Objects that travel to other processes."""

import pickle

from mtf_imaging.errors import ConfigError


def pickled(thing: object, who: str) -> bytes:
    """Pickles an object for a process of its own.

    Args:
      thing: the object.
      who: what has a process of its own, for the message.

    Raises:
      ConfigError: the object cannot be pickled.
    """
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{who} has a process of its own, and an object cannot be sent there: {error}. "
            "Fix: define its class and functions at the top of a module, not in a function."
        ) from error
