"""Files and processes, whatever they hold: whole files or none, one writer a folder, workers. Pure Python."""
