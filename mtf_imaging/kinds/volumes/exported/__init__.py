"""The program in the folder of an exported network; it imports nothing of this package."""
