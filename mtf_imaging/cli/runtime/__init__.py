"""What surrounds a command: messages, failures, TensorFlow's log lines, help."""
