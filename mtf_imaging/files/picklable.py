"""Serialization of objects for other processes."""

import pickle

from mtf_imaging.errors import ConfigError


def pickled(thing: object, who: str) -> bytes:
    """Pickles an object for another process.

    Args:
      thing: the object.
      who: a noun for the recipient, for the error message.

    Raises:
      ConfigError: the object cannot be pickled.
    """
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{who} runs in a separate process, and an object cannot be sent there: {error}. "
            "Fix: define its class and functions at the top level of a module, not inside a function."
        ) from error
