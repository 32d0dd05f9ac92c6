"""NRRD and MetaImage files, which SimpleITK reads and writes."""
