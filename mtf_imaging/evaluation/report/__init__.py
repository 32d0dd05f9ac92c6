"""`report.html`: scores, plots and overlays of all cases in one file that needs nothing else."""
