"""`imitate train --config` and `--resume`: runs that are described by a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typed import PPO, config, refused

from imitate.cli import main
from imitate.errors import InputError
from imitate.training.experiment import Experiment

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_a_config_is_repeated_with_other_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "300", "--gamma", "0.9", "--out", "first"]) == 0
    assert (
        main(["train", "--config", "first/config.json", "--seed", "3", "--budget", "400", "--out", "second"])
        == 0
    )
    first, second = config("first"), config("second")
    assert (first["seed"], second["seed"]) == (0, 3)
    expected = dict(first["hyperparameters"]) | {"total_steps": 400}  # type: ignore[call-overload]
    assert second["hyperparameters"] == expected
    assert "of ppo, not of dqn" in refused(
        capsys, "train", "dqn", "--config", "first/config.json", "--out", "o"
    )
    assert "did you mean '--gamma'" in refused(
        capsys, "train", "--config", "first/config.json", "--gama", "1", "--out", "o"
    )


def test_total_steps_that_were_typed_hold_though_they_are_the_default() -> None:
    assert main([*PPO, "--budget", "300", "--total-steps", "100000", "--out", "run"]) == 0
    assert config("run")["hyperparameters"]["total_steps"] == 100_000  # type: ignore[index]


def test_paths_in_a_config_are_absolute_or_relative_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "demos.h5"]) == 0
    run = ("train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--max-epochs", "1")
    assert main([*run, "--out", "first"]) == 0
    assert config("first")["demos"] == str(tmp_path / "demos.h5")
    Path("first/relative.json").write_text(
        json.dumps(config("first") | {"demos": "../demos.h5"}), encoding="utf-8"
    )
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert main(["train", "--config", "../first/config.json", "--out", "second"]) == 0
    assert main(["train", "--config", "../first/relative.json", "--out", "third"]) == 0


def test_toml_holds_what_differs_from_the_preset(tmp_path: Path) -> None:
    Path("ppo.toml").write_text('algorithm = "ppo"\nenv_id = "CartPole-v1"\nbudget = 300\n', "utf-8")
    read = Experiment.read("ppo.toml").changed()
    assert read == Experiment.create("ppo", "CartPole-v1", budget=300)
    assert read.to_toml(tmp_path) == Path("ppo.toml").read_text("utf-8")
    Path("demos.h5").touch()
    gail = Experiment.create(
        "gail", "CartPole-v1", demos="demos.h5", budget=500, hyperparameters={"ppo": {"gamma": 0.5}}
    )
    Path("runs").mkdir()
    Path("runs/gail.toml").write_text(gail.to_toml(Path("runs")), encoding="utf-8")
    again = Experiment.read("runs/gail.toml").changed(demos="demos.h5")
    assert again == gail


@pytest.mark.parametrize(
    ("algorithm", "settings", "named"),
    [
        ("ppo", {"env_kwargs": {"map_name": None}}, "env_kwargs.map_name"),
        ("ppo", {"env_kwargs": {"map": {"name": None}}}, "env_kwargs.map.name"),
        ("ppo", {"env_kwargs": {"rows": ["SF", None]}}, "env_kwargs.rows.1"),
        ("loki", {"expert": "random", "hyperparameters": {"ppo": {"target_kl": None}}},
         "hyperparameters.ppo.target_kl"),
    ],
)  # fmt: skip
def test_a_null_that_toml_would_lose_is_refused(algorithm: str, settings: dict[str, Any], named: str) -> None:
    """Read back, the setting would be the preset's, or the environment's own."""
    with pytest.raises(InputError, match=f"^{named} is null, which TOML does not have: leave it out"):
        Experiment.create(algorithm, "CartPole-v1", **settings).to_toml(Path())


def test_toml_in_a_folder_behind_a_link_names_files_that_are_there() -> None:
    Path("demos.h5").touch()
    Path("disk/big/runs").mkdir(parents=True)
    Path("link").symlink_to("disk/big")
    bc = Experiment.create("bc", "CartPole-v1", demos="demos.h5")
    Path("link/runs/bc.toml").write_text(bc.to_toml(Path("link/runs")), encoding="utf-8")
    demos = Experiment.read("link/runs/bc.toml").demos
    assert demos is not None
    assert Path(demos).samefile("demos.h5")


def test_toml_may_begin_with_a_byte_order_mark() -> None:
    """Some editors on Windows write one. JSON with one is read, too."""
    Path("ppo.toml").write_text('algorithm = "ppo"\nenv_id = "CartPole-v1"\n', "utf-8-sig")
    assert Experiment.read("ppo.toml").algorithm == "ppo"


def test_a_name_in_toml_that_is_no_setting_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be ignored: here the step size belongs in [hyperparameters]."""
    text = 'algorithm = "ppo"\nenv_id = "CartPole-v1"\nlearning_rate = 0.1\n'
    Path("ppo.toml").write_text(text, "utf-8")
    said = refused(capsys, "train", "--config", "ppo.toml", "--out", "o")
    assert (
        "ppo.toml does not describe a run: a run has no setting 'learning_rate': it belongs in its " in said
    )


@pytest.mark.parametrize("way", ["--config", "--resume"])
def test_a_module_that_a_config_names_is_not_imported(capsys: pytest.CaptureFixture[str], way: str) -> None:
    Path("payload.py").write_text("raise SystemExit('the payload ran')", "utf-8")
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("foreign").mkdir()
    Path("foreign/config.json").write_text(
        json.dumps(config("run") | {"env_id": "payload:X-v0"}), encoding="utf-8"
    )
    given = ("foreign",) if way == "--resume" else ("foreign/config.json", "--out", "o")
    assert "if you trust it, say --env payload:X-v0" in refused(capsys, "train", way, *given)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("budget", "many", "Expected `int`, got `str` - at `$.budget`"),
        ("budget", -5, "budget must be at least 1, got -5"),
        ("hyperparameters", [], "Expected `object`, got `array`"),
        ("hyperparameters", {"gamma": "x"}, "hyperparameters of ppo that can't be used"),
        ("algorithm", "pppo", "did you mean 'ppo'"),
        ("device", "cuda", "this torch sees no GPU; use --device cpu"),
    ],
)
def test_a_damaged_config_is_one_line(
    capsys: pytest.CaptureFixture[str],
    field: str,
    value: object,
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("config.json").write_text(json.dumps(config("run") | {field: value}), encoding="utf-8")
    assert wanted in refused(capsys, "train", "--config", "config.json", "--out", "o")
    assert not Path("o").exists()


def test_a_cuda_run_goes_on_on_a_cpu_when_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    cuda = config("run") | {"device": "cuda"}
    Path("unfinished").mkdir()
    Path("unfinished/config.json").write_text(json.dumps(cuda), "utf-8")
    assert "use --device cpu" in refused(capsys, "train", "--resume", "unfinished")
    assert main(["train", "--resume", "unfinished", "--device", "cpu"]) == 0
    assert main(["train", "--config", "run/config.json", "--device", "cpu", "--out", "again"]) == 0


def test_hints_name_the_module_that_a_run_may_not_import_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("owned.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Owned-v0', CartPoleEnv, max_episode_steps=9)\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(Path.cwd())
    own = [option if option != "CartPole-v1" else "owned:Owned-v0" for option in PPO]
    assert main([*own, "--budget", "300", "--out", "run"]) == 0
    assert "`imitate evaluate run --env owned:Owned-v0`" in capsys.readouterr().err


def test_a_command_with_resume_must_describe_the_run_that_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "demos.h5"]) == 0
    command = (
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        "demos.h5",
        "--max-epochs",
        "1",
        "--out",
        "run",
    )
    assert main([*command]) == 0
    for again in (command, ("train", "bc", "--out", "run", "--no-looks")):
        assert "is a finished run" in refused(capsys, *again, "--resume")
    for words, said in (
        (("--max-epochs", "2"), "--max-epochs is 1 there, not 2; leave it out, or begin a new run"),
        (("--seed", "5"), "--seed is 0 there, not 5"),
        (("--env", "Acrobot-v1"), "--env is CartPole-v1 there, not Acrobot-v1"),
        (("--max-epoch", "1"), "did you mean '--max-epochs'"),
    ):
        assert said in refused(capsys, "train", "bc", "--out", "run", *words, "--resume")
    assert "is a run of bc, not of ppo" in refused(capsys, "train", "ppo", "--out", "run", "--resume")


@pytest.mark.parametrize("command", ["train", "tune"])
def test_options_of_an_inner_learner_that_is_not_used_are_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were accepted and kept in config.json, and changed nothing."""
    line = ("sqil", "--env", "CartPole-v1", "--demos", "demos.h5", "--out", "run")
    said = refused(capsys, command, *line, "--dqn.gamma", "0.5", "--sac.gamma", "0.5")
    assert "sqil makes no use of options --sac.* on Discrete(2): leave them out" in said
    assert not Path("run").exists()
