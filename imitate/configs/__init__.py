"""The hyperparameters of every algorithm, one file each.

`MAIN` names those that `imitate train ALGO --help` shows; `--help-all` shows all of them.
`WITHOUT_ACTIONS = True` says that the learner's demonstrations may lack actions.

Nothing here imports torch, so the command line checks its arguments and prints help in a fraction of the time that
loading an algorithm takes.
"""
