"""The words that a shell offers, asked of the shell itself where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from imitate.cli import main

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def offered(capsys: pytest.CaptureFixture[str], line: str, shell: str = "zsh") -> list[str]:
    capsys.readouterr()
    assert main(["completion", shell, line]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("imitate tra", ["train"]),
        ("imitate train q", ["qdagger"]),
        ("imitate tune reinf", ["reinforce"]),
        ("imitate train ppo --gae", ["--gae-lambda"]),
        ("imitate train ppo --no-normalize-o", ["--no-normalize-obs"]),
        ("imitate train gail --reward plus", ["plus_one"]),
        ("imitate train ppo --env CartP", ["CartPole-v1"]),
        ("imitate train ppo --budget=3k --env ALE/Pong", ["ALE/Pong-v5"]),
        ("imitate train ppo --env=CartP", ["--env=CartPole-v1"]),
        ("imitate train ppo --gamma=", []),
        ("imitate data inf", ["info"]),
        ("imitate expert show BipedalW", ["BipedalWalker-v3"]),
        ("imitate train dagger --env CartPole-v1 --expert CartPole-v1:", ["CartPole-v1:ppo"]),
        ("imitate compare --algorithms ppo da", ["dagger", "dac"]),
        ("imitate compare --algorithms ppo --se", ["--seeds"]),
        ("imitate compare cl", ["classic"]),
        (
            "imitate reproduce notebook-b",
            ["notebook-b-bipedalwalker", "notebook-b-bipedalwalker-sigma-fixed"],
        ),
        ("imitate reproduce dqn-cartpole bc-pend", ["bc-pendulum-50-episodes"]),
        ("imitate export runs/a --to on", ["onnx"]),
        ("imitate completion f", ["fish"]),
        ("imitate collect CartPole-v1 --out ", []),  # a file's name, which the shell knows
        ("imitate train ppo --budget ", []),
        ("imitate train ppo --env CartPol-v1 --ga", []),  # a mistake
        ("imitate train 'ppo --ga", []),
        ("imitate train os:abort --", []),  # imports nothing
        ("imitate nonsense ", []),
    ],
)
def test_words(line: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert offered(capsys, line) == words


def test_bash_sees_a_word_end_at_a_colon(capsys: pytest.CaptureFixture[str]) -> None:
    assert offered(capsys, "imitate evaluate LunarLander-v3:", "bash") == ["ppo"]
    assert offered(capsys, "imitate train ppo --env=CartP", "bash") == ["CartPole-v1"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    agent = tmp_path / "zoo" / "ppo" / "My $(touch owned) Env_1"
    agent.mkdir(parents=True)
    (agent / "expert.json").touch()
    script = """
eval "$(imitate completion bash)"
for line in "imitate qui" "imitate train aggrevated --alp" "imitate collect LunarLander-v3:" \\
    'imitate expert show zoo:ppo/M' 'imitate expert show zoo:ppo/My\\ '; do
    COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
    _imitate
    echo "${COMPREPLY[@]}"
done
complete -p imitate
"""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=ENVIRONMENT | {"IMITATE_ZOO_DIR": "zoo"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, third, *odd, registered = done.stdout.splitlines()
    assert first == "quickstart"
    assert set(second.split()) >= {"--alpha-schedule", "--alpha-rate"}
    assert third == "ppo"
    assert odd == [r"ppo/My\ \$\(touch\ owned\)\ Env"] * 2  # as a person would have to type the folder's name
    assert registered == "complete -o default -F _imitate imitate"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    subprocess.run([shell, "-n"], input=script, text=True, check=True, capture_output=True)
