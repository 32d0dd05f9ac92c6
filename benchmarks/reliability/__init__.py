"""Measures what commands do with bad inputs, kills, full disks and unusual environments, for docs/evidence/reliability.md."""
