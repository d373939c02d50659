"""`imitate train` as a user types it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest
from forked import COMMAND, Script, in_a_process, run
from gymnasium.envs.classic_control import CartPoleEnv
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from imitate.cli import main
from imitate.datasets.storage.reader import DemoReader
from imitate.errors import InputError
from imitate.files import lock

if sys.platform != "win32":
    import termios

CURVE = "evaluation/mean_return"
PPO = ("train", "ppo", "--env", "CartPole-v1", "--num-steps", "16", "--num-epochs", "1", "--eval-every", "0")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(run: str) -> dict[str, object]:
    read: dict[str, object] = json.loads(Path(run, "config.json").read_text())
    return read


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The one line that a mistake is answered with."""
    capsys.readouterr()
    assert main(list(command)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


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
    Path("first/relative.json").write_text(json.dumps(config("first") | {"demos": "../demos.h5"}))
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert main(["train", "--config", "../first/config.json", "--out", "second"]) == 0
    assert main(["train", "--config", "../first/relative.json", "--out", "third"]) == 0


@pytest.mark.parametrize("way", ["--config", "--resume"])
def test_a_module_that_a_config_names_is_not_imported(capsys: pytest.CaptureFixture[str], way: str) -> None:
    Path("payload.py").write_text("raise SystemExit('the payload ran')")
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("foreign").mkdir()
    Path("foreign/config.json").write_text(json.dumps(config("run") | {"env_id": "payload:X-v0"}))
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
    Path("config.json").write_text(json.dumps(config("run") | {field: value}))
    assert wanted in refused(capsys, "train", "--config", "config.json", "--out", "o")
    assert not Path("o").exists()


def test_a_cuda_run_goes_on_on_a_cpu_when_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    cuda = config("run") | {"device": "cuda"}
    Path("unfinished").mkdir()
    Path("unfinished/config.json").write_text(json.dumps(cuda))
    assert "use --device cpu" in refused(capsys, "train", "--resume", "unfinished")
    assert main(["train", "--resume", "unfinished", "--device", "cpu"]) == 0
    assert main(["train", "--config", "run/config.json", "--device", "cpu", "--out", "again"]) == 0


def test_mistakes_are_one_line_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "budget must be at least 1, got -5" in refused(capsys, *PPO, "--budget", "-5", "--out", "o")
    line = refused(capsys, *PPO, "--budget", "3", "--out", "o")
    assert "too small for one update of the learner 8: give at least --budget 8" in line
    assert "--audit is for gail" in refused(capsys, *PPO, "--audit", "--out", "o")
    assert not Path("o").exists()


def test_another_network_than_that_of_init_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    line = refused(capsys, *PPO, "--init", "run", "--hidden", "32", "--budget", "300", "--out", "o")
    assert "--hidden [32], but the policy of run has hidden [64, 64]" in line
    assert main([*PPO, "--init", "run", "--hidden", "64", "64", "--budget", "300", "--out", "tuned"]) == 0


def test_two_trainings_in_one_folder_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("run/finished.json").unlink()
    with lock(Path("run"), "a training run"):
        line = refused(capsys, "train", "--resume", "run")
    assert "a training run is at work in run" in line


def test_what_killed_writers_left_is_swept() -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("run/finished.json").unlink()
    Path("run/.policy.json.1.partial").write_text("half of")
    assert main(["train", "--resume", "run"]) == 0
    assert not list(Path("run").glob(".*"))


def test_help_shows_the_preset_and_the_learner_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "train", "dqn", "--env", "LunarLander-v3")
    assert "validation together (default: 400000)" in shown
    assert "environments side by side (default: 8)" in shown
    assert "--backend" not in shown
    everything = help_of(capsys, "train", "dqn", "--env", "LunarLander-v3", "--help-all")
    assert "--backend {auto,gymnasium,async,envpool,ale} what steps the environments" in everything
    assert "(default: gymnasium)" in everything
    gail = help_of(capsys, "train", "gail", "--env", "CartPole-v1", "--help-all")
    assert "--ppo.gamma" in gail
    assert "--a2c.gamma" not in gail
    other = help_of(capsys, "train", "gail", "--learner", "reinforce", "--help-all")
    assert "--reinforce.gamma" in other
    assert "--ppo.gamma" not in other


def test_without_a_terminal_there_is_a_line_for_every_tenth(caplog: pytest.LogCaptureFixture) -> None:
    assert main([*PPO, "--budget", "1280", "--out", "run"]) == 0  # 10 iterations of 128 steps
    *tenths, last = caplog.messages
    assert [line.split(" of 1280 steps")[0] for line in tenths] == [str(128 * n) for n in range(1, 11)]
    assert last == "at the end: " + tenths[-1].split(": ")[1]


def test_a_full_disk_in_a_checkpoint_is_one_line() -> None:
    """A limit on the size of files stands in for the disk: writing past it fails in the same way."""
    script = (
        "import resource, signal, sys; from imitate.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        f"sys.exit(main([*{PPO!r}, '--budget', '3000', '--checkpoint-every', '1000', '--out', 'full']))"
    )
    done = run(script)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "checkpoint.safetensors can't be written" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")
def test_sigterm_saves_and_ends_with_143() -> None:
    with Script(COMMAND, *PPO, "--budget", "1_000_000", "--out", "run") as process:
        metrics = Path("run/metrics.jsonl")
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait() == 143
    assert "interrupted and saved; go on with `imitate train --resume run`" in said
    assert Path("run/checkpoint.safetensors").exists()


def test_what_a_full_disk_stopped_before_the_first_checkpoint_begins_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object) -> None:  # noqa: ARG001
        raise InputError("checkpoint.safetensors can't be written: No space left on device")

    command = [*PPO, "--budget", "2000", "--checkpoint-every", "100", "--out", "run"]
    with monkeypatch.context() as patched:
        patched.setattr("imitate.training.run.save_state", full)
        said = refused(capsys, *command)
    assert said.endswith("there was no checkpoint yet: `imitate train --resume run` begins anew")
    assert main(["train", "--resume", "run"]) == 0
    assert Path("run/finished.json").exists()


def test_a_line_before_an_episode_has_ended_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Ten iterations of 8 steps, while an episode of CartPole takes at least 8."""
    short = [option if option != "16" else "2" for option in PPO]
    assert main([*short, "--num-envs", "4", "--budget", "80", "--out", "run"]) == 0
    assert caplog.messages[0] == "8 of 80 steps: no episode has ended yet"


def test_hints_name_the_module_that_a_run_may_not_import_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("owned.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Owned-v0', CartPoleEnv, max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(Path.cwd())
    own = [option if option != "CartPole-v1" else "owned:Owned-v0" for option in PPO]
    assert main([*own, "--budget", "300", "--out", "run"]) == 0
    assert "`imitate evaluate run --env owned:Owned-v0`" in capsys.readouterr().err


def test_an_environment_that_raises_says_how_to_resume() -> None:
    Path("breaking.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Breaking(CartPoleEnv):\n"
        "    steps = 0\n"
        "    def step(self, action):\n"
        "        Breaking.steps += 1\n"
        "        if Breaking.steps > 2_000:\n"
        "            raise RuntimeError('worn out')\n"
        "        return super().step(action)\n"
        "gym.register('Breaking-v0', Breaking, max_episode_steps=50)\n"
    )
    own = [option if option != "CartPole-v1" else "breaking:Breaking-v0" for option in PPO]
    done = in_a_process(*own, "--checkpoint-every", "1000", "--out", "run")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "breaking.py" in line]
    assert "the environment Breaking-v0 raised RuntimeError: worn out (breaking.py:8)" in line
    assert line.endswith("go on with `imitate train --resume run --env breaking:Breaking-v0`")


def test_several_experts(capsys: pytest.CaptureFixture[str]) -> None:
    dagger = ("train", "dagger", "--env", "CartPole-v1", "--budget", "160", "--iterations", "2")
    few = ("--updates-per-iteration", "3", "--final-updates", "3", "--eval-every", "0")
    two = ("--expert", "CartPole-v1", "--expert", "random")
    assert main([*dagger, *few, *two, "--out", "first"]) == 0
    assert (config("first")["expert"], config("first")["other_experts"]) == ("CartPole-v1", ["random"])
    with DemoReader("first/aggregated.h5") as reader:
        assert reader.info.expert == "CartPole-v1, random"
    last = json.loads(Path("first/metrics.jsonl").read_text().splitlines()[-1])
    assert last["expert_queries"] == last["queries_1"] + last["queries_2"] >= 320

    assert main(["train", "--config", "first/config.json", "--out", "second"]) == 0
    assert config("second")["other_experts"] == ["random"]
    again = ("train", "--config", "first/config.json", "--out", "third", "--expert", "CartPole-v1:ppo")
    assert main([*again]) == 0
    assert (config("third")["expert"], config("third")["other_experts"]) == ("CartPole-v1:ppo", [])

    for name, answer in (
        ("ppo", "ppo makes no use of --expert"),
        ("gail", "gail makes no use of --expert"),
        ("bc", "bc makes no use of --expert"),
        ("aggrevate", "aggrevate learns from one expert, got 2: give one --expert, or take one of dagger"),
    ):
        assert answer in refused(capsys, "train", name, "--env", "CartPole-v1", *two, "--out", "o")
    statistics = ("--vecnormalize", "none")
    assert "--vecnormalize is for one expert" in refused(capsys, *dagger, *two, *statistics, "--out", "o")


def test_an_expert_is_loaded_once() -> None:
    """The expert whose return is measured is the one that is imitated."""
    Path("counted.py").write_text(
        "def make_expert():\n"
        "    with open('calls', 'a') as calls:\n"
        "        calls.write('.')\n"
        "    return lambda obs: (obs[:, 2] + obs[:, 3] > 0).astype(int)\n"
    )
    dagger = ("train", "dagger", "--env", "CartPole-v1", "--expert", "counted:make_expert", "--budget", "160")
    few = ("--iterations", "1", "--updates-per-iteration", "3", "--final-updates", "3", "--eval-every", "0")
    assert main([*dagger, *few, "--out", "run"]) == 0
    assert Path("calls").read_text() == "."


OWN = """
from dataclasses import dataclass
from imitate.rl.ppo import PPO, PPOConfig

@dataclass(frozen=True)
class MineConfig(PPOConfig):
    strength: float = 0.5

class Mine(PPO):
    def __init__(self, config, *, envs, seed, device="cpu"):
        super().__init__(config, envs=envs, seed=seed, device=device)
"""


def test_a_learner_of_ones_own_is_trained_measured_and_repeated() -> None:
    Path("my_learner.py").write_text(OWN)
    own, others = "my_learner:Mine", ("--num-steps", "16", "--num-epochs", "1", "--budget", "300")
    assert main(["train", own, "--env", "CartPole-v1", *others, "--strength", "0.2", "--out", "run"]) == 0
    assert config("run")["hyperparameters"]["strength"] == 0.2  # type: ignore[index]
    assert main(["evaluate", "run", "--episodes", "1"]) == 0
    assert main(["train", own, "--config", "run/config.json", "--out", "again"]) == 0
    weights = [Path(run, "policy/policy.safetensors").read_bytes() for run in ("run", "again")]
    assert weights[0] == weights[1]
    # In a process that was not told so, a file chooses nothing.
    done = in_a_process("train", "--config", "run/config.json", "--out", "o")
    assert done.returncode == 2
    assert "say `imitate train` or `imitate compare --add` my_learner:Mine" in done.stderr
    Path("run/finished.json").unlink()
    assert main(["train", own, "--resume", "run"]) == 0


def test_settings_of_ones_own_do_not_take_the_name_of_a_runs_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("clashing.py").write_text(OWN.replace("strength: float = 0.5", "seed: int = 3"))
    said = refused(capsys, "train", "clashing:Mine", "--env", "CartPole-v1", "--out", "o")
    assert "MineConfig has 'seed', which is an option of every run: give it another name" in said


@pytest.mark.parametrize("limit", [10, 10_000])
def test_the_curve_of_returns_costs_a_quarter_of_the_budget_at_most(
    limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 steps pay for ten looks of 25 steps: two episodes of 10 each, and none of 10,000."""
    env_id = f"Short{limit}-v0"
    gym.register(env_id, CartPoleEnv, max_episode_steps=limit)
    command = [option if option != "CartPole-v1" else env_id for option in PPO]
    assert main([*command, "--budget", "1000", "--out", "run"]) == 0
    events = EventAccumulator("run")
    events.Reload()
    points = [each.step for each in events.Scalars(CURVE)] if CURVE in events.Tags()["scalars"] else []
    assert len(points) == (
        9 if limit == 10 else 0
    )  # iterations of 128 steps pass eight tenths, after the start
    assert points == sorted(points)
    said = capsys.readouterr().err
    assert re.search(
        r"it returns \S+ on average in 5 episodes \(\S+ to \S+\): a look outside the budget", said
    )
    totals = json.loads(Path("run/finished.json").read_text())
    assert totals["env_steps"] + totals["validation_steps"] <= 1_000
    assert main([*command, "--budget", "1000", "--no-looks", "--out", "blind"]) == 0
    assert "a look outside the budget" not in capsys.readouterr().err
    weights = [Path(run, "policy/policy.safetensors").read_bytes() for run in ("run", "blind")]
    assert weights[0] == weights[1]  # looks change nothing


def terminal(*arguments: str) -> str:
    """The output of a command on a terminal of 100 columns."""
    primary, secondary = os.openpty()
    termios.tcsetwinsize(secondary, (30, 100))
    with Script(COMMAND, *arguments, terminal=secondary) as process:
        os.close(secondary)
        written = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(primary, 4096):
                written += piece
        assert process.wait() == 0, written.decode()
    os.close(primary)
    return written.decode()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_of_a_learner_without_environments_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", screen := Terminal())
        clone = ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--max-epochs", "3"]
        assert main([*clone, "--out", "bc"]) == 0
        assert main(["evaluate", "bc", "--episodes", "2"]) == 0
    assert "bc: 100%|" in screen.getvalue()
    assert screen.getvalue().count("it returns ") == 1
    assert "0/2 [" in screen.getvalue()  # of the evaluation


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_bar_reaches_its_end_and_messages_do_not_break_it() -> None:
    """8 environments take 160 of 163 steps."""
    few = ("--iterations", "2", "--updates-per-iteration", "3", "--final-updates", "3", "--fqe-updates", "3")
    expert = ("--env", "CartPole-v1", "--expert", "random", "--budget", "163", "--trial", "0")
    said = terminal("train", "aggrevated", *expert, *few, "--out", "run")
    assert "aggrevated: 100%|" in said
    (message,) = (line for line in said.splitlines() if "is learned online by fitted Q evaluation" in line)
    assert message.lstrip("\r").startswith("imitate: Q* of ")
