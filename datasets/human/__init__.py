"""Lets a person play: keys and mouse go in, trajectories come out."""
