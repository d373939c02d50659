"""The report's files: tables, JSON and the page as text."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from reported import fill, five, outcome
from test_suite import fill as fill_suite

from imitate.compare.report.report import write_report
from imitate.compare.report.results_table import as_csv, as_latex, as_markdown, latex, rows
from imitate.compare.report.suite_tables import suite_latex
from imitate.compare.statistics.aggregate import read_suite
from imitate.errors import InputError
from imitate.files import write_json


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = fill(tmp_path_factory.mktemp("report") / "out")
    (out / "report.html").write_text("an earlier report")
    return write_report(out)


def test_everything_is_written(written: Path) -> None:
    out = written.parent
    inputs = {"comparison.json", "references.json", "runs.json"}
    assert {path.name for path in out.iterdir() if path.is_file()} - inputs == {
        "report.html", "results.csv", "table.md", "table.tex", "comparison.toml", "summary.json",
    }  # fmt: skip
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"{name}.{kind}" for name in ("final", "cost", "curves") for kind in ("pdf", "png", "csv")
    }
    assert (out / "figures" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figures" / "final.pdf").read_bytes().startswith(b"%PDF")
    with (out / "results.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["algorithm"], row["seed"], float(row["mean"])) for row in table[:2]] == [
        ("bc", "0", 390.0), ("bc", "1", 395.0)
    ]  # fmt: skip
    assert float(table[0]["share_of_expert"]) == pytest.approx(370 / 480)
    data = json.loads((out / "summary.json").read_text("utf-8"))
    assert (data["verdict"], data["algorithms"]["ppo"]["mean"]) == ("yes", 140.0)
    assert data["algorithms"]["dagger"]["steps_to_95"] == [1_600] * 5


def test_tables_are_for_papers(tmp_path: Path) -> None:
    table = rows(outcome(tmp_path))
    assert as_markdown(table).splitlines()[2] == "| DAgger | 500 | 436.5 to 563.5 | 100 % | 1,600 | 800 |"
    assert r"PPO & 140 & 100.9 to 179.1 & 25 \% & $>$ 1,600 (0 of 5 seeds) & 0 \\" in as_latex(table)
    assert r"\caption" not in as_latex(table)
    assert as_csv(table).splitlines()[0].startswith("Learner,Mean return,95 % interval,")


def test_latex_has_a_caption_and_bold_only_where_significant(tmp_path: Path) -> None:
    clear = outcome(tmp_path / "clear")
    text = latex(clear)
    assert (
        r"\caption{CartPole-v1: mean return of 2 test episodes after 1,600 environment steps, 5 seeds."
        in text
    )
    assert r"\label{tab:cartpole-v1}" in text
    assert text.count(r"\textbf") == 1
    assert r"DAgger & \textbf{500} & 436.5 to 563.5 &" in text
    tied = outcome(tmp_path / "tied", {"dagger": five(490, 510), "bc": five(480, 505), "ppo": five(100, 180)})
    assert r"\textbf" not in latex(tied)
    fewer = outcome(tmp_path / "fewer", {"bc": five(480, 505), "ppo": five(100, 180)[:1]})
    assert "steps, 1 seed." in latex(fewer)  # of the five that were planned
    survived = replace(clear, failures=["dagger-seed5: it fell", "dagger-seed6: it fell"])
    assert "5 seeds, without 2 runs of DAgger that failed." in latex(survived)
    assert r"\textbf" not in latex(survived)


def test_a_suites_score_is_not_bold_if_runs_of_its_learner_failed(tmp_path: Path) -> None:
    learners = {"bc": five(500, 500)[:4], "ppo": five(300, 300)}
    suite = fill_suite(tmp_path, dict.fromkeys(("CartPole-v1", "Acrobot-v1"), learners))
    assert r"BC & \textbf{1} & " in suite_latex(read_suite(suite))
    write_json(suite / "Acrobot-v1" / "errors" / "bc-seed4.json", {"error": "bc-seed4: it fell"})
    survived = suite_latex(read_suite(suite))
    assert r"BC & 1 & " in survived
    assert "environment steps, without 1 run of BC that failed." in survived


def test_only_the_best_of_two_learners_with_a_class_of_one_name_is_bold(tmp_path: Path) -> None:
    """One of them is called as PPO of the table."""
    learners = {"mine:PPO": five(480, 490), "other:PPO": five(20, 40), "ppo": five(100, 180)}
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": learners}))
    names = {line.partition(" & ")[0] for line in suite_latex(found).splitlines() if r"\textbf" in line}
    assert names == {"mine:PPO"}
    text = latex(found.outcomes["CartPole-v1"])
    assert r"mine:PPO & \textbf{485} & " in text
    assert text.count(r"\textbf") == 1


def test_nothing_is_bold_while_a_learner_has_no_result(tmp_path: Path) -> None:
    """The caption names the learner all of whose runs failed: it may have been better."""
    learners = {"bc": five(480, 490), "ppo": five(100, 180), "dqn": []}
    suite = fill_suite(tmp_path, {"CartPole-v1": learners})
    for seed in range(5):
        error = {"error": f"dqn-seed{seed}: it fell"}
        write_json(suite / "CartPole-v1" / "errors" / f"dqn-seed{seed}.json", error)
    found = read_suite(suite)
    for text in (latex(found.outcomes["CartPole-v1"]), suite_latex(found)):
        assert r"\textbf" not in text
        assert "without 5 runs of DQN that failed." in text


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    table = rows(outcome(tmp_path, {"ppo": five(-180, -100)}))
    cells = list(csv.reader(as_csv(table).splitlines()))[1]
    assert cells[1] == "-140"  # a number is none
    assert cells[2].startswith("'-")  # "-224.0 to -56.0" is no number


def test_a_single_seed_gives_valid_json(tmp_path: Path) -> None:
    out = write_report(fill(tmp_path / "out", {"ppo": [[90.0, 110.0]]}, expert=None)).parent

    def refuse(constant: str) -> None:
        raise AssertionError(constant)  # NaN is no JSON

    data = json.loads((out / "summary.json").read_text("utf-8"), parse_constant=refuse)
    assert set(data["algorithms"]["ppo"]["curve"]["low"]) == {None}
    assert data["algorithms"]["ppo"]["ci95"] is None


class Links(HTMLParser):
    """Everything a page would fetch, and its ids."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "poster", "srcset", "data") and value:
                self.fetched.append(value)


def test_the_page_is_self_contained_and_safe(written: Path) -> None:
    text = written.read_text("utf-8")
    links = Links()
    links.feed(text)
    assert all(value.startswith(("data:", "#")) for value in links.fetched)
    assert len(set(links.ids)) == len(links.ids)
    assert "<script>alert" not in text  # hyperparameters are data
    assert text.count("&#34;backend&#34;: &#34;envpool&#34;") == 2  # dagger's and ppo's: BC steps nothing
    assert str(written.parent) not in text  # nothing of this machine


@pytest.mark.usefixtures("undrawn")
def test_failures_are_on_the_page(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"bc": [[400.0, 410.0]], "ppo": []})
    write_json(
        out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: RuntimeError: <boom>", "traceback": ""}
    )
    text = write_report(out).read_text("utf-8")
    assert "ppo-seed0: RuntimeError: &lt;boom&gt;" in text
    assert "Not run yet" not in text


def test_nothing_to_report_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no comparison to report"):
        write_report(str(tmp_path))  # a folder may be text
    out = fill(tmp_path / "out", {"ppo": []})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: boom", "traceback": ""})
    with pytest.raises(InputError, match=r"no learner .* finished, .*: ppo-seed0: boom"):
        write_report(out)
    assert not (out / "report.html").exists()
