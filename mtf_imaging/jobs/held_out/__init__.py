"""The scores and the loss of held-out cases during training."""
