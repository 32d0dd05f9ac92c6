"""The processes that run one job together: joining them, their agreement, and the signals that stop them."""
