"""Trajectories."""
