"""N local processes that run the same program: their program, environments, output, signals and failures."""
