"""Atari games: their ids, their preprocessing, and the protocol of their scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from imitate.envs.paddle_hits import PaddleHits
from imitate.envs.trust import bare_id
from imitate.errors import InputError

__all__ = [
    "FIRE",
    "FRAME_SKIP",
    "STACK",
    "FireFirst",
    "fires",
    "frame_skip",
    "game_ids",
    "is_atari",
    "preprocessed",
    "protocol",
    "rewards_hits",
    "settings",
]

FIRE = 1
"""Index of the action FIRE in the games that have it."""
FRAME_SKIP = 4
MOST_SKIPPED = 60
NOOPS = 30
OWN = ("frame_skip", "reward")
"""Keywords of ours, which the emulator does not take."""
SIZE = 84
STACK = 4


def is_atari(env_id: str) -> bool:
    """True if the id is registered and belongs to the Arcade Learning Environment."""
    spec = gym.registry.get(bare_id(env_id))
    return spec is not None and str(spec.entry_point).startswith("ale_py")


def settings(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The emulator's keyword arguments: those of the id, overridden by `env_kwargs`.

    `repeat_action_probability`, the stickiness of actions, is 0.25 for `ALE/*-v5` (arXiv:1709.06009) and 0 for
    `*NoFrameskip-v4`, on which the zoo's experts were trained. `frame_skip` and `reward` are left out: the emulator
    has neither.

    Raises InputError if `frameskip` is given, since the emulator must not skip frames itself.
    """
    given = {name: value for name, value in (env_kwargs or {}).items() if name not in OWN}
    if "frameskip" in given:
        raise InputError(
            f"{env_id} skips frames in the preprocessing: give frame_skip instead of frameskip in --env-kwargs"
        )
    return gym.spec(bare_id(env_id)).kwargs | {"frameskip": 1} | given


def frame_skip(env_kwargs: Mapping[str, Any] | None) -> int:
    """Frames for which an action is held, 4 unless `env_kwargs` say otherwise. Raises InputError if it is no number of
    frames, or more than a second of the game."""
    skip = (env_kwargs or {}).get("frame_skip", FRAME_SKIP)
    if not isinstance(skip, int) or isinstance(skip, bool) or not 1 <= skip <= MOST_SKIPPED:
        raise InputError(
            f"frame_skip must be a whole number from 1 to {MOST_SKIPPED}, got {skip!r}; correct --env-kwargs"
        )
    return skip


def rewards_hits(env_kwargs: Mapping[str, Any] | None) -> bool:
    """True if `reward` in `env_kwargs` is "paddle_hits", not "score", which it is unless given. Raises InputError if it
    is something else."""
    reward = (env_kwargs or {}).get("reward", "score")
    if reward not in ("score", "paddle_hits"):
        raise InputError(f"reward must be score or paddle_hits, got {reward!r}; correct --env-kwargs")
    return bool(reward == "paddle_hits")


def preprocessed(env: gym.Env[Any, Any], skip: int, *, paddle_hits: bool) -> gym.Env[Any, Any]:
    """The preprocessing of arXiv:1709.06009: each action is held for `skip` frames (4 there), maximum of the last two,
    84 x 84 grey, 4 frames stacked.

    In addition, FIRE begins every life if the game has it. With a frame skip of 1 there is no maximum. With
    `paddle_hits` the reward is that of `imitate.envs.paddle_hits`.
    """
    env = PaddleHits(env) if paddle_hits else env
    env = gym.wrappers.AtariPreprocessing(env, noop_max=NOOPS, frame_skip=skip, screen_size=SIZE)
    env = FireFirst(env) if fires(env) else env
    return gym.wrappers.FrameStackObservation(env, stack_size=STACK)


def protocol(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> str:
    """One line on how scores are measured, for records; empty for other environments.

    Only scores under the same protocol can be compared: sticky actions alone cost agents up to half of their score.
    """
    if not is_atari(env_id):
        return ""
    sticky, skip = settings(env_id, env_kwargs)["repeat_action_probability"], frame_skip(env_kwargs)
    seen = f"frame skip {skip}{' (maximum of the last two)' * (skip > 1)}"
    counted = "paddle hits" if rewards_hits(env_kwargs) else "raw scores"
    return (
        f"sticky actions {sticky:g}, up to {NOOPS} no-ops, {seen}, "
        f"{SIZE} x {SIZE} grey, {STACK} frames, {counted} of full games"
    )


def game_ids(env_id: str) -> tuple[str, ...]:
    """Names under which to look up this environment's settings, the closest first.

    They are `Env-v0` for `module:Env-v0`. Games have more: `ALE/Pong-v5` for `PongNoFrameskip-v4`, the same one, and
    `atari`, for what suits all.
    """
    name = bare_id(env_id)
    if not name.startswith("ALE/") and not is_atari(name):
        return (name,)
    game = re.fullmatch(r"(\w+?)(NoFrameskip|Deterministic)?-v\d+", name)
    modern = f"ALE/{game[1]}-v5" if game else ""
    return (name, *([modern] if modern in gym.registry else []), "atari")


class FireFirst(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Replaces the first action of every life by FIRE.

    Some games wait for FIRE, and a greedy policy that never chooses it would wait forever. Unlike SB3's FireResetEnv,
    this takes no extra step.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)  # so that a description of the environment includes it
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        answer = self.env.reset(seed=seed, options=options)
        self._lives, self._fire = self._lives_left(), True
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(FIRE if self._fire else action)
        before, self._lives = self._lives, self._lives_left()
        self._fire = self._lives < before
        return answer

    def _lives_left(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]


def fires(env: gym.Env[Any, Any]) -> bool:
    """True if an Atari game has the action FIRE, in addition to NOOP and at least one other."""
    meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    return len(meanings) >= 3 and meanings[FIRE] == "FIRE"
