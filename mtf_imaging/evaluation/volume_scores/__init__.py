"""The LiTS challenge's measures for arrays; see `docs/reference/metrics.md` for the definitions."""
