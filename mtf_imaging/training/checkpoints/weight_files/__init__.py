"""Files with weights of other programs: a class for each format, and the table of all of them in `all_files`."""
