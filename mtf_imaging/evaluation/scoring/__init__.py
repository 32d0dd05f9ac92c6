"""The measures of the LiTS challenge for arrays; see `docs/reference/metrics.md` for the definitions."""
