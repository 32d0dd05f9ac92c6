"""Provenance of results: the program, the network, its training, the rules and the input files."""
