"""Finished runs, and what their numbers allow to say."""
