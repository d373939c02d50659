"""Agents of Stable-Baselines3, read as data: archives, pickles, tensors, networks. Nothing in them is executed."""
