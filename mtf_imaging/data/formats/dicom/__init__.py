"""Reads series of DICOM files as volumes; needs the optional package pydicom."""
