"""Files of demonstrations: their format, writing, reading, and safe opening."""
