"""Finished runs, their statistics, and the conclusions that these support."""
