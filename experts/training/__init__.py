"""Training experts through Stable-Baselines3, with tuned hyperparameters, validation and checkpoints."""
