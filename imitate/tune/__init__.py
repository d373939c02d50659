"""Searches for hyperparameters with Optuna."""
