"""The former place of `mtf_imaging.kinds.photos`, for programs that import from it."""
