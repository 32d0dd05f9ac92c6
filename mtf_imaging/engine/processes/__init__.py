"""The processes of one program: their addresses, and how they watch each other. Pure Python."""
