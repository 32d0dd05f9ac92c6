"""The report `report.html`: scores, plots and overlays of all cases in one self-contained file."""
