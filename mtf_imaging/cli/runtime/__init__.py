"""The surroundings of a command: help, messages, failures, TensorFlow's log lines and the next step."""
