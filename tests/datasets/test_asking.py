"""Experts whose answers are no actions: one line that names the expert."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.datasets.asking import asking
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.envs.trust import trust
from imitate.errors import Fault, InputError
from imitate.experts import load_expert

OBS = np.zeros((3, 2), np.float32)
TURN = spaces.Discrete(3, start=1)
PUSH = spaces.Box(np.float32([-1, 0]), np.float32([1, 4]))


def answer(given: Any, space: Any) -> Any:
    return asking(lambda _: given, space, who="the expert")(OBS)


@pytest.mark.parametrize(
    ("given", "space", "message"),
    [
        ([1, 2, 4], TURN, r"answered with 4, which is not in Discrete\(3, start=1\): mend it"),
        ([0, 1, 1], TURN, "answered with 0, which is not in"),
        ([1.0, 1.5, 2.0], TURN, r"answered with 1.5, wanted whole numbers"),
        ([1.0, np.nan, 2.0], TURN, "answered with nan, wanted whole numbers"),
        ([[1], [2], [3]], TURN, r"3 observations with actions of shape \(3, 1\), wanted \(3,\)"),
        ([1, 2], TURN, r"actions of shape \(2,\), wanted \(3,\)"),
        (1, TURN, r"actions of shape \(\), wanted \(3,\)"),
        (None, TURN, r"answered with a NoneType, wanted an array of numbers \(3,\)"),
        (["1", "2", "3"], TURN, "answered with a list, wanted an array of numbers"),
        ((np.ones(3, int), None), TURN, "answered with a tuple.*SB3's predict, return the first element"),
        ([[1], [1, 2], [3]], TURN, "answered with a list, wanted an array of numbers"),
        (torch.ones(3, requires_grad=True), TURN, "answered with a Tensor, wanted an array of numbers"),
        (np.full((3, 2), np.nan), PUSH, r"answered with nan, nan, nan, which is not in Box.*: mend it"),
        (np.full((3, 2), np.inf), PUSH, r"answered with inf, inf, inf, which is not in Box.*: mend it"),
        ([5000, 0, 0], spaces.Discrete(5000), "answered with 5000, which is not in"),
        (
            np.float32([[0, np.nextafter(np.float32(4), np.float32(5))]] * 3),
            PUSH,
            r"answered with 4\.0000005, 4\.",
        ),
        (np.zeros(3), PUSH, r"actions of shape \(3,\), wanted \(3, 2\)"),
        (np.full((3, 2), 257), spaces.MultiBinary(2), "answered with 257, 257, 257, wanted whole numbers"),
        ([[0, 2], [1, 0], [0, 0]], spaces.MultiDiscrete([2, 2]), "answered with 2, which is not in"),
    ],
)
def test_an_answer_that_is_no_action_is_a_fault_of_the_expert(given: Any, space: Any, message: str) -> None:
    with pytest.raises(Fault, match=f"^the expert .*{message}"):
        answer(given, space)


def test_answers_of_another_type_become_actions() -> None:
    for given in ([1, 2, 3], np.array([1, 2, 3], np.uint8), [1.0, 2.0, 3.0], torch.tensor([1, 2, 3])):
        actions = answer(given, TURN)
        assert (actions.tolist(), actions.dtype) == ([1, 2, 3], np.int64)
    pushes = [[0.5, 4], [0, 1], [-1, 2]]
    assert answer(pushes, PUSH).tolist() == np.float32(pushes).tolist()


def test_a_discrete_space_may_end_where_its_type_ends() -> None:
    """The numbers are 120 to 127, and 128 is no int8."""
    space = spaces.Discrete(8, start=120, dtype=np.int8)
    assert answer([120, 124, 127], space).tolist() == [120, 124, 127]
    with pytest.raises(Fault, match="answered with 119, which is not in"):
        answer([120, 124, 119], space)


@pytest.mark.parametrize("pushed", [[0, -0.1], [1.01, 1], [0, 1e30]])
def test_an_action_outside_the_bounds_is_refused_before_an_environment_gets_it(pushed: list[float]) -> None:
    with pytest.raises(Fault, match=r"which is not in Box\(.*\): clip it$"):
        answer([[0.5, 4], [0, 1], pushed], PUSH)


@pytest.mark.parametrize(
    ("low", "high", "pushed"),
    [
        ([-0.5, -0.5], [0.5, 0.5], [0.6, 0]),
        ([-1, -0.25], [1, 0.25], [0, 0.5]),
        ([-0.25, -1], [1, 1], [-0.5, 0]),
        ([-1, -1], [1, 1], [-3, 0]),
        ([2, 2], [3, 3], [0.5, 0.5]),
    ],
)
def test_a_small_action_outside_narrow_bounds_is_refused(
    low: list[float], high: list[float], pushed: list[float]
) -> None:
    """Most actions are known to be sound by their squares alone."""
    with pytest.raises(Fault, match=r"which is not in Box\(.*\): clip it$"):
        answer(np.float32([pushed, [0, 0], [0, 0]]), spaces.Box(np.float32(low), np.float32(high)))


def test_actions_of_an_expert_that_was_trained_for_wider_bounds_are_clipped() -> None:
    wider = spaces.Box(-5.0, 5.0, (2,), np.float32)
    expert = SimpleNamespace(act=lambda obs: np.float32([[3, -2]] * len(obs)), action_space=wider)
    assert asking(expert, PUSH)(OBS).tolist() == [[1, 0]] * len(OBS)


def test_a_policy_for_another_environment_is_named_with_both_spaces() -> None:
    expert = load_expert("CartPole-v1:ppo")
    with pytest.raises(
        InputError,
        match=r"^the expert CartPole-v1:ppo is not for .*: it acts in Discrete\(2\), not in Discrete\(4\)$",
    ):
        evaluate(expert, "LunarLander-v3", episodes=1)
    with pytest.raises(
        InputError, match=r"CartPole-v1:ppo is not for .*: it observes Box.*, not rows of shape \(2,\)$"
    ):
        asking(expert, spaces.Discrete(2))(OBS)


def test_a_learner_has_a_policy() -> None:
    learner = SimpleNamespace(policy=RandomPolicy(TURN))
    with pytest.raises(InputError, match=r"got a SimpleNamespace: give learner\.policy$"):
        asking(learner, TURN)


def test_an_environment_is_named_by_its_id() -> None:
    with pytest.raises(InputError, match="named by its id, got a TimeLimit"):
        load_expert("CartPole-v1:ppo", env_id=gym.make("CartPole-v1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "named"),
    [(OSError("no connection"), "OSError: no connection"), (GeneratorExit(), "GeneratorExit")],
)
def test_an_expert_that_raises_is_named_with_the_line(error: BaseException, named: str) -> None:
    with pytest.raises(Fault, match=rf"^the expert mine:make_expert raised {named} \(test_asking.py:\d+\)$"):
        asking(raising(error), TURN)(OBS)


def test_ctrl_c_is_no_fault_of_the_expert() -> None:
    with pytest.raises(KeyboardInterrupt):
        asking(raising(KeyboardInterrupt()), TURN)(OBS)


def raising(error: BaseException) -> Any:
    def act(obs: Any, deterministic: bool) -> Any:  # noqa: ARG001
        raise error

    return SimpleNamespace(act=act, source="mine:make_expert")


def make_raising() -> Any:
    raise LookupError("no licence")


def make_none() -> Any:
    return None


def make_predicting() -> Any:
    return SimpleNamespace(predict=lambda obs: (obs, None))


def make_resettable() -> Any:
    return SimpleNamespace(act=lambda obs: obs, reset=lambda: None)


def control(obs: Any) -> Any:
    return obs


WANTED = r"wanted a function without arguments that returns an object with act\(obs\), or a function of observations$"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("make_raising", r"make_raising raised LookupError: no licence \(test_asking.py:\d+\)$"),
        ("make_none", f"make_none returned a NoneType: {WANTED}"),
        (
            "make_predicting",
            r"of observations, such as lambda obs: model\.predict\(obs, deterministic=True\)\[0\]$",
        ),
        ("control", f"control needs arguments: {WANTED}"),
        ("OBS", f"has no callable 'OBS', {WANTED}"),
    ],
)
def test_factories_that_make_no_expert_are_refused(name: str, message: str) -> None:
    trust(f"{__name__}:{name}")
    with pytest.raises(InputError, match=message):
        load_expert(f"{__name__}:{name}", env_id="CartPole-v1")


def test_a_controller_that_wants_to_be_reset_hears_that_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    trust(f"{__name__}:make_resettable")
    load_expert(f"{__name__}:make_resettable", env_id="CartPole-v1")
    assert "has a method reset, which nobody calls" in caplog.text


def test_its_name_is_in_the_line_of_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from imitate.cli import main

    monkeypatch.chdir(tmp_path)
    Path("lazy.py").write_text("def make_expert():\n    return lambda obs: None\n", "utf-8")
    command = ["collect", "lazy:make_expert", "--env", "CartPole-v1", "--episodes", "1", "--out", "d.h5"]
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line
        == "imitate: the expert lazy:make_expert answered with a NoneType, wanted an array of numbers (8,)"
    )


class Plain:
    """A controller with nothing but `act(obs)`."""

    def act(self, obs: Any) -> Any:
        x, y = obs.T
        return np.stack([x, y], 1)


class Single:
    """A controller that takes one observation."""

    def act(self, obs: Any) -> Any:
        x, y = obs
        return np.array([x, y])


@pytest.mark.parametrize("given", ["CartPole-v1:ppo", SimpleNamespace(predict=lambda obs: (obs, None))])
def test_what_can_not_be_asked_is_no_fault_of_its_code(given: Any) -> None:
    with pytest.raises(
        InputError, match=f"got a {type(given).__name__}: imitate.load_expert .* asks one of SB3's"
    ):
        asking(given, PUSH)


def test_a_controller_need_not_know_of_randomness() -> None:
    assert asking(Plain(), PUSH)(OBS).tolist() == OBS.tolist()


@pytest.mark.parametrize("known", [False, True])
def test_a_controller_that_scales_observations_in_place_changes_no_record(*, known: bool) -> None:
    class Scales:
        policy = RandomPolicy(PUSH)  # as of a class around a policy of ours

        def act(self, obs: Any, **options: bool) -> Any:
            assert bool(options) is known
            obs *= 0.5
            return obs

    def scales(obs: Any) -> Any:
        obs *= 0.5
        return obs

    obs = OBS + 1
    assert (asking(Scales() if known else scales, PUSH)(obs) == 0.5).all()
    assert (obs == 1).all()


def test_a_controller_of_one_observation_hears_how_many_it_was_given() -> None:
    with pytest.raises(Fault, match=r"too many values.*; it was given 3 observations as one array \(3, 2\)"):
        asking(Single(), PUSH)(OBS)


def test_a_controller_of_dicts_hears_how_their_parts_are_reached() -> None:
    rows = np.zeros(3, [("camera", np.uint8, (4, 4, 3)), ("joints", np.float32, (2,))])
    with pytest.raises(Fault, match=r"3 observations as rows \(3,\) with the fields 'camera', 'joints'"):
        asking(Single(), PUSH)(rows)


def test_an_expert_is_not_blamed_for_an_observation_that_is_no_number() -> None:
    """The controller's answer is NaN because the sensor's was."""
    with pytest.raises(Fault, match="the expert was given an observation that holds NaN or infinite numbers"):
        asking(Plain(), PUSH, who="the expert")(OBS * np.nan)
