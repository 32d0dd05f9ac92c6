"""Records: cases converted for training, their manifest, folds and batches."""
