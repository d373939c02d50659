"""`imitate tune` on a task of which the reader knows the answer: in so few steps only a large learning rate gets
anywhere."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from conftest import Identity
from gymnasium.spaces import Box, Discrete
from tiny import record
from typed import config, refused

from imitate.algorithms import ALGORITHMS
from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter
from imitate.training.experiment import Experiment
from imitate.training.settings import make_config, over
from imitate.tune.ranges import OneOf, nested, searched
from imitate.tune.search import FIRST_SEED, prepared

pytest.importorskip("optuna", reason="the extra tune is not installed")
pytestmark = pytest.mark.usefixtures("in_a_folder")

HELD = (
    *("--gamma", "0", "--num-steps", "16", "--num-epochs", "4", "--batch-size", "64", "--hidden", "16"),
    *("--activation", "tanh", "--gae-lambda", "1", "--clip-coef", "0.2", "--ent-coef", "0"),
)
TUNE = ("tune", "ppo", "--env", "ContinuousIdentity-v0", "--out", "search", "--budget", "2k", *HELD)
FEW = [word if word != "2k" else "500" for word in TUNE]


class Interrupting(Identity):
    """Ctrl-C, or another signal, in one of its episodes."""

    episodes = 0
    last = 0
    signal = signal.SIGINT

    def reset(self, **keywords: Any) -> Any:
        Interrupting.episodes += 1
        if Interrupting.episodes == Interrupting.last:
            os.kill(os.getpid(), Interrupting.signal)
        return super().reset(**keywords)


gym.register("Interrupting-v0", entry_point=Interrupting, kwargs={"continuous": True})


class Lasting(Identity):
    """Its episodes do not end in the first trial of a search, so that the budget cuts every validation."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, _, ends, info = super().step(action)
        return obs, reward, False, ends and Path("search/trials/0001").exists(), info


gym.register("Lasting-v0", entry_point=Lasting, kwargs={"continuous": True})


class Failing(Identity):
    """Raises in its third step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._steps == 2:
            raise ConnectionError("no robot")
        return super().step(action)


gym.register("Failing-v0", entry_point=Failing, kwargs={"continuous": True})


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search of one trial."""
    with contextlib.chdir(folder := tmp_path_factory.mktemp("searched")):
        assert main([*FEW, "--trials", "1"]) == 0
    return folder / "search"


def drawn() -> list[Any]:
    paths = sorted(Path("search/trials").glob("*/config.json"))
    return [json.loads(path.read_text("utf-8")) for path in paths]


def test_the_right_learning_rate_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TUNE, "--trials", "3"]) == 0
    assert main([*TUNE, "--trials", "9"]) == 0  # goes on with the search
    runs = drawn()
    assert [run["seed"] for run in runs] == list(range(1_000, 1_009))
    rates = [run["hyperparameters"]["learning_rate"] for run in runs]
    assert len(set(rates)) == 9
    assert all(run["hyperparameters"]["num_epochs"] == 4 for run in runs)

    best = tomllib.loads(Path("search/best.toml").read_text("utf-8"))
    rate = best["hyperparameters"]["learning_rate"]
    assert rate > 1e-3
    assert "seed" not in best
    assert capsys.readouterr().out.splitlines()[-1] == f"learning_rate = {rate}"
    unfinished = [
        run for run in runs if not Path(f"search/trials/{run['seed'] - 1_000:04}/finished.json").exists()
    ]
    assert unfinished  # they were stopped early
    assert all(run["hyperparameters"]["learning_rate"] < rate for run in unfinished)

    assert main(["train", "--config", "search/best.toml", "--seed", "7", "--out", "run"]) == 0
    wanted = {
        **drawn()[0],
        **best,
        "seed": 7,
        "hyperparameters": {**drawn()[0]["hyperparameters"], "learning_rate": rate},
    }
    assert config("run") == wanted


def test_a_trial_is_validated_five_times_on_at_most_five_episodes() -> None:
    run = Experiment("ppo", "CartPole-v1", {}, budget=2_003, eval_episodes=20)
    found = prepared(run)
    assert (found.eval_every, found.eval_episodes) == (400, 5)
    assert prepared(replace(run, eval_episodes=3)).eval_episodes == 3


def test_the_command_that_trains_with_the_best_settings_names_an_own_expert(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("foreman.py").write_text("def make_expert():\n    return lambda obs: obs\n")
    monkeypatch.syspath_prepend(".")
    few = ("--iterations", "5", "--updates-per-iteration", "1", "--final-updates", "1", "--budget", "2k")
    own = ("--env", "ContinuousIdentity-v0", "--expert", "foreman:make_expert")
    assert main(["tune", "dagger", *own, *few, "--out", "search", "--trials", "1"]) == 0
    again = "imitate train --config search/best.toml --seed 0 --out RUN --expert foreman:make_expert"
    assert f"Train with `{again}`" in capsys.readouterr().err


def test_the_file_of_an_offline_learner_is_what_a_user_would_write() -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "2", "--out", "demos.h5"]) == 0
    held = ("--demos", "demos.h5", "--max-updates", "20", "--batch-size", "64", "--weight-decay", "0")
    assert main(["tune", "bc", "--env", "CartPole-v1", *held, "--trials", "1", "--out", "search"]) == 0
    best = tomllib.loads(Path("search/best.toml").read_text("utf-8"))
    rate = best["hyperparameters"].pop("learning_rate")
    assert {name: best[name] for name in best if name != "hyperparameters"} == {
        "algorithm": "bc",
        "env_id": "CartPole-v1",
        "demos": str(Path("..", "demos.h5")),
    }
    assert {**best["hyperparameters"], "max_updates": 20, "batch_size": 64} == best["hyperparameters"]
    assert main(["train", "--config", "search/best.toml", "--out", "run", "--no-looks"]) == 0
    settings = drawn()[0]["hyperparameters"]
    assert config("run")["hyperparameters"] == settings
    assert settings["learning_rate"] == rate


def test_ctrl_c_leaves_the_best_so_far_and_the_search_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Interrupting, "last", Interrupting.episodes + 75)
    command = [word.replace("ContinuousIdentity", "Interrupting") for word in FEW]
    assert main([*command, "--trials", "2"]) == 130
    assert "the best settings so far are in search/best.toml; go on with `imitate tune ppo" in (
        capsys.readouterr().err
    )
    assert Path("search/best.toml").exists()
    assert main([*command, "--trials", "2"]) == 0
    assert [run["seed"] for run in drawn()] == [1_000, 1_001, 1_002]  # that of the interrupted one is used up
    best = Path("search/best.toml").read_text("utf-8")
    Path("search/best.toml").unlink()  # as if it had been killed before it was written
    assert main([*command, "--trials", "2"]) == 0
    assert Path("search/best.toml").read_text("utf-8") == best
    assert "another --out" in refused(capsys, *command, "--trials", "2", "--vf-coef", "1")
    search = json.loads(Path("search/search.json").read_text("utf-8"))
    for name, goes_on in (("num_epochs", False), ("steps_between_lines", True)):  # the first is held now
        more = search | {"searched": [*search["searched"], name]}  # as by a version that searched more
        Path("search/search.json").write_text(json.dumps(more), "utf-8")
        assert main([*command, "--trials", "2"]) == (0 if goes_on else 2)


def test_demonstrations_that_have_changed_end_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    record(Path(), "CartPole-v1").rename("mine.h5")
    command = [
        "tune",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        "mine.h5",
        "--max-updates",
        "4",
        "--out",
        "search",
    ]
    assert main([*command, "--trials", "1"]) == 0
    Path("mine.h5").rename("old.h5")
    command[command.index("mine.h5")] = "old.h5"
    assert "other settings" in refused(capsys, *command, "--trials", "2")
    command[command.index("old.h5")] = "mine.h5"
    with DemoReader("old.h5") as reader, DemoWriter("mine.h5", reader.info) as writer:
        writer.append(reader[0])
    assert "mine.h5 has changed since the search in search began: restore it, or" in refused(
        capsys, *command, "--trials", "2"
    )


def test_sigterm_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Interrupting, "last", Interrupting.episodes + 100)
    monkeypatch.setattr(Interrupting, "signal", signal.SIGTERM)
    command = [word.replace("ContinuousIdentity", "Interrupting") for word in TUNE]
    with pytest.raises(SystemExit, match="143"):
        main([*command, "--trials", "2"])
    assert "imitate: go on with `imitate tune ppo" in capsys.readouterr().err


def test_a_trial_without_a_whole_validation_does_not_end_the_search(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    command = [word.replace("ContinuousIdentity", "Lasting") for word in TUNE]
    assert main([*command, "--trials", "2"]) == 0
    said = [line for line in caplog.messages if line.startswith("trial 0: ")]
    assert said == ["trial 0: a budget of 2000 steps is too small for a validation: give a larger --budget"]
    assert "imitate: trial 1 has a return of" in capsys.readouterr().err


def test_a_trial_that_was_stopped_leaves_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes on with it, and with a replay it is large."""
    monkeypatch.setattr("optuna.trial.Trial.should_prune", lambda trial: trial.number == 1)
    assert main([*FEW, "--trials", "2"]) == 0
    assert not Path("search/trials/0001/finished.json").exists()
    assert not list(Path("search").rglob("checkpoint*"))


def test_a_trial_that_has_finished_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An offline learner is validated once, at its end."""
    monkeypatch.setattr("optuna.trial.Trial.should_prune", lambda _: True)
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "demos.h5"]) == 0
    held = ("--demos", "demos.h5", "--max-updates", "5", "--eval-episodes", "1")
    assert main(["tune", "bc", "--env", "CartPole-v1", *held, "--trials", "1", "--out", "search"]) == 0
    assert Path("search/best.toml").exists()


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "leave out --seed" in refused(capsys, *TUNE, "--seed", "1")
    null = refused(capsys, *FEW, "--env-kwargs", '{"continuous": null}', "--trials", "1")
    assert "env_kwargs.continuous is null, which TOML does not have" in null
    assert not Path("search").exists()
    few = ["130" if word == "2k" else word for word in TUNE]
    said = refused(capsys, *few, "--trials", "1")
    assert "give a larger --budget; a search with other settings needs another --out" in said
    assert "another --out" in refused(capsys, *FEW, "--trials", "1")
    assert "is given: leave some out" in refused(capsys, *TUNE, "--learning-rate", "1e-3")
    assert "--expert SPEC" in refused(capsys, "tune", "dagger", "--env", "CartPole-v1", "--out", "other")


def test_a_learner_of_ones_own_without_ranges_is_told_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(
        capsys, "tune", "planted:Learner", "--env", "CartPole-v1", "--trials", "1", "--out", "other"
    )
    assert (
        "planted:Learner has no hyperparameter with a range to search: names with ranges are learning_rate, "
        in said
    )


def test_an_environment_that_is_not_here_is_not_tuned_on(capsys: pytest.CaptureFixture[str]) -> None:
    """BC trains on it, but nobody gave the --eval-every that a run without evaluations is told to leave out."""
    bc = ("tune", "bc", "--env", "Valve-v0", "--demos", "demos.h5", "--trials", "1", "--out", "other")
    said = refused(capsys, *bc)
    assert "tuning plays Valve-v0, which is not installed here: install it, or name" in said
    assert "--env MODULE:Valve-v0" in said


def test_a_failed_trial_is_not_gone_on_with_alone(capsys: pytest.CaptureFixture[str]) -> None:
    failing = [word if word != "ContinuousIdentity-v0" else "Failing-v0" for word in FEW]
    again = shlex.join(["imitate", *failing, "--trials", "1"])
    assert f"were taken: go on with `{again}`" in refused(capsys, *failing, "--trials", "1")


def test_a_refused_input_does_not_claim_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "2", "--out", "demos.h5"]) == 0
    assert main(["data", "convert", "demos.h5", "unknown.h5", "--no-actions"]) == 0
    bc = ["tune", "bc", "--env", "CartPole-v1", "--max-updates", "5", "--trials", "1", "--out", "search"]
    assert "without the actions that bc needs" in refused(capsys, *bc, "--demos", "unknown.h5")
    assert main([*bc, "--demos", "demos.h5"]) == 0
    assert drawn()[0]["seed"] == FIRST_SEED
    assert "holds a search with other settings" in refused(capsys, *bc, "--demos", "unknown.h5")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_something_to_search(name: str) -> None:
    """Any value of the ranges makes a config, and GAIL's are those of the learner in use."""
    settings = Experiment.preset(name).hyperparameters
    ranges = searched(name, settings, {}, Discrete(2))
    assert any(each.endswith("learning_rate") for each in ranges)
    assert not any(each.startswith(("a2c.", "reinforce.", "sac.")) for each in ranges)
    assert "batch_size" not in searched(name, settings, {"batch_size": 64}, Discrete(2))
    assert not (ALGORITHMS[name].offline and "updates_per_iteration" in ranges)
    for actions in (Discrete(2), Box(-1, 1)):
        for each, choice in searched(name, settings, {}, actions).items():
            for value in choice.values if isinstance(choice, OneOf) else (choice.low, choice.high):
                make_config(name, over(settings, nested({each: value})))


def test_what_a_killed_process_left_is_mended(searched_once: Path) -> None:
    """Half a line of Optuna's log, and its lock, which another process would wait for without end."""
    shutil.copytree(searched_once, "search")
    log = Path("search/trials.log")
    log.write_bytes(log.read_bytes()[:-40])
    Path("search/trials.log.lock").symlink_to("search/trials.log")
    assert main([*FEW, "--trials", "2"]) == 0
    assert main([*FEW, "--trials", "3"]) == 0


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("trials.log", "{}\n", "search/trials.log is damaged"),
        ("trials.log", '{"op_code": 0}\n', "search/trials.log is damaged"),
        ("trials.log", "{\n{\n", "search/trials.log is damaged"),
        ("search.json", '{"run": {}, "searched": 5}', "Expected `array`, got `int` - at `$.searched`"),
        ("search.json", '{"run": {}, "searched": [[1]]}', "Expected `str`, got `array`"),
        ("trials/0000/config.json", "{}", "search/trials/0000/config.json"),
        ("trials/0000/config.json", '{"hyperparameters": {}}', "search/trials/0000/config.json"),
    ],
)
def test_a_damaged_search_is_one_line(
    file: str, text: str, said: str, searched_once: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(searched_once, "search")
    Path("search", file).write_text(text, "utf-8")
    assert said in refused(capsys, *FEW, "--trials", "2")


def test_help_has_the_searchs_own_seeds_and_validations(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "ppo", "--env", "LunarLander-v3", "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "by default a fifth of the budget. An offline learner is validated once, at its end" in said
    assert "--seed" not in said


def test_help_does_not_give_the_presets_number_of_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    """SAC's has 10, and a trial 5."""
    with pytest.raises(SystemExit):
        main(["tune", "sac", "--env", "Pendulum-v1", "--help-all"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "episodes in a validation; by default the preset's number, but at most 5 --" in said
