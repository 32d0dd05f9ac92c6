"""Networks that average the results of several runs."""
