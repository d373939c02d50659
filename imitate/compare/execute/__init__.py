"""Carrying out a comparison: demonstrations, training, measuring, films."""
