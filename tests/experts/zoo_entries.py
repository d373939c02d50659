"""Agents in folders as the zoo has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CARTPOLE = "CartPole-v1"


def zoo_entry(folder: Path, model: Any, run: str, env_id: str, config: str = "") -> Path:
    """`folder`/`run`/ENV.zip with the YAML files that the zoo keeps below it."""
    path = folder / run / f"{env_id}.zip"
    (folder / run / env_id).mkdir(parents=True)
    model.save(path)
    tag = "!!python/object/apply:collections.OrderedDict\n"
    arguments = f"{tag}- - - env\n    - {env_id}\n  - - env_kwargs\n    - null\n"
    (folder / run / env_id / "args.yml").write_text(arguments)
    (folder / run / env_id / "config.yml").write_text(f"{tag}- - - n_envs\n    - 8\n{config}")
    return path
