"""The declared table of bad inputs: a module for each kind."""
