"""The frame of reports: one self-contained page with tables and plots."""
