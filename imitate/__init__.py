"""Imitation learning from real experts, compared with pure RL."""
