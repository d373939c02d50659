"""Suites: their files, what holds over environments, and the command."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from reported import BUDGET, five, result

from imitate.cli import main
from imitate.compare import Suite, write_suite_report
from imitate.compare.execute.carry_out import carry_out
from imitate.compare.plan.comparison import Comparison
from imitate.compare.plan.suite import BUNDLED
from imitate.compare.report.suite_tables import suite_latex
from imitate.compare.statistics.aggregate import read_suite
from imitate.compare.statistics.intervals import holm
from imitate.compare.statistics.job_results import ExpertFacts, Reference, References, Result
from imitate.compare.statistics.suite_verdict import suite_answer, suite_warnings
from imitate.errors import InputError
from imitate.files import write_json

TOML = """
algorithms = ["bc", "ppo"]
seeds = 2
[hyperparameters]
ppo = { gamma = 0.9 }
[[environments]]
env_id = "CartPole-v1"
experts = ["CartPole-v1", "CartPole-v1:ppo"]
budget = 2_000
[[environments]]
env_id = "Pendulum-v1"
expert = "Pendulum-v1"
algorithms = ["bc", "ppo", "sb3:sac", "ppo@wide"]
hyperparameters = { "ppo@wide" = { hidden = [128, 128] } }
"""


def suite(text: str = TOML) -> Suite:
    return Suite.from_toml("mine", tomllib.loads(text))


# --- files


def test_a_suite_is_environments_times_experts_with_settings_of_their_own(tmp_path: Path) -> None:
    parts = suite().parts
    assert list(parts) == ["CartPole-v1-from-CartPole-v1", "CartPole-v1-from-CartPole-v1-ppo", "Pendulum-v1"]
    assert [part.budget for part in parts.values()] == [2_000, 2_000, 50_000]
    assert [part.seeds for part in parts.values()] == [2, 2, 2]
    assert parts["CartPole-v1-from-CartPole-v1-ppo"].expert == "CartPole-v1:ppo"
    pendulum = parts["Pendulum-v1"]
    assert pendulum.algorithms == ("bc", "ppo", "sb3:sac", "ppo@wide")
    assert pendulum.hyperparameters == {"ppo": {"gamma": 0.9}, "ppo@wide": {"hidden": [128, 128]}}
    assert suite(suite().to_toml()) == suite()  # the file that a report shows makes the same suite
    suite().save(tmp_path)
    assert Suite.read(tmp_path) == suite()


def test_options_change_every_part() -> None:
    parts = suite().changed(["a2c"], seeds=7).parts
    assert {part.seeds for part in parts.values()} == {7}
    assert [part.algorithms[-1] for part in parts.values()] == ["a2c"] * 3


def test_hyperparameters_go_where_their_learner_is() -> None:
    few = Suite.bundled("few-demos")
    parts = few.changed(hyperparameters={"dac": {"gamma": 0.9}}).parts.values()
    assert {"dac" in part.algorithms for part in parts} == {True, False}
    for part in parts:
        assert part.hyperparameters == ({"dac": {"gamma": 0.9}} if "dac" in part.algorithms else {})
    with pytest.raises(InputError, match="hyperparameters of 'daq', which is not in this suite"):
        few.changed(hyperparameters={"daq": {}})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('algorithms = ["bc"', 'env_id = "CartPole-v1"\nalgorithms = ["bc"', "env_id of a suite stands in its env"),
        ("seeds = 2", "seedz = 2", "a comparison has no 'seedz'; did you mean 'seeds'"),
        ("ppo = {", "ppi = {", "hyperparameters of 'ppi', which is not in this suite; did you mean 'ppo'"),
        ('{ "ppo@wide"', '{ "ppo@wise"', "Pendulum-v1: .*hyperparameters of 'ppo@wise', .*; did you mean 'ppo@wide'"),
        ('env_id = "Pendulum-v1"', "", "missing required field `env_id` - at `.*environments.1.`; begin each"),
        ("budget = 2_000", 'expert = "CartPole-v1"', "CartPole-v1 has both expert and experts: leave one out"),
        ('"CartPole-v1:ppo"]', '"CartPole-v1"]', "CartPole-v1-from-CartPole-v1 is in the suite twice"),
    ],
)  # fmt: skip
def test_mistakes_in_a_suite_are_one_line(before: str, after: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        suite(TOML.replace(before, after, 1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_suites_are_comparisons(name: str) -> None:
    found = Suite.bundled(name)
    assert found.parts
    for part in found.parts.values():
        assert part.seeds >= 5
        assert (part.expert is None) == (name == "atari")  # nobody is imitated there


def test_a_stored_suite_leads_to_no_other_folder(tmp_path: Path) -> None:
    part = next(iter(suite().parts.values())).to_json()
    write_json(tmp_path / "suite.json", {"name": "x", "parts": {"../elsewhere": part}})
    with pytest.raises(InputError, match=r"names a folder '\.\./elsewhere': restore the file"):
        Suite.read(tmp_path)


def test_a_suite_is_not_put_into_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="exists and is no suite; choose another --out"):
        carry_out(suite(), tmp_path)


def test_a_suite_is_not_put_into_the_folder_of_another(tmp_path: Path) -> None:
    suite().save(tmp_path)
    gone = next(iter(suite().parts))
    fewer = replace(suite(), parts={label: each for label, each in suite().parts.items() if label != gone})
    with pytest.raises(InputError, match=f"holds another suite, with {gone}; choose another --out"):
        carry_out(fewer, tmp_path)


# --- what holds over all

RETURNS: dict[str, dict[str, list[list[float]]]] = {
    "CartPole-v1": {"bc": five(500, 500), "ppo": five(20, 68), "sb3:ppo": five(20, 20)},
    "Acrobot-v1": {"bc": five(260, 260), "ppo": five(68, 68), "sb3:ppo": five(20, 20)},
}
"""Scores, from 20 to 500: BC 1 and 0.5; PPO 0, 0.025 ... 0.1 and 0.1; SB3's PPO 0."""


def fill(out: Path, returns: dict[str, dict[str, list[list[float]]]] = RETURNS) -> Path:
    """A suite as `carry_out` leaves it."""
    parts = {}
    measured = Reference([495.0, 505.0], [10, 10], [500.0, 500.0])
    facts = ExpertFacts("CartPole-v1", "DQN on CartPole-v1", "0123456789abcdef" * 4, None, measured)
    references = References("key", 10.0, False, Reference([18.0, 22.0], [10, 10], [20.0, 20.0]), facts)
    for env_id, learners in returns.items():
        seeds = max(map(len, learners.values()))
        part = Comparison(
            env_id, tuple(learners), expert="CartPole-v1", seeds=seeds, budget=BUDGET, episodes=2
        )
        parts[env_id] = part
        folder = out / env_id
        write_json(folder / "comparison.json", part.to_json())
        write_json(folder / "references.json", asdict(references))
        names = {
            f"{name}-seed{seed}": f"runs/{n}-{seed}"
            for n, name in enumerate(learners)
            for seed in range(seeds)
        }
        write_json(folder / "runs.json", names)
        for n, (name, every) in enumerate(learners.items()):
            for seed, final in enumerate(every):
                result(name, seed, final).save(folder / f"runs/{n}-{seed}")
    Suite("mine", parts).save(out)
    return out


def test_scores_are_taken_together_over_environments(tmp_path: Path) -> None:
    found = read_suite(fill(tmp_path))
    bc, ppo, _ = found.aggregates
    assert [each.algorithm for each in found.aggregates] == ["bc", "ppo", "sb3:ppo"]
    assert bc.scores.tolist() == [[1.0, 0.5]] * 5
    # Of ten scores, five 1 and five 0.5, the middle six are three of each.
    assert bc.iqm.value == pytest.approx(0.75)
    assert bc.gap.value == pytest.approx(0.25)
    assert ppo.scores[:, 0] == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1])
    # Of these and five times 0.1: 0.05, 0.075, 0.1, 0.1, 0.1, 0.1 are the middle.
    assert ppo.iqm.value == pytest.approx(0.0875)
    # Nothing differs by seed in BC's environments. If only Acrobot's first episode is drawn, its score is
    # (255 - 18) / (495 - 18) and the IQM the mean of that and 1; the second: (265 - 22) / (505 - 22).
    ends = [(1 + 237 / 477) / 2, (1 + 243 / 483) / 2]
    assert (bc.iqm.low, bc.iqm.high) == pytest.approx(
        [0.75 + 1.5838 * (end - 0.75) for end in ends], abs=1e-5
    )
    # All of ten runs are above 0: Wilson's interval begins at 10 / (10 + 1.96^2).
    assert bc.profile[0] == pytest.approx([1.0, 10 / 13.8415, 1.0], abs=1e-4)
    above_half = bc.profile[np.searchsorted(np.linspace(0, 1.2, 49), 0.6)]
    assert above_half[0] == 0.5
    table = {(lead.a, lead.b): lead for lead in found.leads}
    assert table["bc", "ppo"].improvement.value == 1.0
    # Ahead of SB3's in Acrobot always; in CartPole four of five are, and one is level.
    assert table["ppo", "sb3:ppo"].improvement.value == pytest.approx((1.0 + 0.9) / 2)
    assert table["bc", "ppo"].certain


def test_the_answer_counts_environments(tmp_path: Path) -> None:
    said = suite_answer(read_suite(fill(tmp_path)))
    assert said.verdict == "yes"
    assert said.sentence == (
        "Worth it: yes. Over 2 environments BC reaches 0.75 of the expert (interquartile mean), PPO 0.09; the "
        "difference of 0.66 (95 % interval 0.64 to 0.70, p < 0.001) decides. By environment it is 2 times yes, 0 times "
        "no."
    )
    assert (said.test, said.a, said.b) == ("IQM", "bc", "ppo")


def test_eleven_learners_can_be_told_apart(tmp_path: Path) -> None:
    """55 pairs. With p never below 0.001, the smallest p of all was 0.055 after the correction."""
    learners = {name: five(480, 500) for name in ("bc", "dagger", "gail", "sqil", "aggrevated", "aggrevate")}
    learners |= {name: five(60, 100) for name in ("ppo", "a2c", "dqn", "reinforce", "sb3:ppo")}
    found = read_suite(fill(tmp_path, dict.fromkeys(("CartPole-v1", "Acrobot-v1"), learners)))
    assert suite_answer(found).verdict == "yes"
    asked = [lead for lead in found.leads if lead.asked]
    assert len(asked) == 6 * 5  # imitators against RL
    assert [lead.p for lead in asked] == pytest.approx(holm([lead.alone for lead in asked]))
    assert min(lead.p for lead in asked) == pytest.approx(30 * min(lead.alone for lead in asked))
    assert all((lead.alone < 0.05) == (lead.iqm.low > 0) for lead in asked)


def test_the_page_of_a_suite_keeps_the_warnings_of_its_parts(tmp_path: Path) -> None:
    out = fill(tmp_path)
    for path in (out / "Acrobot-v1" / "runs").glob("1-*"):
        found = Result.load(path)
        assert found is not None
        replace(found, notes=["preset made for another budget: 1,000,000 steps"]).save(path)
    references = out / "CartPole-v1" / "references.json"
    text = json.loads(references.read_text("utf-8"))
    text["expert"]["published_return"] = 900.0
    references.write_text(json.dumps(text))
    assert suite_warnings(read_suite(out)) == [
        "CartPole-v1: The expert is weak here: 500, where 900 was published.",
        "Acrobot-v1: PPO: preset made for another budget: 1,000,000 steps.",
    ]


def test_learners_missing_in_an_environment_are_left_out_of_the_aggregate(tmp_path: Path) -> None:
    returns = {
        "CartPole-v1": RETURNS["CartPole-v1"],
        "Acrobot-v1": {"bc": five(260, 260)[:2], "ppo": five(9, 9)[:1]},
    }
    found = read_suite(fill(tmp_path, returns))
    assert [each.algorithm for each in found.aggregates] == ["bc", "ppo"]
    assert found.seeds == 1
    said = suite_warnings(found)
    assert said[0] == "1 seed is too few: run 5 or more (add them with --seeds 5)."
    assert "Acrobot-v1: not run yet: ppo-seed1." in said
    assert said[-1] == "Left out of the overall scores, without results in every environment: SB3 PPO."
    assert suite_answer(found).verdict == "unclear"  # one seed allows no test


def test_an_environment_in_which_every_run_failed_is_not_said_to_be_waiting(tmp_path: Path) -> None:
    out = fill(tmp_path)
    shutil.rmtree(out / "Acrobot-v1" / "runs")
    said = "Acrobot-v1: bc-seed0: the disk is full"
    write_json(out / "Acrobot-v1/errors/bc-seed0.json", {"error": "bc-seed0: the disk is full"})
    found = read_suite(out)
    assert found.failures == [said]
    assert suite_warnings(found) == [f"Failed: {said}."]
    (out / "Acrobot-v1/errors/bc-seed0.json").unlink()
    assert suite_warnings(read_suite(out)) == ["Nothing has ended yet in Acrobot-v1."]


def test_a_third_learners_single_seed_takes_no_interval_from_a_pair(tmp_path: Path) -> None:
    learners = {"bc": five(300, 320), "ppo": five(250, 360), "sb3:ppo": five(20, 20)[:1]}
    said = suite_answer(read_suite(fill(tmp_path, {"CartPole-v1": learners})))
    assert said.verdict == "unclear"
    assert "a difference of 0.01 (95 % interval " in said.sentence


def test_a_suite_of_pure_rl_has_no_expert_to_blame(tmp_path: Path) -> None:
    out = fill(tmp_path, {"CartPole-v1": {"ppo": five(20, 68)[:3], "sb3:ppo": five(20, 20)[:3]}})
    references = out / "CartPole-v1" / "references.json"
    references.write_text(json.dumps(json.loads(references.read_text("utf-8")) | {"expert": None}))
    assert read_suite(out).seeds == 3
    assert suite_warnings(read_suite(out)) == [
        "3 seeds are too few: run 5 or more (add them with --seeds 5).",
        "CartPole-v1 has no scores, as it has no expert.",
    ]
    assert r"\caption{Mean return over 3 seeds, after 1,600 environment steps." in suite_latex(
        read_suite(out)
    )


@pytest.mark.usefixtures("undrawn")
def test_suites_in_several_folders_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cartpole = {"CartPole-v1": {name: RETURNS["CartPole-v1"][name] for name in ("bc", "ppo")}}
    a = fill(tmp_path / "a", cartpole)
    b = fill(tmp_path / "b", {"CartPole-v1": {"sb3:ppo": five(20, 20)}, "Acrobot-v1": RETURNS["Acrobot-v1"]})
    assert main(["report", str(a), str(b), "--out", str(tmp_path / "both")]) == 0
    said = json.loads((tmp_path / "both" / "summary.json").read_text("utf-8"))
    assert said["algorithms"]["bc"]["iqm"]["value"] == pytest.approx(0.75)
    assert list(said["environments"]) == ["CartPole-v1", "Acrobot-v1"]
    capsys.readouterr()
    assert main(["report", str(a), str(b), "--format", "md"]) == 0
    table = capsys.readouterr().out
    assert "| BC | 0.75 | 0.75 to 0.75 | 0.25 | 500 | 260 |" in table
    with pytest.raises(InputError, match="holds no suite to report"):
        read_suite(a, a / "CartPole-v1")


@pytest.mark.usefixtures("undrawn")
def test_one_environment_is_no_plural(tmp_path: Path) -> None:
    page = write_suite_report(fill(tmp_path, {"CartPole-v1": RETURNS["CartPole-v1"]}))
    text = page.read_text("utf-8")
    assert "<h1>BC, PPO and SB3 PPO in 1 environment</h1>" in text
    assert "1 environments" not in text + (tmp_path / "table.tex").read_text("utf-8")


# --- commands


def test_environments_of_a_suite_are_not_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "classic", "--expert", "random", "--out", str(tmp_path / "out")]) == 2
    assert "a suite has its own environments and experts: leave out --expert" in capsys.readouterr().err
    assert main(["compare", "few-demos", "--demo-episodes", "3", "--list"]) == 2
    assert "several numbers of demonstrations: leave out --demo-episodes" in capsys.readouterr().err


def test_a_suite_of_your_own_environments_is_allowed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--env` can't allow them, since a suite has several."""
    monkeypatch.chdir(tmp_path)
    register = "gymnasium.register({!r}, 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)\n"
    code = "import gymnasium\n" + "".join(register.format(f"OfASuite{n}-v0") for n in (1, 2))
    (tmp_path / "of_a_suite.py").write_text(code, "utf-8")
    tables = [f'[[environments]]\nenv_id = "of_a_suite:OfASuite{n}-v0"\n' for n in (1, 2)]
    (tmp_path / "mine.toml").write_text('algorithms = ["ppo"]\n' + "".join(tables), "utf-8")
    assert main(["compare", "mine.toml", "--list"]) == 2
    error = capsys.readouterr().err
    assert "for a suite: `compare --trust of_a_suite:OfASuite1-v0`" in error
    trusting = ["--trust", "of_a_suite:OfASuite1-v0"]
    assert main(["compare", "mine.toml", "--list", *trusting]) == 0
    assert "OfASuite2-v0" in capsys.readouterr().out
    Suite.from_toml("mine", tomllib.loads(Path("mine.toml").read_text("utf-8"))).save(tmp_path / "out")
    monkeypatch.setattr("imitate.envs.trust._trusted", set())
    monkeypatch.delitem(sys.modules, "of_a_suite")  # as in another process, which watches
    for n in (1, 2):
        monkeypatch.delitem(gym.registry, f"OfASuite{n}-v0")
    assert main(["compare", "--watch", "out"]) == 2
    assert main(["compare", "--watch", "out", *trusting]) == 0


def test_an_error_names_the_environment_of_the_suite() -> None:
    environments = [{"env_id": "CartPole-v1", "expert": "CartPole-v1:ppo"}, {"env_id": "Acrobot-v1"}]
    with pytest.raises(
        InputError, match=r"Acrobot-v1: .*bc needs an expert: .* in a suite's file with `expert`"
    ):
        Suite.from_toml("two", {"algorithms": ["bc"], "environments": environments})


@pytest.mark.usefixtures("undrawn", "inline")
def test_a_suite_of_runs(tmp_path: Path) -> None:
    """From the file to the report, with a baseline and settings under a name of their own; then one seed more."""
    file = tmp_path / "small.toml"
    file.write_text(
        'algorithms = ["sb3:ppo", "ppo@wide"]\nseeds = 1\nepisodes = 2\ncurve_episodes = 1\nbudget = 600\n'
        'hyperparameters = { "ppo@wide" = { hidden = [32] } }\n'
        '[[environments]]\nenv_id = "CartPole-v1"\n[[environments]]\nenv_id = "imitate/Nowhere-v0"\n'
    )
    assert main(["compare", str(file), "--out", str(tmp_path / "out")]) == 2
    file.write_text(
        file.read_text("utf-8").replace(
            '"imitate/Nowhere-v0"',
            '"MountainCar-v0"\nalgorithms = ["ppo@wide"]\nenv_kwargs = { max_episode_steps = 50 }',
        )
    )
    out = tmp_path / "out"
    assert main(["compare", str(file), "--out", str(out), "--workers", "1"]) == 0
    results = {
        path.parent.name.rpartition("-")[0]: Result.load(path.parent)
        for path in out.glob("CartPole-v1/runs/*/result.json")
    }
    assert set(results) == {"sb3-ppo-seed0", "ppo@wide-seed0"}
    baseline = results["sb3-ppo-seed0"]
    assert baseline is not None
    assert 500 <= baseline.env_steps <= 600
    assert len(baseline.curve) == 17
    assert baseline.hyperparameters["gae_lambda"] == 0.8  # the zoo's
    wide = results["ppo@wide-seed0"]
    assert wide is not None
    assert wide.hyperparameters["hidden"] == [32]
    assert (baseline.settings_from, wide.settings_from) == ("zoo's settings", "given here")
    times = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    assert main(["compare", "--out", str(out), "--seeds", "2", "--workers", "1"]) == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert len(list(out.rglob("result.json"))) == 2 * (2 + 1)
