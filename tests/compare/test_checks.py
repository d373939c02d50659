"""Comparisons that are refused before they run, and settings that are shortened so that they fit."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import structured  # noqa: F401  # registers the environments

from imitate.algorithms import ALGORITHMS
from imitate.compare import Comparison, Suite
from imitate.compare.execute.carry_out import carry_out
from imitate.compare.execute.checks import least_steps
from imitate.compare.execute.reference_returns import measured_references
from imitate.compare.execute.training import training
from imitate.compare.plan.comparison import jobs
from imitate.compare.plan.scaling import made_for, shortened
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.files import write_json


def small(name: str, **fields: Any) -> Comparison:
    settings: dict[str, Any] = {"seeds": 1, "budget": 4_000, "episodes": 4, "curve_episodes": 3}
    return Comparison("CartPole-v1", (name,), "CartPole-v1:ppo", **(settings | fields))


def test_demonstrations_that_the_budget_does_not_pay_for_are_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="about 25000 for demonstrations"):
        carry_out(small("bc", demo_episodes=50), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("sqil", {"dqn": {"learning_starts": 700}}, "which takes 704 steps before it learns and about 500 for dem"),
        ("sb3:ppo", {"n_steps": "a"}, "n_steps, got 'a'"),
        ("sb3:ppo", {"gamma": "x"}, "wants a number as gamma, got 'x'"),
        ("dqn", {"learning_starts": 1_100}, "which takes 1104 steps before it learns; give more, or leave dqn out"),
        ("sb3:dqn", {"learning_starts": 1_000}, "too small for sb3:dqn, which takes 1001 steps before it learns"),
    ],
)  # fmt: skip
def test_a_learner_that_would_not_begin_to_learn_is_refused_before_anything_runs(
    tmp_path: Path, name: str, settings: dict[str, Any], said: str
) -> None:
    """CartPole's expert has episodes of 500 steps, and one demonstration is the least."""
    wanted = small(name, budget=1_000, hyperparameters={name: settings})
    with pytest.raises(InputError, match=said) as error:
        carry_out(wanted, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"hyperparameters": {"ppo": {"target_kl": None}}}, "hyperparameters.ppo.target_kl"),
        ({"env_kwargs": {"rows": ["SF", None]}}, "env_kwargs.rows.1"),
    ],
)
def test_a_null_that_the_reports_toml_would_lose_is_refused_before_anything_runs(
    tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    """Compared again, the setting would be the preset's, or the environment's own."""
    wanted = small("ppo", **fields)
    for each in (wanted, Suite("mine", {"CartPole-v1": wanted})):
        with pytest.raises(InputError, match=f"^{named} is null, which TOML does not have: leave it out"):
            carry_out(each, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_learner_can_be_made_before_anything_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    discrete = tuple(
        name
        for name in ALGORITHMS
        if name not in ("rpo", "sac", "tqc", "td3", "guided", "dac", "gaifo", "td3bc")
    )
    wanted = Comparison("CartPole-v1", discrete, "CartPole-v1", seeds=1)
    assert set(least_steps(wanted, tmp_path)) == {*wanted.algorithms, *wanted.controls}
    wanted = Comparison(
        "Pendulum-v1",
        ("bc", "td3bc", "gail", "rpo", "sac", "tqc", "td3", "guided", "dac", "gaifo", "sqil", "iq"),
        "Pendulum-v1",
        hyperparameters={"gail": {"demo_pairs": 300}},
    )
    least = least_steps(wanted, tmp_path)
    assert least["bc"] == least["td3bc"] == 0
    assert (least["gail"], least["rpo"]) == (8, 4)  # environments side by side
    # Random steps at first, and one more for the first update; guided learning begins with updates on the 500.
    assert {least[name] for name in ("sac", "tqc", "td3", "dac", "gaifo", "sqil", "iq")} == {501}
    assert least["guided"] == 500
    assert not list(tmp_path.iterdir())
    assert caplog.messages == []


def test_learners_from_dicts_can_be_made_too(tmp_path: Path) -> None:
    trust("structured:make_knower")
    wanted = Comparison("Told-multi-v0", ("bc", "dagger"), "structured:make_knower", seeds=1)
    assert set(least_steps(wanted, tmp_path)) == {*wanted.algorithms, *wanted.controls}


def test_learners_from_stacks_of_frames_can_be_made_too(tmp_path: Path) -> None:
    """Their replays reject observations that are not stacks of the last frames."""
    wanted = Comparison("imitate/PixelCartPole-v0", ("bc", "gail", "sqil", "iq"), "random", seeds=1)
    assert set(least_steps(wanted, tmp_path)) == {*wanted.algorithms, *wanted.controls}


def test_an_iteration_is_a_twentieth_of_the_budget() -> None:
    has = {"num_steps": 128, "batch_size": 256, "learning_starts": 5_000}
    # 20,000 / 20 = 1,000 steps: at least 32 of each environment leave 31 of them.
    assert shortened(has, 32, 20_000, {}) == ({"learning_starts": 1_000, "num_steps": 32}, 31)
    # 160 steps: five environments, and a batch of all.
    small = {"learning_starts": 160, "num_steps": 32, "batch_size": 160}
    assert shortened(has, 32, 3_200, {}) == (small, 5)
    # 2,000 steps of four environments are 500 of each, which the preset is below already.
    assert shortened(has, 4, 40_000, {}) == ({"learning_starts": 2_000}, 4)
    # 400 are 100 of each.
    assert shortened(has, 4, 8_000, {"learning_starts": 7}) == ({"num_steps": 100}, 4)


def test_a_preset_suits_three_times_its_budget_and_a_third() -> None:
    assert made_for(300, 100) == made_for(100, 300) == []
    assert made_for(301, 100) == ["preset made for another budget: 301 steps"]
    assert made_for(100, 301) == ["preset made for another budget: 100 steps"]


def test_nested_settings_are_shortened_too(tmp_path: Path) -> None:
    """GAIL's PPO has rollouts of 8 x 128 steps, SQIL's DQN waits for 1,000."""
    found = {}
    for name, given in (("gail", {}), ("sqil", {}), ("sqil", {"dqn": {"learning_starts": 300}})):
        wanted = small(name, hyperparameters={name: given})
        run = training(wanted, next(job for job in jobs(wanted, tmp_path, 500) if job.algorithm == name))
        found[name, bool(given)] = run
    gail = found["gail", False]
    assert (gail.stepped["num_envs"], gail.hyperparameters["ppo"]["num_steps"]) == (
        6,
        33,
    )  # 4,000 / 20 in all
    assert "ppo.num_steps 128 -> 33" in gail.notes
    assert found["sqil", False].hyperparameters["dqn"]["learning_starts"] == 200
    assert "dqn.learning_starts 1000 -> 200" in found["sqil", False].notes
    assert found["sqil", True].hyperparameters["dqn"]["learning_starts"] == 300


@pytest.mark.parametrize(
    ("name", "env_id", "settings", "num_envs", "within"),
    [
        ("gail", "CartPole-v1", {"learner": "a2c"}, 8, []),
        ("gail", "CartPole-v1", {"learner": "reinforce"}, 8, []),
        ("sqil", "CartPole-v1", {}, 8, ["dqn.learning_starts 1000 -> 200"]),
        ("iq", "Pendulum-v1", {}, 1, ["sac.learning_starts 500 -> 200"]),
        ("loki", "CartPole-v1", {}, 6, ["ppo.num_steps 256 -> 33", "ppo.batch_size 256 -> 198"]),
    ],
)
def test_only_the_nested_settings_in_use_are_shortened(
    tmp_path: Path, name: str, env_id: str, settings: dict[str, Any], num_envs: int, within: list[str]
) -> None:
    wanted = Comparison(env_id, (name,), env_id, budget=4_000, hyperparameters={name: settings})
    run = training(wanted, next(job for job in jobs(wanted, tmp_path, 500) if job.algorithm == name))
    assert run.stepped["num_envs"] == num_envs
    assert [note for note in run.notes if "." in note] == within


def test_edited_code_of_ones_own_is_measured_and_run_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names stay, and results of the code before would be reported as those of the code now."""
    monkeypatch.syspath_prepend(tmp_path)
    env, expert, track = (tmp_path / name for name in ("my_tank.py", "my_driver.py", "my_track.py"))
    track.write_text("SLOPE = 0\n")
    env.write_text(
        "import gymnasium, my_track\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Tank(CartPoleEnv): pass\n"
        "gymnasium.register('OwnTank-v0', Tank, max_episode_steps=10)\n"
    )
    expert.write_text("def make():\n    return lambda obs: (obs[:, 2] > 0).astype(int)\n")
    trust("my_tank:OwnTank-v0", "my_driver:make")
    tank = Comparison(
        "my_tank:OwnTank-v0", ("ppo",), "my_driver:make", budget=200, episodes=2, curve_episodes=1
    )

    def place() -> tuple[str, Path]:
        found = measured_references(tank, tmp_path / "out")
        write_json(tmp_path / "out" / "references.json", asdict(found))
        return found.key, jobs(tank, tmp_path / "out", found.episode_steps, found.made_from)[0].folder

    found = [place(), place()]
    for file in (env, expert, track):
        file.write_text(file.read_text("utf-8") + "# edited\n")
        found.append(place())
    assert found[0] == found[1]
    keys, folders = zip(*found, strict=True)
    assert len(set(keys)) == len(set(folders)) == 4


def test_an_expert_with_other_statistics_is_another(zoo: Path, tmp_path: Path) -> None:
    """A vecnormalize.pkl that is found later changes every action, and not the zip."""
    folder = next(zoo.glob("ppo/MountainCar-v0_*"))
    shutil.copyfile(folder / "MountainCar-v0.zip", tmp_path / "agent.zip")
    car = Comparison(
        "MountainCar-v0", ("ppo",), str(tmp_path / "agent.zip"), budget=200, episodes=2, curve_episodes=1
    )
    without = measured_references(car, tmp_path / "out")
    shutil.copyfile(next(folder.rglob("vecnormalize.pkl")), tmp_path / "vecnormalize.pkl")
    found = measured_references(car, tmp_path / "out")
    assert without.made_from != found.made_from
    assert without.key != found.key
