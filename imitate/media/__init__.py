"""Videos of episodes, and a window for a person who plays."""
