"""Files of demonstrations: their format, writing and reading them, and opening foreign ones with care."""
