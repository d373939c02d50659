"""Imitation learners: one file each, to be read from top to bottom."""
