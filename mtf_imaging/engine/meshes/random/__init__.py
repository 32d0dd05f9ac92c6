"""Random numbers that do not depend on the layout: hashes of positions in the whole tensor."""
