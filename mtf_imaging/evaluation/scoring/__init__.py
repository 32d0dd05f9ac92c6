"""The measures of the LiTS challenge, of arrays; `docs/scoring.md` says what is official."""
