"""Command lines: values as people type them, answers to mistakes, and help."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tyro

from imitate.algorithms import ALGORITHMS
from imitate.cli import main
from imitate.commands.line import CommandLine
from imitate.commands.option import Rare
from imitate.commands.options import run
from imitate.errors import InputError

seen: dict[str, Any] = {}


def command(
    expert: tyro.conf.Positional[str],
    /,
    out: Path,
    budget: int = 100,
    learning_rate: float | None = None,
    hidden: tuple[int, ...] = (64, 64),
    mode: Literal["fast", "slow"] | None = None,
    verbose: bool = False,
    address: Annotated[str | None, Rare] = None,
) -> int:
    """Do something.

    Args:
        expert: whom to ask
        out: where it goes: to this
            folder
        budget: the most steps
        learning_rate: the step size
        hidden: the widths
        mode: how
        verbose: say more
        address: of a cluster
    """
    seen.update(locals())
    return 0


def refused(*words: str) -> str:
    with pytest.raises(InputError) as error:
        run(command, [*words], "do")
    return str(error.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *[
            ("20000", 20_000),
            ("20k", 20_000),
            ("1.5M", 1_500_000),
            ("1e5", 100_000),
            ("1_000_000", 1_000_000),
        ],
        *[("0.5k", 500), ("1.001M", 1_001_000), ("-3", -3)],
    ],
)
def test_whole_numbers_are_typed_as_people_write_them(typed: str, meant: int) -> None:
    assert run(command, ["me", "--out", "o", "--budget", typed, "--hidden", typed, "8"], "do") == 0
    assert (seen["expert"], seen["out"]) == ("me", Path("o"))
    assert (seen["budget"], seen["hidden"]) == (meant, (meant, 8))


@pytest.mark.parametrize("typed", ["1.5", "k", "1e-3", "nan", "inf", "20kk", "20 000", ""])
def test_what_is_no_whole_number_is_said(typed: str) -> None:
    said = refused("me", "--out", "o", "--budget", typed)
    assert said.startswith("Error parsing --budget: not a whole number, such as 20000, 20k or 1e5: ")
    assert "wanted --budget INT the most steps" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hidden", "8", "--hidden", "9"), "--hidden is given twice: give it once"),
        (("--budget", "1", "--budget=2"), "--budget is given twice: give it once"),
        (("--verbose", "--no-verbose"), "--no-verbose is given twice: give it once"),
        (("--lr", "3"), "unknown option --lr; did you mean '--learning-rate'?; see `imitate do --help-all`"),
        (("--learn", "3"), "unknown option --learn; did you mean '--learning-rate'?"),
        (("--budgte=3",), "unknown option --budgte; did you mean '--budget'?"),
        (("--timesteps", "3"), "unknown option --timesteps; did you mean '--budget'?"),
        (("--gpu", "3"), "unknown option --gpu; see"),
        (("--quite-another", "3"), "unknown option --quite-another; see"),
        (("--no-budget",), "unknown option --no-budget"),
        (("--hidden", "256,256"), "lists are written with spaces, so write --hidden 256 256"),
        (("--hidden=[256, 128]",), "lists are written with spaces, so write --hidden 256 128"),
        (("--mode", "medium"), "see `imitate do --help`"),
        (
            ("--learning-rate", "big"),
            "could not convert string to float: 'big'; wanted --learning-rate FLOAT",
        ),
    ],
)
def test_mistakes_are_explained(words: tuple[str, ...], said: str) -> None:
    assert said in refused("me", "--out", "o", *words)


def test_options_are_found_under_both_spellings() -> None:
    assert (
        run(command, ["me", "--out=o", "--learning_rate", "0.5", "--no-verbose", "--address", "a,b"], "do")
        == 0
    )
    assert (seen["learning_rate"], seen["verbose"], seen["address"]) == (0.5, False, "a,b")


def test_a_comma_may_be_part_of_a_files_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a,b.h5").touch()
    assert main(["data", "merge", "a,b.h5", "missing,too.h5", "--out", "o.h5"]) == 2
    taken: list[tuple[Path, ...]] = []

    def many(files: tuple[Path, ...]) -> int:
        """Take files.

        Args:
            files: these
        """
        taken.append(files)
        return 0

    assert run(many, ["--files", "a,b.h5", "c.h5"], "many") == 0
    assert run(many, ["--files", "a,*.h5", "c.h5"], "many") == 0
    assert taken == [(Path("a,b.h5"), Path("c.h5")), (Path("a,*.h5"), Path("c.h5"))]


def help_of(capsys: pytest.CaptureFixture[str], option: str, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, option]) if words else run(command, [option], "do")
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_help_is_short_and_says_what_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "--help")
    for said in (
        "EXPERT whom to ask (required)",
        "--out PATH where it goes: to this folder (required)",
        "--learning-rate FLOAT the step size",
        "--hidden INT ... the widths (default: 64 64)",
        "--mode {fast,slow} how",
        "`imitate do --help-all` shows 1 more options",
    ):
        assert said in shown
    assert "--address" not in shown
    assert "None" not in shown
    assert "--address TEXT of a cluster" in help_of(capsys, "--help-all")


def test_initials_count_in_the_settings_of_a_learner_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "gail", "--env", "CartPole-v1", "--ppo.lr", "1", "--out", "o"]) == 2
    assert "did you mean '--ppo.learning-rate'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ALGORITHMS)
def test_help_of_an_algorithm_has_its_main_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty options at most."""
    shown = help_of(capsys, "--help", "train", name, "--env", "CartPole-v1")
    kind = ALGORITHMS[name].config
    assert {*kind.MAIN} <= {field.name for field in dataclasses.fields(kind)}
    options = {
        each
        for each in re.findall(r"--[a-z][\w.-]*", shown)
        if "." not in each and not each.startswith("--no-")
    }
    assert {f"--{main.replace('_', '-')}" for main in kind.MAIN} <= options
    assert len(options - {"--help", "--help-all"}) <= 20
    for unwanted in ("(default: None)", "{None}", "STR", "--clip-rewards", "--checkpoint-every"):
        assert unwanted not in shown


def test_ataris_options_are_shown_for_atari_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--clip-rewards" in help_of(capsys, "--help", "train", "ppo", "--env", "ALE/Pong-v5")
    assert "--clip-rewards" not in help_of(capsys, "--help-all", "train", "ppo", "--env", "CartPole-v1")
    assert "--clip-rewards" not in help_of(capsys, "--help-all", "train", "bc", "--env", "NotInstalled-v0")


def test_a_default_with_many_digits_is_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert "(default: 0.667)" in help_of(capsys, "--help-all", "train", "aggrevated")


def test_words_of_a_command_line() -> None:
    line = CommandLine(["ppo", "me", "--env=A-v0", "--no_looks", "--env", "B-v0", "more", "--out", "-h"])
    assert line.words == ("ppo", "me")
    assert [(each.name, each.words) for each in line.options] == [
        ("--env", ["A-v0"]), ("--no-looks", []), ("--env", ["B-v0", "more"]), ("--out", []), ("-h", []),
    ]  # fmt: skip
    assert (line.value("--env"), line.values("--out"), line.value("--seed")) == ("B-v0", [], None)
    assert line.without("--env").argv == ["ppo", "me", "--no_looks", "more", "--out", "-h"]
    assert line.without("--out", words=0).argv[-1] == "-h"
    assert line.asks_for_help


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("me",), "Missing from imitate do: --out PATH where it goes: to this folder (required); see"),
        (("--out", "o"), "Missing from imitate do: EXPERT whom to ask (required)"),
        (("me", "you", "--out", "o"), "Unrecognized options: you; see `imitate do --help`"),
        (("me", "--out", "o", "p"), "Unrecognized options: p (--out takes one value); see"),
        (("--out", "o", "me", "p"), "Unrecognized options: p; see"),
        (("me", "--out", "o", "-n", "3"), "Unrecognized options: -n 3; see"),
        (("me", "--out", "o", "--verbose=3"), "Unrecognized options: 3"),
        (("me", "--out", "o", "--budget"), "--budget lacks its value; wanted --budget INT the most steps; see"),
        (("me", "--out", "o", "--mode", "x"), "invalid choice 'x' for argument '--mode'. Expected one of ('fast',"),
        (("me", "--out", "o", "--hidden", "3", "x"), "Error parsing --hidden: not a whole number"),
    ],
)  # fmt: skip
def test_too_few_and_too_many_words(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as error:
        run(command, [*words], "do")
    assert said in str(error.value)


def test_none_is_a_value() -> None:
    words = [
        "--out",
        "o",
        "--budget=2",
        "--mode",
        "None",
        "--verbose",
        "me",
    ]
    assert run(command, words, "do") == 0
    assert (seen["expert"], seen["budget"], seen["mode"], seen["verbose"]) == ("me", 2, None, True)
