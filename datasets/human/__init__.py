"""A person plays: keys and mouse in, trajectories out."""
