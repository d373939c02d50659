"""Rows of the results tables: their commands, what they gave before, and running them again."""
