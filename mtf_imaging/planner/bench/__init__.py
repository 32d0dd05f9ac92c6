"""Measurement of training steps on this machine under several layouts."""
