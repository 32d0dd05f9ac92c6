"""Networks that slide over an image that is larger than their input."""
