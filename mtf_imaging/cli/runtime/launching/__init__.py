"""N local processes that run the same program: their environments, output, signals and failures."""
