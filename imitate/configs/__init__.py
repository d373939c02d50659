"""The hyperparameters of every algorithm, a file each.

`MAIN` names those that `imitate train ALGO --help` shows; `--help-all` shows all.

Nothing here imports torch, so the command line checks its arguments and prints help in a fraction of the time that
loading an algorithm takes.
"""
