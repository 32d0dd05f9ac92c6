"""The command line, which translates flags and gin files to arguments of jobs."""
