"""The training data of a job: its images, its folds and grids, and what is checked before the first step."""
