"""The measures of the LiTS challenge, of arrays; `docs/reference/metrics.md` says what is official."""
