"""Learners that take part: SB3's on the same budget, settings under a label, and those of a user."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from conftest import Identity
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from imitate.cli import main
from imitate.compare import Comparison
from imitate.compare.execute import worker
from imitate.compare.execute.baselines import Baseline
from imitate.compare.execute.training import stored_policy, training
from imitate.compare.plan.comparison import Job, jobs
from imitate.compare.plan.learners import BASELINES, find, title
from imitate.compare.report.report import write_report
from imitate.compare.statistics.job_results import Result
from imitate.envs.trust import trust
from imitate.errors import InputError


def job_of(wanted: Comparison, out: Path) -> Job:
    return next(job for job in jobs(wanted, out, 100) if not job.records)


def small(name: str, env_id: str = "CartPole-v1", **fields: Any) -> Comparison:
    settings: dict[str, Any] = {"seeds": 1, "budget": 500, "episodes": 2, "curve_episodes": 1}
    return Comparison(env_id, (name,), **(settings | fields))


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        ("sb3:ppo", "Acrobot-v1"),
        ("sb3:a2c", "CartPole-v1"),
        ("sb3:dqn", "CartPole-v1"),
        pytest.param("sb3:tqc", "Pendulum-v1", marks=pytest.mark.slow),
    ],
)
def test_baselines_spend_the_budget_and_no_more(tmp_path: Path, name: str, env_id: str) -> None:
    """Acrobot's PPO and A2C are normalised by VecNormalize, whose statistics are stored with the policy."""
    seldom = {"sb3:tqc": {"train_freq": 10, "gradient_steps": 1}} if name == "sb3:tqc" else {}
    short = {"max_episode_steps": 50}
    wanted = small(name, env_id, hyperparameters=seldom, env_kwargs=short)
    job = job_of(wanted, tmp_path)
    reported: list[int] = []
    assert worker.train_and_measure(wanted, job, reported.append)
    found = Result.load(job.folder)
    assert found is not None
    assert 0.9 * 500 <= found.env_steps <= 500
    assert (found.demo_steps, found.expert_queries) == (0, 0)
    steps = [point.steps for point in found.curve]
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] == found.env_steps
    assert reported[-1] == found.env_steps
    assert found.cpu_seconds > 0
    rows = [json.loads(line) for line in (job.folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert rows[-1]["budget_steps"] == found.env_steps
    policy = stored_policy(wanted, job.folder)
    assert (
        worker.test(wanted, policy).returns.tolist() == found.returns
    )  # what is stored is what was measured
    normalisation = json.loads((job.folder / "policy" / "expert.json").read_text("utf-8"))["normalisation"]
    assert (normalisation is not None) == (name == "sb3:ppo")


def test_a_baseline_can_learn_from_rewards_as_they_are(tmp_path: Path) -> None:
    given = {"sb3:ppo": {"normalize": True, "norm_reward": False, "n_steps": 32}}
    wanted = small("sb3:ppo", hyperparameters=given)
    assert Baseline.create(wanted, job_of(wanted, tmp_path)).hyperparameters["norm_reward"] is False


def test_a_baseline_repeats_to_the_byte_after_an_interruption(tmp_path: Path) -> None:
    wanted = small("sb3:ppo")
    job = job_of(wanted, tmp_path / "a")

    def interrupt(steps: int) -> None:
        if steps > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.train_and_measure(wanted, job, interrupt)
    whole = job_of(wanted, tmp_path / "b")
    results = []
    for each in (job, whole):
        worker.train_and_measure(wanted, each, lambda _steps: None)
        results.append(Result.load(each.folder))
    a, b = results
    assert a is not None
    assert b is not None
    assert a.returns == b.returns
    assert [point.returns for point in a.curve] == [point.returns for point in b.curve]
    weights = [each.folder / "policy" / "policy.safetensors" for each in (job, whole)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_baselines_preset_is_shortened_as_ours_are(tmp_path: Path) -> None:
    """The zoo's PPO on Pendulum has rollouts of 4 x 1,024 steps."""
    wanted = small("sb3:ppo", "Pendulum-v1", budget=10_000)
    found = training(wanted, job_of(wanted, tmp_path))
    assert found.stepped == {"num_envs": 4, "backend": "gymnasium"}
    assert found.hyperparameters["n_steps"] == 125  # a twentieth of the budget
    assert found.hyperparameters["gamma"] == 0.9
    assert found.notes == ["preset made for another budget: 100,000 steps", "n_steps 1024 -> 125"]
    given = small(
        "sb3:ppo", "Pendulum-v1", budget=10_000, hyperparameters={"sb3:ppo": {"n_steps": 64}}, num_envs=2
    )
    kept = training(given, job_of(given, tmp_path))
    assert (kept.stepped["num_envs"], kept.hyperparameters["n_steps"]) == (2, 64)


@pytest.mark.parametrize(
    ("name", "env_id", "fields", "said"),
    [
        (
            "sb3:dqn",
            "Pendulum-v1",
            {},
            "dqn can't be set up with this environment and these hyperparameters: ",
        ),
        ("sb3:sac", "CartPole-v1", {}, "sac can't be set up with this environment"),
        (
            "sb3:ppo",
            "CartPole-v1",
            {"hyperparameters": {"sb3:ppo": {"gama": 0.9}}},
            "sb3:ppo has no hyperparameter 'gama'; did you mean 'gamma'",
        ),
        (
            "sb3:ppo",
            "CartPole-v1",
            {"hyperparameters": {"sb3:ppo": {"seed": 3}}},
            "sb3:ppo has no hyperparameter 'seed'",
        ),
        (
            "sb3:ppo",
            "CartPole-v1",
            {"hyperparameters": {"sb3:ppo": {"n_steps": 512}}},
            "a budget of 500 steps is too small for one rollout of sb3:ppo, 4096 steps",
        ),
    ],
)
def test_baselines_that_can_not_run_are_refused_in_one_line(
    tmp_path: Path, name: str, env_id: str, fields: dict[str, Any], said: str
) -> None:
    wanted = small(name, env_id, **fields)
    with pytest.raises(InputError, match=said) as error:
        training(wanted, job_of(wanted, tmp_path)).least_steps()
    assert "\n" not in str(error.value)


def test_names_are_known() -> None:
    assert [title(name) for name in ("ppo", "sb3:ppo", "gail:random", "ppo@wide", "sb3:dqn@big", "my.module:Mine")] == [
        "PPO", "SB3 PPO", "GAIL (random)", "PPO (wide)", "SB3 DQN (big)", "my.module:Mine"
    ]  # fmt: skip
    for name in BASELINES:
        assert find(f"sb3:{name}").needs == ("envs",)
    with pytest.raises(InputError, match="unknown baseline 'sb3:pop'; did you mean 'ppo'"):
        small("sb3:pop")
    with pytest.raises(InputError, match="names no learner: wanted such as ppo"):
        small("../ppo")


def test_events_are_found_by_the_runs_name(tmp_path: Path) -> None:
    """`tensorboard --logdir OUT/runs` shows every run under its folder's name."""
    for name, scalar in (("sb3:ppo", "train/train_return"), ("ppo", "train/train_return")):
        wanted = small(name, budget=1_000)
        job = job_of(wanted, tmp_path)
        worker.train_and_measure(wanted, job, lambda _steps: None)
        assert job.folder.parent == tmp_path / "runs"
        events = EventAccumulator(str(job.folder))
        events.Reload()
        assert scalar in events.Tags()["scalars"]


# --- a user's own

MODULE = '''
from dataclasses import dataclass

from imitate.rl.ppo import PPO, PPOConfig


@dataclass(frozen=True)
class MineConfig(PPOConfig):
    pass


class Mine(PPO):
    """PPO under another name."""

    def __init__(self, config, *, envs, seed=0, device="cpu"):
        super().__init__(config, envs=envs, seed=seed, device=device)


class NoConfig:
    pass


class NoSeed(Mine):
    def __init__(self, config, *, envs, device="cpu"):
        super().__init__(config, envs=envs, device=device)


NoSeedConfig = MineConfig


class OneEnv(Mine):
    def __init__(self, config, *, env, seed, device="cpu"):
        super().__init__(config, envs=env, seed=seed, device=device)


OneEnvConfig = MineConfig


class Shown(Mine):
    def __init__(self, config, *, envs, demos, episodes=None, seed=0, device="cpu"):
        super().__init__(config, envs=envs, seed=seed, device=device)


ShownConfig = MineConfig


class Plain(Mine):
    pass


class PlainConfig:
    total_steps = 600


class Bare(Mine):
    pass


@dataclass
class BareConfig:
    gamma: float
    total_steps: int = 600
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, under a name that no other test has imported."""
    name = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.usefixtures("undrawn")
def test_a_learner_of_ones_own_takes_part(module: str, tmp_path: Path) -> None:
    """From the command line, in another process; its settings are those of its config."""
    out = tmp_path / "out"
    arguments = [
        "compare",
        "--env",
        "CartPole-v1",
        "--algorithms",
        f"{module}:Mine",
        "--seeds",
        "1",
        "--budget",
        "600",
    ]
    arguments += ["--episodes", "2", "--curve-episodes", "1", "--workers", "1", "--out", str(out)]
    assert main(arguments) == 0
    said = json.loads((out / "summary.json").read_text("utf-8"))
    assert list(said["algorithms"]) == [f"{module}:Mine"]
    notes = said["algorithms"][f"{module}:Mine"]["notes"]
    assert not any("preset" in note for note in notes)  # it has none
    assert "a learner of your own" in (out / "report.html").read_text("utf-8")
    # Another text of it is another learner.
    wanted = Comparison.from_json(said["comparison"])
    before = job_of(wanted, out).folder
    (tmp_path / f"{module}.py").write_text(MODULE + "\n# changed\n")
    assert job_of(wanted, out).folder != before
    trust(f"{module}:NoConfig")
    with pytest.raises(
        InputError, match=f"{module}:NoConfig: {module} must have a class NoConfig and its settings"
    ):
        job_of(small(f"{module}:NoConfig"), out)
    trust(f"{module}:NoSeed")
    with pytest.raises(
        InputError, match=r"NoSeed is given its config, and by keyword seed, .*keyword argument .seed"
    ):
        job_of(small(f"{module}:NoSeed"), out)
    trust(f"{module}:OneEnv", f"{module}:Plain")
    with pytest.raises(
        InputError, match=r"missing a required .*'env'; it may also name envs, demos, expert, store$"
    ):
        job_of(small(f"{module}:OneEnv"), out)
    with pytest.raises(InputError, match=r"its settings PlainConfig, a dataclass"):
        job_of(small(f"{module}:Plain"), out)
    trust(f"{module}:Bare")
    with pytest.raises(InputError, match=r"the setting BareConfig\.gamma needs a default"):
        job_of(small(f"{module}:Bare"), out)
    trust(f"{module}:Shown")
    with pytest.raises(InputError, match=f"{module}:Shown needs an expert: name one with --expert"):
        job_of(small(f"{module}:Shown"), out)


def test_a_file_does_not_choose_what_is_imported(module: str, tmp_path: Path) -> None:
    other = f"{module}_other"
    (tmp_path / f"{other}.py").write_text("raise SystemExit('imported')")
    wanted = small(f"{other}:Mine")  # naming it imports nothing
    assert title(f"{other}:Mine") == f"{other}:Mine"
    with pytest.raises(InputError, match=f"if you trust it, say .*--add` {other}:Mine"):
        job_of(wanted, tmp_path / "out")
    assert other not in sys.modules


@pytest.mark.usefixtures("undrawn")
def test_a_strangers_report_is_written_without_importing(tmp_path: Path) -> None:
    from imitate.compare.statistics.job_results import Point, Reference, References
    from imitate.files import write_json

    out = tmp_path / "out"
    wanted = small("stranger:Mine", budget=1_600)
    write_json(out / "comparison.json", wanted.to_json())
    write_json(out / "runs.json", {"stranger:Mine-seed0": "runs/a"})
    random = Reference([9.0, 9.0], [9, 9], [9.0])
    from dataclasses import asdict

    write_json(out / "references.json", asdict(References("", 9.0, False, random, None)))
    curve = [Point(n, 0, 1.0, [float(n)]) for n in range(17)]
    Result("CartPole-v1", "stranger:Mine", 0, 1_600, curve, [1.0, 2.0], [1, 2], 0, 1_600, 0, 1.0).save(
        out / "runs/a"
    )
    assert "<h1>stranger:Mine on CartPole-v1</h1>" in write_report(out).read_text("utf-8")
    assert "stranger" not in sys.modules


def test_a_baseline_has_finite_hyperparameters_and_schedules_as_words(tmp_path: Path) -> None:
    wanted = small("sb3:ppo")
    found = training(wanted, job_of(wanted, tmp_path))
    assert isinstance(found, Baseline)
    numbers = [value for value in found.hyperparameters.values() if isinstance(value, float)]
    assert np.isfinite(numbers).all()
    assert found.hyperparameters["clip_range"] == "lin_0.2"  # a schedule is a word, as in the zoo


class Failing(Identity):
    """Raises in its third step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._steps == 2:
            raise ConnectionError("no robot")
        return super().step(action)


gym.register("FailingLearner-v0", entry_point=Failing)


def test_a_failed_run_goes_on_by_the_comparison(tmp_path: Path) -> None:
    """`train --resume` would leave no points of its curve."""
    wanted = small("ppo", "FailingLearner-v0")
    with pytest.raises(InputError, match=r"were taken: go on with `imitate compare \.\.\.`"):
        training(wanted, job_of(wanted, tmp_path)).execute(tmp_path / "run", lambda _: None)
