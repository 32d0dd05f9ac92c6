"""How well training learns: our jobs compared with a plain Keras program, in about equal CPU time."""
