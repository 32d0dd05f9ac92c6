"""Random numbers that no layout changes: hashes of positions in the whole tensor."""
