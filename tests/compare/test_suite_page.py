"""The page of a suite, in a browser."""

from __future__ import annotations

import tomllib
from pathlib import Path

import chromium
import pytest
from chromium import needs_axe, needs_chromium
from reported import five
from test_suite import RETURNS, fill

from imitate.compare import Suite, write_suite_report
from imitate.compare.report.report import write_outcome
from imitate.compare.statistics.outcome import Outcome


def undrawn_report(outcome: Outcome, out: Path) -> Path:
    """The report of a part without the PDF and PNG of its figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imitate.compare.report.page_data.save_figure", lambda *_, **__: b"")
        return write_outcome(outcome, out)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the suite above, with all that is written beside it."""
    with pytest.MonkeyPatch.context() as patch:  # test_report.py looks at the figures of a part
        patch.setattr("imitate.compare.report.suite_report.write_outcome", undrawn_report)
        return write_suite_report(fill(tmp_path_factory.mktemp("written") / "suite"))


def test_everything_of_a_suite_is_written(page: Path) -> None:
    assert {path.name for path in page.parent.iterdir() if path.is_file()} == {
        "suite.json", "report.html", "summary.json", "results.csv", "table.md", "table.tex", "suite.toml",
    }  # fmt: skip
    assert {path.name for path in (page.parent / "figures").iterdir()} == {
        f"{name}.{kind}"
        for name in ("scores", "cost", "curves", "profiles")
        for kind in ("pdf", "png", "csv")
    }
    paper = (page.parent / "table.tex").read_text("utf-8")
    assert r"over 2 environments and 5 seeds" in paper
    assert r"BC & \textbf{0.75} & 0.75 to 0.75 & 0.25 [0.25, 0.25] & \textbf{500} [436.5, 563.5]" in paper
    for part in RETURNS:
        assert (page.parent / part / "report.html").is_file()
    rows = (page.parent / "results.csv").read_text("utf-8").splitlines()
    assert rows[0].startswith("environment,algorithm,seed,mean")
    assert len(rows) == 1 + 2 * 3 * 5
    assert Suite.from_toml(
        "mine", tomllib.loads((page.parent / "suite.toml").read_text("utf-8"))
    ) == Suite.read(page.parent)


LEARNERS = (
    *("bc", "dagger", "gail", "aggrevated", "ppo", "a2c", "reinforce", "sb3:ppo"),
    *("gail:minus-one", "ppo@without-normalisation"),
)


@pytest.mark.slow
@needs_chromium
@pytest.mark.usefixtures("undrawn")
def test_a_browser_shows_ten_learners_of_a_suite(tmp_path: Path) -> None:
    """One page load: on a desk and on a phone."""
    learners = {name: five(200 * n - 1_300, 200 * n - 1_100)[:3] for n, name in enumerate(LEARNERS)}
    parts = dict.fromkeys(("CartPole-v1", "Acrobot-v1"), learners)
    page_file = write_suite_report(fill(tmp_path / "suite", parts))
    with chromium.Page(page_file.as_uri()) as page:
        assert page.requests == [page_file.as_uri()]
        curves = "document.querySelectorAll('figure[data-name=curves] path.line').length"
        assert page.evaluate(curves) == 20
        panels = "[...document.querySelectorAll('figure[data-name=curves] .chart')]"
        tops = f"{panels}.map(part => part.getBoundingClientRect().top)"
        assert len(set(page.evaluate(tops))) == 1  # side by side
        page.evaluate("document.querySelector('[data-learner=ppo]').click()")
        assert page.evaluate(curves) == 18  # gone from both
        page.evaluate("document.querySelector('#environments [data-cost=queries]').click()")
        assert page.evaluate(curves) == 2 * 6  # who asks nobody has no line
        asked = "document.querySelector('#cost svg').getAttribute('aria-label')"
        assert "DAgger" in page.evaluate(asked)
        assert "A2C" not in page.evaluate(asked)  # the costs follow the same switch
        assert page.evaluate("document.querySelector('#cost [data-cost=queries]').ariaPressed") == "true"
        page.evaluate("document.querySelector('[data-range=near]').click()")
        label = "document.querySelector('figure[data-name=curves] svg').getAttribute('aria-label')"
        assert "near the expert" in page.evaluate(label)
        page.evaluate("document.querySelector('[data-cost=steps]').click()")
        page.evaluate("document.querySelector('[data-learner=ppo]').click()")
        heads = "document.querySelectorAll('#results thead button')"
        names = "[...document.querySelectorAll('#results tbody th')].map(cell => cell.textContent)"
        page.evaluate(f"{heads}[1].click(), {heads}[1].click()")
        assert page.evaluate(names)[0] == "BC"
        assert page.evaluate(names)[-2:] == ["Expert", "Random actions"]
        for width in (1280, 390):
            page.resize(width)
            assert page.evaluate(chromium.CUT) == []
            assert page.evaluate(chromium.ON_TOP) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.problems == []


@needs_chromium
def test_what_is_cut_or_covered_is_noticed(tmp_path: Path) -> None:
    text = '<text x="{}" y="20">{}</text>'
    svg = "".join(
        text.format(x, word) for x, word in ((10, "one"), (12, "two"), (90, "sticks out"), (50, "three"))
    )
    page_file = tmp_path / "page.html"
    page_file.write_text(
        '<h1 style="width: 20px; overflow: hidden">Wide</h1><h2>Fits</h2><p style="margin-left: -30px">Left</p>'
        f'<div class="chart" style="width: 100px"><svg width="100" style="overflow: visible">{svg}</svg></div>'
    )
    with chromium.Page(page_file.as_uri()) as page:
        assert page.evaluate(chromium.CUT) == ["Wide", "Left", "sticks out"]
        assert page.evaluate(chromium.ON_TOP) == [["one", "two"]]


@needs_chromium
@needs_axe
def test_axe_finds_nothing_in_a_suite(page: Path) -> None:
    with chromium.Page(page.as_uri()) as shown:
        assert shown.violations() == []
