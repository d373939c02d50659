"""The progress of runs, read from the files that they leave."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
import test_suite
from reported import BUDGET, fill, five

from imitate.cli import main
from imitate.compare.execute.watch import State, states, summary, table, watch
from imitate.errors import InputError
from imitate.files import write_json


def underway(tmp_path: Path) -> Path:
    """BC is done with five seeds, PPO's seed 0 is at a quarter, seed 1 has failed, the others wait."""
    out = fill(tmp_path / "out", {"bc": five(490, 510), "ppo": []})
    run = out / "runs" / "ppo-seed0-0123456789"
    run.mkdir(parents=True)
    rows = [{"budget_steps": 200, "train_return": 30.0}, {"budget_steps": BUDGET // 4, "train_return": 260.0}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"budget_st')
    write_json(out / "errors" / "ppo-seed1.json", {"error": "ppo-seed1: boom", "traceback": ""})
    for path in (out / "runs").glob("bc-*/result.json"):  # each took ten seconds
        (path.parent / "config.json").touch()
        os.utime(path.parent / "config.json", (1_000, 1_000))
        os.utime(path, (1_010, 1_010))
    return out


def test_every_run_has_a_line_with_its_state(tmp_path: Path) -> None:
    found = states(underway(tmp_path))
    assert [each.state for each in found] == ["done"] * 5 + [
        "running",
        "failed",
        "waiting",
        "waiting",
        "waiting",
    ]
    bc, ppo = found[0], found[5]
    assert (bc.name, bc.steps, bc.mean, bc.seconds) == ("bc-seed0", BUDGET, 490.0, 10.0)
    assert (ppo.name, ppo.steps, ppo.mean, ppo.share) == ("ppo-seed0", 400, 260.0, 0.5)  # from 20 to 500
    lines = table(found)
    assert lines[1].split() == ["bc-seed0", "1,600", "/", "1,600", "490", "98", "%", "done"]
    assert lines[6].split()[:7] == ["ppo-seed0", "400", "/", "1,600", "260", "50", "%"]
    assert lines[-1].startswith("5 of 10 runs are done, 1 failed, about ")


def test_a_run_whose_learner_has_no_return_yet_has_none(tmp_path: Path) -> None:
    out = underway(tmp_path)
    run = out / "runs" / "ppo-seed0-0123456789"
    (run / "metrics.jsonl").write_text('{"budget_steps": 500, "train_return": NaN}\n')
    (run / ".look.json.partial").touch()
    os.utime(run / ".look.json.partial", (1_000, 1_000))
    ppo = states(out)[5]
    assert (ppo.steps, ppo.mean, ppo.share) == (500, None, None)
    assert ppo.seconds < 1_000  # a file that is still being written may vanish, and does not count
    assert "500 / 1,600" in table(states(out))[6]


def test_the_remaining_time_weighs_learners_by_their_seconds_a_step() -> None:
    """A learner that takes ten times as long for a step counts as much more."""
    done = [State("quick-seed0", "quick", "done", 100, 100, seconds=6.0)]
    done += [State("slow-seed0", "slow", "done", 100, 100, seconds=60.0)]
    waiting = [
        State("quick-seed1", "quick", "waiting", 0, 100),
        State("slow-seed1", "slow", "waiting", 0, 100),
    ]
    assert summary(done + waiting).endswith("about 66 s left")
    running = State("other-seed0", "other", "running", 25, 100, seconds=20.0)  # at a quarter after 20 s
    assert summary([*done, running]).endswith("about 60 s left")
    assert summary(waiting) == "0 of 2 runs are done"  # nothing is known yet


def test_a_small_terminal_shows_what_runs(tmp_path: Path) -> None:
    lines = table(states(underway(tmp_path)), height=6)
    assert len(lines) == 5
    assert [line.split()[0] for line in lines[1:3]] == ["ppo-seed1", "ppo-seed0"]  # what failed, what runs


def test_a_suite_is_watched_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = test_suite.fill(tmp_path / "suite")
    assert main(["compare", "--watch", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].split()[0] == "CartPole-v1/bc-seed0"
    assert said[-1] == "30 of 30 runs are done"


def test_steps_reported_by_another_machine_replace_those_of_the_files(tmp_path: Path) -> None:
    """Those of a run on another machine, whose files come back when it has ended."""
    found = {each.name: each for each in states(underway(tmp_path), {"ppo-seed0": 800, "ppo-seed2": 100})}
    assert found["ppo-seed0"].steps == 800
    assert (found["ppo-seed2"].steps, found["ppo-seed2"].state) == (100, "running")


def test_it_is_drawn_over_itself_in_a_terminal(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    watch(fill(tmp_path / "out", {"bc": five(490, 510)}), terminal)
    assert terminal.getvalue().splitlines()[-1] == "5 of 5 runs are done"


def test_nothing_to_watch_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="holds no comparison to watch"):
        states(tmp_path)
    assert main(["compare", "--env", "CartPole-v1"]) == 2
    assert "name the folder of the report with --out" in capsys.readouterr().err
