"""NIfTI files, read as Hounsfield units or labels with their geometry, and written."""
