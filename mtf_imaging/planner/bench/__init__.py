"""What a step really takes on this machine, under several layouts side by side."""
