"""Pictures of episodes: videos, and a window for a person who plays."""
