"""Guided learning: reinforcement that begins at an expert and leaves it behind."""
