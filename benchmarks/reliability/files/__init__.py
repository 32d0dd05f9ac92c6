"""Writers of small files in every format, and functions that damage them."""
