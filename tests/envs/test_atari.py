"""ALE's vector environment against `make_env` and against SB3's wrappers, a few hundred steps of Breakout and Pong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from stable_baselines3.common import atari_wrappers as sb3

from imitate.envs import make_vec
from imitate.envs.atari import FIRE, fires, game_ids, protocol
from imitate.envs.make import make_env, resolve_env_id, stacked_frames, time_limit
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.rl.rollout import Rollout, Sampler
from imitate.training.settings import preset_of, tuned

BREAKOUT, PONG = "BreakoutNoFrameskip-v4", "PongNoFrameskip-v4"


def noops(envs: Any) -> int:
    """The number of no-ops that the first game began with, read by resetting the second one."""
    _, info = envs.pool.games.reset(options={"reset_mask": np.array([False, True])})
    return int(info["episode_frame_number"][0])


def same_start(env: gym.Env[Any, Any], count: int) -> Array:
    """Begin a game with so many no-ops."""
    env.unwrapped.np_random = SimpleNamespace(integers=lambda _low, _high: count)  # type: ignore[assignment]
    obs, info = env.reset()
    assert info["episode_frame_number"] == count
    return np.asarray(obs)


@pytest.mark.parametrize("env_id", [BREAKOUT, pytest.param(PONG, marks=pytest.mark.slow)])
def test_a_game_is_to_the_byte_that_of_make_env(env_id: str) -> None:
    """So what is learned on one is evaluated on the same. Of Breakout whole games."""
    envs = make_vec(env_id, 2)
    obs = envs.reset(episode_seeds(4))
    env = make_env(env_id)
    alone = same_start(env, noops(envs))
    rng = np.random.default_rng(0)
    rewards = 0.0
    for _ in range(250):
        np.testing.assert_array_equal(obs[0], alone)
        action = int(rng.integers(envs.single_action_space.n))  # type: ignore[attr-defined]
        step = envs.step(np.array([action, 0]))
        alone, reward, terminated, truncated, _ = env.step(action)
        assert (step.rewards[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated)
        np.testing.assert_array_equal(step.final_obs[0], alone)
        rewards += step.rewards[0]
        obs = step.obs
        if terminated:
            assert (obs[0] == obs[0, 0]).all()  # a fresh game: four times its first frame
            break
    else:
        assert env_id == PONG
    assert rewards != 0  # points were made in Breakout, lost in Pong
    envs.close()
    env.close()


@pytest.mark.parametrize("env_id", [BREAKOUT, pytest.param(PONG, marks=pytest.mark.slow)])
def test_sb3s_wrappers_see_the_same_game(env_id: str) -> None:
    """Frames, clipped rewards and ends of lives, with the parts of SB3's AtariWrapper. Not compared: what it does at
    resets, a no-op after a lost life, and FIRE and then RIGHT in extra steps where ours has FIRE in place of the
    first; and the frame on which a game ends, where SB3's maximum has an older frame in it."""
    envs = make_vec(env_id, 2, episodic_life=True, clip_rewards=True)
    obs = envs.reset(episode_seeds(4))
    env = gym.make(env_id, disable_env_checker=True)
    start = sb3.NoopResetEnv(env)
    start.override_num_noops = noops(envs.envs)  # type: ignore[attr-defined]
    lives = sb3.EpisodicLifeEnv(sb3.MaxAndSkipEnv(start))
    reference = sb3.ClipRewardEnv(sb3.WarpFrame(lives))
    frame, _ = reference.reset(seed=0)
    rng = np.random.default_rng(0)
    begins, ends, scored, worst = True, 0, set(), 0
    for _ in range(250):
        # Grey levels are the palette's here and OpenCV's weights there, rounded; where two colours follow one another
        # SB3's maximum of either is that of red, green and blue each, a third colour.
        difference = np.abs(obs[0, -1].astype(int) - frame[..., 0])
        assert (difference > 2).mean() < 0.01
        worst = max(worst, difference.max())
        action = int(rng.integers(envs.single_action_space.n))  # type: ignore[attr-defined]
        step = envs.step(np.array([action, 0]))
        before = lives.lives
        frame, reward, terminated, _, _ = reference.step(FIRE if begins else action)
        begins = lives.lives < before
        assert (step.rewards[0], step.terminated[0]) == (reward, terminated)
        ends += terminated
        scored.add(reward)
        obs = step.obs
        if lives.was_real_done:
            break
        np.testing.assert_array_equal(step.obs[0], step.final_obs[0])  # a lost life does not begin a game
    assert worst <= (2 if env_id == BREAKOUT else 40)
    assert ends == (5 if env_id == BREAKOUT else 0)
    assert scored == ({0, 1} if env_id == BREAKOUT else {0, -1})
    envs.close()
    env.close()


def test_training_options_leave_the_reported_scores_alone() -> None:
    """The same actions, with and without: fewer, longer episodes in one, but the same full games in both reports."""

    def play(**options: bool) -> tuple[Rollout, dict[str, float]]:
        envs = make_vec(BREAKOUT, 1, **options)  # type: ignore[arg-type]
        sampler, rng = Sampler(envs), np.random.default_rng(1)
        sampler.restart(1)

        def choose(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
            actions = rng.integers(4, size=1)
            return actions, actions

        rollout = sampler.collect(choose, 300)
        envs.close()
        return rollout, sampler.pop_episodes()

    raw, of_games = play()
    lives, of_lives = play(episodic_life=True, clip_rewards=True)
    assert of_lives == of_games
    np.testing.assert_array_equal(raw.obs, lives.obs)
    np.testing.assert_array_equal(np.sign(raw.rewards), lives.rewards)
    assert not (raw.terminated & ~lives.terminated).any()
    assert lives.terminated.sum() >= 5 * raw.terminated.sum() > 0


def test_the_first_action_of_a_life_is_fire() -> None:
    """Breakout waits for it: whoever never chooses it loses all lives nevertheless, here as in the vector one."""
    env = make_env(BREAKOUT)
    assert fires(env)
    env.reset(seed=0)
    lengths = next(t for t in range(1, 1_000) if env.step(0)[2])
    envs = make_vec(BREAKOUT, 1)
    envs.reset([0])
    assert lengths == next(t for t in range(1, 1_000) if envs.step(np.zeros(1, np.int64)).terminated[0])
    envs.close()
    env.close()
    freeway = make_env("FreewayNoFrameskip-v4")
    assert not fires(freeway)
    freeway.close()


def test_same_seed_same_bytes() -> None:
    def play() -> bytes:
        envs = make_vec(PONG, 1)
        first = envs.reset(episode_seeds(9))
        rows = [envs.step(np.array([t % 6])).obs for t in range(20)]
        envs.close()
        return first.tobytes() + np.stack(rows).tobytes()

    assert play() == play()


def test_keywords_that_ale_does_not_take() -> None:
    with pytest.raises(InputError, match="backend ale takes repeat_action_probability"):
        make_vec(BREAKOUT, 1, backend="ale", env_kwargs={"mode": 4})
    envs = make_vec(BREAKOUT, 1, env_kwargs={"full_action_space": True})
    assert envs.single_action_space.n == 18  # type: ignore[attr-defined]
    envs.close()


@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "sticky"),
    [
        ("ALE/Pong-v5", None, 0.25),
        ("ALE/Pong-v5", {"repeat_action_probability": 0.0}, 0.0),
        (PONG, None, 0.0),
        (PONG, {"repeat_action_probability": 0.5}, 0.5),
    ],
)
def test_stickiness_is_the_ids_own_on_both_backends(
    env_id: str, env_kwargs: dict[str, Any] | None, sticky: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make_env(env_id, env_kwargs)
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == sticky  # type: ignore[attr-defined]
    env.close()
    handed: dict[str, Any] = {}

    def spy(self: Any, game: str, num_envs: int, **settings: Any) -> None:
        handed.update(settings)
        init(self, game, num_envs, **settings)

    init = AtariVectorEnv.__init__
    monkeypatch.setattr(AtariVectorEnv, "__init__", spy)
    make_vec(env_id, 1, backend="ale", env_kwargs=env_kwargs).close()
    assert handed["repeat_action_probability"] == sticky
    assert protocol(env_id, env_kwargs).startswith(
        f"sticky actions {sticky:g}, up to 30 no-ops, frame skip 4 "
    )


def test_sticky_actions_are_felt_on_both_backends() -> None:
    """An action that is repeated with certainty is the first one, NOOP, for ever: nothing that is chosen matters."""
    for backend in ("gymnasium", "ale"):
        frames = []
        for action in (2, 3):
            stuck = make_vec(PONG, 1, backend=backend, env_kwargs={"repeat_action_probability": 1.0})
            stuck.reset([5])
            frames.append([stuck.step(np.array([action])).obs for _ in range(15)][-1])
            stuck.close()
        np.testing.assert_array_equal(*frames)


@pytest.mark.parametrize("algorithm", ["dqn", "qdagger", "a2c", "ppo"])
def test_every_game_has_settings(algorithm: str) -> None:
    """Those of all other environments leave rewards of thousands unclipped."""
    games = [tuned(algorithm, game) for game in ("ALE/SpaceInvaders-v5", "SpaceInvadersNoFrameskip-v4")]
    assert games[0] == games[1] == tuned(algorithm, "ALE/Breakout-v5")
    assert games[0]["clip_rewards"]
    assert games[0]["episodic_life"]
    assert not tuned("ppo", "ALE/Pong-v5").get("episodic_life")  # it has its own, and no lives
    assert preset_of(algorithm, "ALE/SpaceInvaders-v5") == "atari"
    assert preset_of(algorithm, "Taxi-v3") is None


def test_a_game_is_found_under_its_modern_name() -> None:
    assert game_ids(resolve_env_id(PONG)) == (PONG, "ALE/Pong-v5", "atari")
    assert game_ids("ALE/Pong-v5") == ("ALE/Pong-v5", "atari")
    assert game_ids("my_envs:CartPole-v1") == ("CartPole-v1",)
    assert protocol("CartPole-v1") == ""


def test_a_frame_skip_of_the_emulator_is_refused() -> None:
    for make in (make_env, lambda env_id, kwargs: make_vec(env_id, 1, env_kwargs=kwargs)):
        with pytest.raises(InputError, match="give frame_skip instead of frameskip"):
            make(PONG, {"frameskip": 2})
        for skip in (0, 2.5, True, 61):
            with pytest.raises(InputError, match="frame_skip must be a whole number from 1 to 60, got"):
                make(PONG, {"frame_skip": skip})


@pytest.mark.parametrize("skip", [1, 2, 4])
def test_the_frame_skip_counts_frames_and_is_the_same_on_both_backends(skip: int) -> None:
    """After T decisions T * skip frames have passed since the game began, and both show the same."""
    kwargs = {"frame_skip": skip}
    envs, env = make_vec(PONG, 2, env_kwargs=kwargs), make_env(PONG, kwargs)
    envs.reset([3, 4])
    begun = noops(envs)
    same_start(env, begun)
    for t in range(40):
        step = envs.step(np.array([t % 6, 2]))
        obs, _, _, _, info = env.step(t % 6)
        np.testing.assert_array_equal(step.obs[0], obs)
    assert info["episode_frame_number"] == begun + 40 * skip
    envs.close()
    assert f"frame skip {skip}{', ' if skip == 1 else ' (maximum'}" in protocol(PONG, kwargs)


@pytest.mark.parametrize("registered", [None, 3])
def test_a_limit_counts_steps_not_frames_or_no_ops(
    registered: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames and no-ops were counted: seven frames were over in the second step, or before the first."""
    monkeypatch.setattr(gym.spec(PONG), "max_episode_steps", registered)
    kwargs = {"max_episode_steps": 7}
    env = make_env(PONG, kwargs)
    assert stacked_frames(env) == 4
    for begun in (0, 20):
        same_start(env, begun)
        cut = [env.step(t % 6)[3] for t in range(7)]
        assert cut == [False] * 6 + [True]
    env.close()
    assert time_limit(PONG, kwargs) == 7
    envs = make_vec(PONG, 1, env_kwargs=kwargs)
    envs.reset([0])
    assert [bool(envs.step(np.zeros(1, int)).truncated[0]) for _ in range(7)] == cut
    envs.close()
