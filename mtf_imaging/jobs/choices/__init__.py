"""The choices of a plan, each with its reason, as functions of a fingerprint."""
