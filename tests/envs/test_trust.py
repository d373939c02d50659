"""A name that the user typed is imported and called; one that only a file or a folder holds is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import in_a_process

from imitate.commands.train import train
from imitate.envs.make import make_env, resolve_env_id
from imitate.envs.trust import bare_id, import_env, import_typed, trust
from imitate.errors import InputError
from imitate.experts import load_expert

REGISTER = """
from pathlib import Path
import gymnasium as gym
Path("ran").touch()
gym.register("{name}-v0", "{name}_class:Heavy", max_episode_steps=50)
"""


def own_env(folder: Path, name: str) -> str:
    """A module that registers an environment, whose class is in another module beside it."""
    (folder / f"{name}.py").write_text(REGISTER.format(name=name))
    source = "from gymnasium.envs.classic_control import CartPoleEnv\nclass Heavy(CartPoleEnv): ...\n"
    (folder / f"{name}_class.py").write_text(source)
    return f"{name}:{name}-v0"


def imitate(folder: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """As the installed command runs: -P keeps the current folder off the path. Prints the status of each command."""
    script = f"from imitate.cli import main\nfor command in {commands!r}: print(main(command))"
    command = (sys.executable, "-P", "-c", script)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_module_is_imported_if_the_user_typed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env_id = own_env(tmp_path, "typed_env")
    before = list(sys.path)
    with pytest.raises(InputError, match=f"say --env {env_id}"):
        resolve_env_id(env_id)  # as a file may name it
    assert not Path("ran").exists()
    trust(env_id)
    env = make_env(env_id)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 50
    env.close()
    assert sys.path == before
    trust("typed_env:typed_env")
    with pytest.raises(InputError, match=r"^typed_env registers no .*; did you mean 'typed_env-v0'"):
        resolve_env_id("typed_env:typed_env")


def test_a_module_that_is_imported_already_needs_no_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    env_id = own_env(tmp_path, "imported_env")
    __import__("imported_env")
    assert resolve_env_id(env_id) == env_id


def test_a_controller_finds_the_environment_beside_it_and_its_name_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording with the bare name would lead to runs that can't be evaluated."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Robot(CartPoleEnv):\n"
        "    pass\n"
        "gym.register('TrustedRobot-v0', entry_point=Robot, max_episode_steps=9)\n"
        "def make_expert():\n"
        "    return lambda obs: (obs[:, 2] > 0).astype('int64')\n"
    )
    trust("robot:make_expert")
    assert load_expert("robot:make_expert", env_id="TrustedRobot-v0").env_id == "robot:TrustedRobot-v0"
    assert load_expert("robot:make_expert", env_id="robot:TrustedRobot-v0").env_id == "robot:TrustedRobot-v0"
    assert load_expert("robot:make_expert", env_id="CartPole-v1").env_id == "CartPole-v1"


def test_a_module_and_an_environment_that_are_not_there() -> None:
    trust("nowhere:X-v0")
    with pytest.raises(InputError, match="module 'nowhere' of 'nowhere:X-v0' can't be imported"):
        resolve_env_id("nowhere:X-v0")
    trust("os:sys:X-v0")
    with pytest.raises(InputError, match="module 'os:sys'"):
        resolve_env_id("os:sys:X-v0")


def test_the_command_line_trusts_what_follows_env(tmp_path: Path) -> None:
    env_id = own_env(tmp_path, "mine")
    run = ["train", "ppo", "--out", "run", "--budget", "32", "--num-steps", "16", "--eval-every", "0"]
    run += ["--num-envs", "1"]
    done = in_a_process(*run, "--env", env_id, "--backend", "async", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "ran").unlink()
    done = in_a_process("evaluate", "run", "--episodes", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "say --env mine:mine-v0 (for a suite: `compare --trust mine:mine-v0`; in Python: imitate.trust('mine:mine-v0'))"
    )
    assert not (tmp_path / "ran").exists()
    done = in_a_process("evaluate", "run", "--episodes", "1", f"--env={env_id}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_that_lies_in_the_current_folder_runs(tmp_path: Path) -> None:
    """`dill` is what torch looks for when it is imported; the other is how installed packages bring environments."""
    for name in ("dill", "google", "yaml", "plugin"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')")
    (tmp_path / "plugin-1.0.dist-info").mkdir()
    (tmp_path / "plugin-1.0.dist-info" / "METADATA").write_text("Name: plugin\nVersion: 1.0\n")
    (tmp_path / "plugin-1.0.dist-info" / "entry_points.txt").write_text("[gymnasium.envs]\nx = plugin\n")
    done = imitate(tmp_path, ["data", "info", "absent.h5"], ["evaluate", "CartPole-v1:ppo", "--env", "No-v0"])
    assert done.stdout == "2\n2\n", done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_module_is_no_part_of_what_an_environment_is() -> None:
    assert bare_id("module:Env-v0") == bare_id("Env-v0") == "Env-v0"


def test_what_a_file_may_not_import_is_said_with_the_option_that_allows_it() -> None:
    with pytest.raises(InputError, match="say --env absent:Env-v0 "):
        import_env("absent:Env-v0")
    with pytest.raises(InputError, match="say --expert absent:make_expert "):
        import_typed("absent:make_expert")


def test_resume_takes_the_expert_whose_module_may_be_imported(tmp_path: Path) -> None:
    experiment = {
        "algorithm": "dagger",
        "env_id": "mine:Mine-v0",
        "hyperparameters": {},
        "expert": "mine:make",
    }
    (tmp_path / "config.json").write_text(json.dumps(experiment))
    right = "go on with `imitate train --resume .* --env mine:Mine-v0 --expert mine:make`"
    with pytest.raises(InputError, match=f"learns from mine:make, not from other:make: {right}"):
        train(["--resume", str(tmp_path), "--expert", "other:make"])
    with pytest.raises(InputError, match=f"is a run on mine:Mine-v0, not on Mine-v0: {right}"):
        train(["--resume", str(tmp_path), "--env", "Mine-v0"])
