"""`imitate report`, and `imitate compare` on a folder that holds a comparison."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from reported import BUDGET, fill, five

from imitate.cli import main
from imitate.compare.plan.comparison import Comparison
from imitate.compare.report.report import write_report
from imitate.errors import InputError
from imitate.files import write_json

pytestmark = pytest.mark.usefixtures("undrawn")


def test_the_report_command_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = fill(tmp_path / "a", {"bc": five(390, 410)}), fill(tmp_path / "b", {"ppo": five(100, 180)})
    assert main(["report", str(a), str(b), "--out", str(tmp_path / "both")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "both" / "report.html")
    assert main(["report", str(a), str(b), "--format", "md"]) == 0
    assert "| PPO | 140 | 100.9 to 179.1 |" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "c")]) == 2
    assert "holds no comparison to report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "asked"),
    [
        (["--add", "dqn"], {"algorithms": ("bc", "ppo", "dqn"), "seeds": 5, "budget": BUDGET}),
        (["--seeds", "10", "--episodes", "100"], {"algorithms": ("bc", "ppo"), "seeds": 10, "episodes": 100}),
    ],
)
def test_a_finished_folder_grows_without_being_told_again_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], asked: dict[str, Any]
) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": five(100, 180)})
    seen: list[Comparison] = []

    def run(comparison: Comparison, folder: Path, **_: Any) -> Path:
        seen.append(comparison)
        return write_report(folder) if len(seen) == 1 else folder / "report.html"

    monkeypatch.setattr("imitate.compare.compare", run)
    assert main(["compare", "--out", str(out), *argv]) == 0
    assert {name: getattr(seen[0], name) for name in asked} == asked
    assert (seen[0].env_id, seen[0].expert) == ("CartPole-v1", "CartPole-v1")
    # The file beside the report says the same.
    assert main(["compare", str(out / "comparison.toml"), "--out", str(out), *argv]) == 0
    assert seen[1] == seen[0]


def test_the_command_on_a_page_makes_the_same_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Comparison(
        "CartPole-v1", ("gail", "sqil"), "CartPole-v1", {"sutton_barto_reward": True}, seeds=2, first_seed=7,
        budget=5_000, episodes=3, curve_episodes=2, num_envs=2, demo_episodes=4, demo_every=2, keep_closest=True,
        audit=False, device="cuda", hyperparameters={"gail": {"expert_share": 0.5}},
    )  # fmt: skip
    seen: list[Comparison] = []

    def run(comparison: Comparison, *_: Any, **__: Any) -> Path:
        seen.append(comparison)
        raise InputError("seen")

    monkeypatch.setattr("imitate.compare.compare", run)
    assert main(shlex.split(wanted.command)[1:]) == 2
    assert seen == [wanted]


def test_a_folder_of_a_users_environment_grows_where_it_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may not choose what is imported, not even a folder that we wrote."""
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": five(100, 180)})
    stored = json.loads((out / "comparison.json").read_text("utf-8")) | {"env_id": "my_balls:Balls-v0"}
    write_json(out / "comparison.json", stored)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_balls.py").write_text(
        "import gymnasium\ngymnasium.register('Balls-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    assert main(["compare", "--out", str(out), "--add", "dqn"]) == 2
    assert "if you trust it, say --env my_balls:Balls-v0" in capsys.readouterr().err
    assert main(["report", str(out), "--format", "md"]) == 2
    assert "if you trust it, say --env my_balls:Balls-v0" in capsys.readouterr().err
    assert main(["report", str(out), "--format", "md", "--env", "my_balls:Balls-v0"]) == 0
    seen: list[Comparison] = []

    def run(comparison: Comparison, folder: Path, **_: Any) -> Path:
        seen.append(comparison)
        return write_report(folder)

    monkeypatch.setattr("imitate.compare.compare", run)
    assert main(["compare", "--env", "my_balls:Balls-v0", "--out", str(out), "--add", "dqn"]) == 0
    assert (seen[0].algorithms, seen[0].budget, seen[0].seeds) == (("bc", "ppo", "dqn"), BUDGET, 5)


def test_a_failed_run_is_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": []})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: boom", "traceback": ""})
    monkeypatch.setattr("imitate.compare.compare", lambda _comparison, folder, **_: write_report(folder))
    assert main(["compare", "--out", str(out)]) == 1


def test_options_come_before_a_file_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text('env_id = "Acrobot-v1"\nalgorithms = ["bc", "ppo"]')
    words = ["compare", str(tmp_path / "x.toml"), "--list"]
    assert main([*words, "--expert", "CartPole-v1:ppo"]) == 0
    assert main([*words, "--algorithms", "ppo"]) == 0
    assert main(words) == 2
    assert "bc needs an expert: name one with --expert" in capsys.readouterr().err
    (tmp_path / "x.toml").write_text('env_id = "CartPole-v1"\nalgorithms = ["bc"]')
    assert main(words) == 0  # with the bundled expert


def test_a_folder_called_as_a_suite_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("classic").mkdir()
    assert main(["compare", "classic", "--list", "--out", "classic"]) == 0
    assert "CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["md", "csv", "latex", "html"])
def test_nothing_to_report_is_one_line(
    tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = fill(tmp_path / "out", {"bc": [], "ppo": []})
    assert main(["report", str(out), "--format", format]) == 2
    assert "finished, so there is nothing to report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seeds = 3", "names no environment: add a line such as env_id"),
        (
            '[[environment]]\nenv_id = "CartPole-v1"',
            "has tables [[environment]], but those of a suite are [[environments]]",
        ),
        ("env_id = ", "is no TOML"),
        (
            'env_id = "CartPole-v1"\n[env_kwargs]\nday = 2020-01-01',
            "holds a date or a time: write it as text",
        ),
        ('env_id = "CartPole-v1"\nbudget = "much"', "Expected `int`, got `str` - at `$.budget`"),
        (
            'env_id = "CartPole-v1"\nbudgets = 3\nalgorithms = ["ppo"]',
            "a comparison has no 'budgets'; did you mean 'budget'",
        ),
    ],
)
def test_files_that_are_no_comparison_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "x.toml").write_text(text)
    assert main(["compare", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
