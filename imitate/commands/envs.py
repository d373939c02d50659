"""`imitate envs`"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import ale_py
import gymnasium as gym

from imitate.commands.options import command, print_json
from imitate.envs.answers import Answering
from imitate.envs.atari import protocol
from imitate.envs.backends import envpool
from imitate.envs.bullet_robots import PACKAGE
from imitate.envs.make import load_plugins, make_env
from imitate.envs.spaces import check_supported
from imitate.envs.versions import newest
from imitate.errors import InputError, pip_install

__all__ = ["envs"]


@dataclass(frozen=True)
class Family:
    """A family of environments: the module prefix of their code, the package they need and how to install it."""

    title: str
    prefix: str
    package: str
    command: str = ""


FAMILIES = (
    Family("Classic control", "gymnasium.envs.classic_control", "gymnasium"),
    Family("Toy text", "gymnasium.envs.toy_text", "gymnasium"),
    Family("Box2D", "gymnasium.envs.box2d", "Box2D", "pip install 'gymnasium[box2d]'"),
    Family("Our own", "imitate.", "pybullet", "pip install pybullet"),
    Family("PyBullet's robots", PACKAGE, PACKAGE, pip_install("bullet")),
    Family("MuJoCo", "gymnasium.envs.mujoco", "mujoco", pip_install("mujoco")),
    Family("Atari", "ale_py", "ale_py", "pip install ale-py"),
)


@command
def envs(json: bool = False) -> int:
    """List the environments that can be run here and their backends, and what extras would add.

    Args:
        json: print it as JSON
    """
    facts = survey()
    print_json(facts) if json else print(_text(facts))
    return 0


def survey() -> dict[str, Any]:
    """{"environments": {family: {id: [backends]}}, "extras": [{"command", "adds"}]}"""
    gym.register_envs(ale_py)
    load_plugins()
    environments: dict[str, dict[str, list[str]]] = {}
    extras = []
    for family in FAMILIES:
        ids = _newest(family)
        if find_spec(family.package) is None:
            # A missing package may have registered none.
            names = ", ".join(ids) or "AntBulletEnv-v0 and others"
            extras.append({"command": family.command, "adds": f"{family.title}: {names}"})
            continue
        found = {env_id: _backends(family, env_id) for env_id in ids}
        environments[family.title] = {env_id: backends for env_id, backends in found.items() if backends}
    if not envpool.installed():
        adds = "backend envpool, C++: classic control, toy text, Box2D, and MuJoCo if installed"
        extras.append({"command": pip_install("envpool"), "adds": adds})
    return {"environments": environments, "extras": extras}


def _newest(family: Family) -> list[str]:
    ids = newest(
        spec
        for spec in gym.registry.values()
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith(family.prefix)
    )
    # The old Atari ids name the same games.
    return [env_id for env_id in ids if env_id.startswith("ALE/")] if family.title == "Atari" else ids


def _backends(family: Family, env_id: str) -> list[str]:
    """The backends of an environment; empty if no learner supports its spaces."""
    if family.title == "Atari":  # all games have the same backends, and making a hundred of them takes long
        return ["gymnasium", "async", "ale"]
    try:
        env = make_env(env_id)
        Answering(env).close()
        check_supported(env.observation_space, env.action_space)
    except InputError:
        return []
    return ["gymnasium", "async"] + (["envpool"] if envpool.knows(env_id) else [])


def _text(facts: dict[str, Any]) -> str:
    lines = []
    for title, environments in facts["environments"].items():
        by_backends: dict[tuple[str, ...], list[str]] = {}
        for env_id, backends in environments.items():
            by_backends.setdefault(tuple(backends), []).append(env_id)
        for backends, ids in by_backends.items():
            lines.append(f"{title} (backends {', '.join(backends)})")
            lines.append(textwrap.fill(" ".join(ids), 110, initial_indent="  ", subsequent_indent="  "))
        if title == "Atari":
            lines.append(f"  measured by: {protocol(next(iter(environments)))}")
            lines.append("  names such as PongNoFrameskip-v4 are the same games without sticky actions")
    for extra in facts["extras"]:
        lines.append(f"Not here: {extra['command']}")
        lines.append(textwrap.fill(extra["adds"], 110, initial_indent="  ", subsequent_indent="  "))
    lines.append(
        "Others: `--env module:Env-v0` first imports the module that registers them; it may be in the current folder."
    )
    return "\n".join(lines)
