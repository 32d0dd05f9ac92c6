"""Programs whose processors take turns: the graph of one turn, cut into stages that a loop over turns calls."""
