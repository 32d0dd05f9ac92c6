"""The former place of `mtf_imaging.kinds.objects`, for programs that import from it."""
