"""The report: its numbers, its words, its files, and the page in a real browser."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitate.cli import main
from imitate.commands import compare as commands
from imitate.compare.figures import COLORS, DARK_COLORS, DASHES
from imitate.compare.outcome import Outcome, read_outcome
from imitate.compare.plan import POINTS, Comparison
from imitate.compare.report import write_report
from imitate.compare.results import ExpertFacts, Point, Reference, References, Result
from imitate.compare.tables import as_csv, as_latex, as_markdown, rows
from imitate.compare.verdict import answer, cost_words, pairs, warnings
from imitate.compare.words import duration, listed, number, percent
from imitate.errors import InputError
from imitate.files import write_json
from imitate.video import record_video

BUDGET = 1_600


def result(algorithm: str, seed: int, returns: list[float], **other: Any) -> Result:
    """Its curve climbs straight from 20, what random actions get, to its mean return, in 16 parts of 100 steps."""
    online, mean = algorithm != "bc", float(np.mean(returns))
    asks = algorithm.removeprefix("sb3:") not in ("ppo", "dqn", "a2c", "reinforce")
    curve = [
        Point(100 * n, 50 * n if asks else 0, 2.0 * n, [20 + (mean - 20) * n / POINTS] * 2)
        for n in range(POINTS + 1)
    ]
    facts: dict[str, Any] = {
        "curve": curve,
        "lengths": [10] * len(returns),
        "expert_queries": 800 if asks else 0,
        "env_steps": BUDGET if online else 0,
        "demo_steps": 0 if online else BUDGET,
        "cpu_seconds": 12.0 + seed,
        "hyperparameters": {"learning_rate": 1e-3, "note": "</pre><script>alert(1)</script>"},
        "stepped": {"num_envs": 4, "backend": "envpool"} if online else {},
        "versions": {"python": "3.11", "imitate-rl": "0"},
        "machine": {"cpu": "a 486", "os": "Linux"},
    }
    return Result("CartPole-v1", algorithm, seed, BUDGET, returns=returns, **(facts | other))


def five(low: float, high: float) -> list[list[float]]:
    """Five seeds of two episodes: means from `low` to `high`, episodes 5 below and above."""
    return [[mean - 5, mean + 5] for mean in np.linspace(low, high, 5)]


RETURNS = {"bc": five(390, 410), "dagger": five(500, 500), "ppo": five(100, 180)}
"""Of the way from 20 to 500: 79 %, 100 % and 25 %."""


def fill(
    out: Path,
    returns: dict[str, list[list[float]]] = RETURNS,
    expert: float | None = 500.0,
    changes: dict[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """A folder as `carry_out` leaves it."""
    names = tuple(name for name in returns if ":" not in name)
    seeds = max(1, *map(len, returns.values()))
    settings = {"expert": "CartPole-v1", "seeds": seeds, "budget": BUDGET, "episodes": 2} | fields
    comparison = Comparison("CartPole-v1", names, **settings)
    write_json(out / "comparison.json", comparison.to_json())
    facts = None
    if expert is not None:
        measured = Reference([expert - 5, expert + 5], [10, 10], [expert, expert])
        facts = ExpertFacts("CartPole-v1", "DQN on CartPole-v1", "0123456789abcdef" * 4, None, measured)
    references = References("key", 10.0, True, Reference([18.0, 22.0], [10, 10], [20.0, 20.0]), facts)
    write_json(out / "references.json", asdict(references))
    index = {}
    for name in (*names, *comparison.controls):
        for seed in range(1 if ":" in name else seeds):
            index[f"{name}-seed{seed}"] = f"runs/{name.replace(':', '-')}-seed{seed}-0123456789"
    write_json(out / "runs.json", index)
    for name, seed_returns in returns.items():
        for seed, final in enumerate(seed_returns):
            result(name, seed, final, **(changes or {})).save(out / index[f"{name}-seed{seed}"])
    return out


def outcome(tmp_path: Path, *args: Any, **fields: Any) -> Outcome:
    return read_outcome(fill(tmp_path / "out", *args, **fields))


# --- numbers


def test_results_are_read_back(tmp_path: Path) -> None:
    bc, dagger, ppo = outcome(tmp_path).learners
    assert (bc.title, dagger.title, ppo.title) == ("BC", "DAgger", "PPO")
    assert (bc.mean, ppo.mean) == (400.0, 140.0)
    assert bc.average("cpu_seconds") == 14.0
    assert ppo.worst == 95.0  # of ten episodes the worst
    assert ppo.typical.seed == 2
    assert [entry.imitates for entry in (bc, dagger, ppo)] == [True, True, False]


def test_share_is_of_the_way_from_random_to_expert(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    assert [found.share(value) for value in (20.0, 500.0, 260.0)] == [0.0, 1.0, 0.5]
    hopeless = outcome(tmp_path / "hopeless", expert=20.0)
    assert hopeless.share(400.0) is None
    assert "The expert (20) is no better than random actions" in " ".join(warnings(hopeless))


def test_what_it_took_is_censored_at_the_budget(tmp_path: Path) -> None:
    returns = {"dagger": [[500.0, 500.0], [500.0, 500.0], [260.0, 260.0]], "ppo": five(100, 180)[:3]}
    found = outcome(tmp_path, returns)
    dagger, ppo = found.learners
    # 1/16 of the way is gained every 100 steps: 95 % needs all 16 parts, 50 % eight; the third seed ends at 50 %.
    assert found.to_reach(dagger, 0.95) == [1_600, 1_600, None]
    assert found.to_reach(dagger, 0.5, "queries") == [400, 400, 800]
    assert found.to_reach(dagger, 0.5, "cpu_seconds") == [16.0, 16.0, 32.0]
    assert cost_words(found, dagger, 0.95) == "1,600 (2 of 3 seeds)"
    assert cost_words(found, ppo, 0.5) == "> 1,600 (0 of 3 seeds)"
    assert found.area(dagger) == pytest.approx([0.5, 0.5, 0.25])


def test_luck_before_learning_and_what_was_lost_again_are_no_success(tmp_path: Path) -> None:
    """Untrained policies balance a pole now and then: "reaches 95 % with 0 steps" was said of one that ended at 0 %."""
    out = fill(tmp_path / "out", {"ppo": five(20, 20), "a2c": five(20, 20)})
    for name, lucky in (("ppo", 0), ("a2c", 3)):
        for path in (out / "runs").glob(f"{name}-*"):
            found = Result.load(path)
            assert found is not None
            points = [
                Point(100 * n, 0, 2.0 * n, [500.0 if n == lucky else 20.0] * 2) for n in range(POINTS + 1)
            ]
            result(name, found.seed, found.returns, curve=points).save(path)
    found = read_outcome(out)
    ppo, a2c = found.learners
    assert found.to_reach(ppo, 0.95) == [None] * 5
    assert found.to_reach(a2c, 0.95) == [300.0] * 5
    best = found.ranked()[0].title
    assert f"{best} ended at 0 % after 1,600 steps" in answer(found).sentence


def test_folders_are_reported_together(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", {"bc": five(390, 410)})
    b = fill(tmp_path / "b", {"ppo": five(100, 180), "bc": five(0, 0)})
    found = read_outcome(a, b)
    assert [entry.algorithm for entry in found.learners] == ["bc", "ppo"]
    assert found.learners[0].mean == 400.0  # the first folder's
    write_report(a, b, out=tmp_path / "both")
    assert (tmp_path / "both" / "report.html").is_file()
    other = fill(tmp_path / "other", {"ppo": five(1, 2)}, budget=5_000)
    with pytest.raises(
        InputError, match=r"other can't be reported together .*: its budget is 5000, not 1600"
    ):
        read_outcome(a, other)


def test_an_infinite_setting_is_kept_as_a_word(tmp_path: Path) -> None:
    """REINFORCE's max_grad_norm: JSON has no infinity."""
    result("reinforce", 0, [1.0, 2.0], hyperparameters={"max_grad_norm": math.inf}).save(tmp_path)
    found = Result.load(tmp_path)
    assert found is not None
    assert found.hyperparameters == {"max_grad_norm": "inf"}


def test_damaged_results_are_one_line(tmp_path: Path) -> None:
    out = fill(tmp_path / "out")
    (out / "runs" / "bc-seed0-0123456789" / "result.json").write_text('{"env_id": 3}')
    with pytest.raises(InputError, match=r"result\.json can't be read: Expected `str`, got `int`"):
        read_outcome(out)


# --- the answer


def test_pairs_are_paired_and_corrected(tmp_path: Path) -> None:
    table = {(pair.a, pair.b): pair for pair in pairs(outcome(tmp_path))}
    assert list(table) == [
        ("bc", "dagger"), ("bc", "ppo"), ("bc", "expert"),
        ("dagger", "ppo"), ("dagger", "expert"), ("ppo", "expert"),
    ]  # fmt: skip
    best = table["dagger", "ppo"]
    assert (best.mean, best.improvement) == (360.0, 1.0)
    # PPO's means are 20 apart: standard error sqrt(1000 / 5) = 14.14, t(0.975, 4) = 2.776; the episodes cancel.
    assert best.high - best.mean == pytest.approx(39.26, abs=0.01)
    assert best.certain
    same = table["dagger", "expert"]
    assert (same.mean, same.p, same.certain) == (0.0, 1.0, False)


def test_the_answer_is_yes_where_imitation_is_certainly_better(tmp_path: Path) -> None:
    said = answer(outcome(tmp_path))
    assert said.verdict == "yes"
    assert said.sentence == (
        "Worth it: yes. DAgger reaches 95 % of the expert with 800 expert answers and 1,600 steps; "
        "PPO was at 25 % after 1,600."
    )


@pytest.mark.parametrize(
    ("returns", "verdict", "said"),
    [
        ({"bc": five(100, 180), "ppo": five(500, 500)}, "no", "Worth it: no. PPO reaches 95 % of the expert"),
        ({"bc": five(100, 480), "ppo": five(120, 470)}, "unclear", "; 5 seeds do not tell them apart."),
        ({"bc": five(500, 500)[:1], "ppo": five(20, 20)[:1]}, "unclear", "; one seed allows no test."),
        ({"bc": five(390, 410)}, "unclear", "no learner by pure RL (add ppo) took part. BC ended at 79 %"),
        ({"ppo": five(390, 410)}, "unclear", "no learner by imitation took part."),
    ],
)
def test_the_answer_claims_no_more_than_the_numbers(
    tmp_path: Path, returns: dict[str, list[list[float]]], verdict: str, said: str
) -> None:
    found = answer(outcome(tmp_path, returns))
    assert found.verdict == verdict
    assert said in found.sentence


def test_level_in_the_end_the_faster_one_is_better(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"dagger": five(500, 500), "ppo": five(499, 501)})
    assert answer(read_outcome(out)).verdict == "unclear"  # both climb alike
    for path in (out / "runs").glob("dagger-*"):
        quick = Result.load(path)
        assert quick is not None
        points = [Point(100 * n, 50 * n, 2.0 * n, [500.0 if n else 20.0] * 2) for n in range(POINTS + 1)]
        result("dagger", quick.seed, quick.returns, curve=points).save(path)
    said = answer(read_outcome(out))
    assert said.verdict == "yes"
    assert "with 50 expert answers and 100 steps; PPO was at 100 %" in said.sentence


def test_warnings_name_what_is_missing(tmp_path: Path) -> None:
    returns = {"bc": five(390, 410)[:2], "ppo": five(100, 180)[:1]}
    said = warnings(
        outcome(tmp_path, returns, changes={"notes": ["preset made for another budget: 9 steps"]})
    )
    assert said[0] == "One seed says little of another: run 5 or more (add them with --seeds 5)."
    assert "PPO: preset made for another budget: 9 steps." in said
    assert said[-1] == "Not run yet: ppo-seed1."


def test_controls_are_an_audit_and_nothing_else(tmp_path: Path) -> None:
    returns = {"gail": five(490, 500), "ppo": five(100, 180), "gail:plus-one": [[900.0, 900.0]]}
    out = fill(tmp_path / "out", returns)
    found = read_outcome(out)
    assert [entry.algorithm for entry in found.learners] == ["gail", "ppo"]
    assert {pair.a for pair in pairs(found)} | {pair.b for pair in pairs(found)} == {"gail", "ppo", "expert"}
    page = write_report(out).read_text("utf-8")
    assert "<h1>GAIL and PPO on CartPole-v1</h1>" in page
    audit = page[page.index('id="audit"') : page.index('id="reading"')]
    assert "constant reward +1" in audit
    assert "<td>187 %</td>" in audit  # (900 - 20) / (490 - 20): seed 0 of GAIL is at 490
    assert json.loads((out / "summary.json").read_text())["audit"] == {"gail:plus-one": 900.0}


def test_numbers_are_for_people() -> None:
    values = [0.0, -0.0, 3.14159, 42.0, -163.44, 12_345.6]
    assert [number(value) for value in values] == ["0", "0", "3.14", "42", "−163.4", "12,346"]
    assert [duration(seconds) for seconds in (5.4, 600, 7_200)] == ["5 s", "10 min", "2.0 h"]
    assert [percent(share) for share in (0.996, -0.82, -0.001)] == ["100 %", "−82 %", "0 %"]
    assert listed(["a", "b", "c"]) == "a, b and c"


# --- files


def test_everything_is_written(tmp_path: Path) -> None:
    page = write_report(fill(tmp_path / "out"))
    out = page.parent
    inputs = {"comparison.json", "references.json", "runs.json"}
    assert {path.name for path in out.iterdir() if path.is_file()} - inputs == {
        "report.html", "curves.png", "curves.pdf", "final.png", "final.pdf",
        "results.csv", "table.md", "table.tex", "comparison.toml", "summary.json",
    }  # fmt: skip
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "final.pdf").read_bytes().startswith(b"%PDF")
    with (out / "results.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["algorithm"], row["seed"], float(row["mean"])) for row in table[:2]] == [
        ("bc", "0", 390.0), ("bc", "1", 395.0)
    ]  # fmt: skip
    assert float(table[0]["share_of_expert"]) == pytest.approx(370 / 480)
    data = json.loads((out / "summary.json").read_text())
    assert (data["verdict"], data["algorithms"]["ppo"]["mean"]) == ("yes", 140.0)
    assert data["algorithms"]["dagger"]["steps_to_95"] == [1_600] * 5
    assert write_report(out) == page  # again: replaced


def test_tables_are_for_papers(tmp_path: Path) -> None:
    table = rows(outcome(tmp_path))
    assert as_markdown(table).splitlines()[2] == "| DAgger | 500 | 436.5 to 563.5 | 100 % | 1,600 | 800 |"
    assert r"PPO & 140 & 100.9 to 179.1 & 25 \% & $>$ 1,600 (0 of 5 seeds) & 0 \\" in as_latex(table)
    assert as_csv(table).splitlines()[0].startswith("Learner,Mean return,95 % interval,")


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    table = rows(outcome(tmp_path, {"ppo": five(-180, -100)}))
    cells = list(csv.reader(as_csv(table).splitlines()))[1]
    assert cells[1] == "-140"  # a number is none
    assert cells[2].startswith("'-")  # "-224.0 to -56.0" is no number


def test_a_single_seed_gives_valid_json(tmp_path: Path) -> None:
    out = write_report(fill(tmp_path / "out", {"ppo": [[90.0, 110.0]]}, expert=None)).parent

    def refuse(constant: str) -> None:
        raise AssertionError(constant)  # NaN is no JSON

    data = json.loads((out / "summary.json").read_text(), parse_constant=refuse)
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


def test_the_page_is_self_contained_and_safe(tmp_path: Path) -> None:
    text = write_report(fill(tmp_path / "out")).read_text("utf-8")
    links = Links()
    links.feed(text)
    assert all(value.startswith(("data:", "#")) for value in links.fetched)
    assert len(set(links.ids)) == len(links.ids)
    assert "<script>alert" not in text  # hyperparameters are data
    assert text.count("&#34;backend&#34;: &#34;envpool&#34;") == 2  # dagger's and ppo's: BC steps nothing
    assert str(tmp_path) not in text  # nothing of this machine


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
        write_report(tmp_path)
    out = fill(tmp_path / "out", {"ppo": []})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: boom", "traceback": ""})
    with pytest.raises(InputError, match=r"no learner .* came to an end, .*: ppo-seed0: boom"):
        write_report(out)
    assert not (out / "report.html").exists()


# --- colours


def linear(color: str) -> np.ndarray:
    value = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


EYES = {  # Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB
    "usual": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize(("colors", "paper"), [(COLORS, "#ffffff"), (DARK_COLORS, "#111417")])
def test_ten_learners_are_told_apart_by_all_eyes(colors: tuple[str, ...], paper: str, eyes: str) -> None:
    """Two of the same dash differ by 20 in L*a*b* (2 is just noticed side by side), each by 4.5 : 1 from the page."""
    seen = [lab(np.asarray(EYES[eyes]) @ linear(color)) for color in colors]
    assert len(colors) == len(DASHES) == 10
    for a, b in itertools.combinations(range(10), 2):
        assert DASHES[a] != DASHES[b] or np.linalg.norm(seen[a] - seen[b]) >= 20, (colors[a], colors[b])
    for color in colors:
        light, dark = sorted(
            (float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (color, paper)), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) >= 4.5, color


# --- in a browser


class Ball(gym.Env[Any, Any]):
    """A ball that falls for a second."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    observation_space = spaces.Discrete(21)
    action_space = spaces.Discrete(2)
    time = 0

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.time = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self.time += 1
        return self.time, 1.0, self.time == 20, False, {}

    def render(self) -> Any:
        picture = np.full((120, 180, 3), 240, np.uint8)
        picture[4 * self.time : 4 * self.time + 20, 80:100] = (200, 60, 20)
        return picture

    def act(self, obs: Any, *, deterministic: bool = True) -> Any:  # noqa: ARG002
        return np.zeros(len(obs), int)


needs_chromium = pytest.mark.skipif(
    chromium.EXECUTABLE is None, reason="no chromium here: apt-get install chromium"
)


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    gym.register("Ball-v0", Ball)
    out = fill(tmp_path_factory.mktemp("report") / "out")
    for name in ("expert", *RETURNS):
        (shown,) = record_video(Ball(), "Ball-v0", out / "videos" / f"{name}.mp4")
        write_json(out / "videos" / f"{name}.json", {"episode_return": shown})
    return write_report(out).as_uri()


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_all_of_it(page_url: str, tmp_path: Path, width: int) -> None:
    with chromium.Page(page_url, tmp_path / "profile", width=width) as page:
        page.until("[...document.querySelectorAll('video')].every(film => film.readyState >= 2)")
        assert page.requests == [page_url]
        assert page.problems == []
        assert page.evaluate("document.title") == "CartPole-v1: BC, DAgger and PPO · imitate"
        assert page.evaluate("document.getElementById('answer').textContent").startswith("Worth it: yes.")
        assert page.evaluate("[...document.querySelectorAll('section')].map(part => part.id)") == [
            "curves", "final", "matrix", "results", "videos", "reading", "repeat"
        ]  # fmt: skip
        assert page.evaluate("document.documentElement.scrollWidth") == width  # no sideways scrolling
        assert page.evaluate("document.querySelectorAll('#results tbody tr').length") == 5
        captions = page.evaluate(
            "[...document.querySelectorAll('.film figcaption')].map(text => text.innerText)"
        )
        assert [" ".join(text.split()) for text in captions[:2]] == [
            "Expert return 20 mean of all episodes 500", "DAgger return 20 mean of all episodes 500"
        ]  # fmt: skip
        films = "[...document.querySelectorAll('video')].map(film => [film.duration, film.videoWidth])"
        assert [(math.floor(seconds), pixels) for seconds, pixels in page.evaluate(films)] == [(1, 180)] * 4


@needs_chromium
def test_curves_switch_their_axis_and_hide(page_url: str, tmp_path: Path) -> None:
    with chromium.Page(page_url, tmp_path / "profile") as page:
        lines = "document.querySelectorAll('.chart path.line').length"
        label = "document.querySelector('.chart svg').getAttribute('aria-label')"
        assert page.evaluate(lines) == 3
        page.evaluate("document.querySelector('[data-learner=BC]').click()")
        assert page.evaluate(lines) == 2
        page.evaluate("document.querySelector('[data-cost=queries]').click()")
        assert page.evaluate(lines) == 1  # PPO asks nobody, and BC is hidden
        assert page.evaluate(label).endswith("against expert answers: DAgger ends at 500 after 800")
        page.evaluate("document.querySelector('[data-cost=cpu_seconds]').click()")
        assert "PPO ends at 140 after 32" in page.evaluate(label)
        assert page.problems == []


@needs_chromium
def test_the_table_sorts_and_unfolds(page_url: str, tmp_path: Path) -> None:
    with chromium.Page(page_url, tmp_path / "profile") as page:
        names = "[...document.querySelectorAll('#results tbody th')].map(cell => cell.textContent)"
        shown = "[...document.querySelectorAll('#results thead th')].filter(cell => cell.offsetWidth).length"
        assert page.evaluate(names) == ["DAgger", "BC", "PPO", "Expert", "Random actions"]
        heads = "document.querySelectorAll('#results thead button')"
        page.evaluate(f"{heads}[1].click()")
        page.evaluate(f"{heads}[1].click()")  # ascending now
        assert page.evaluate(names) == ["PPO", "BC", "DAgger", "Expert", "Random actions"]
        page.evaluate(f"{heads}[4].click()")  # steps to 95 %: who never was there comes last
        assert page.evaluate(names)[0] == "DAgger"
        assert page.evaluate(shown) == 6
        page.evaluate("document.getElementById('unfold').click()")
        assert page.evaluate(shown) == 16
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert page.problems == []


@needs_chromium
def test_the_table_is_copied_for_papers(page_url: str, tmp_path: Path) -> None:
    with chromium.Page(page_url, tmp_path / "profile") as page:
        names = "[...document.querySelectorAll('[data-copy]')].map(button => button.textContent)"
        assert page.evaluate(names) == ["Copy as CSV", "Copy as Markdown", "Copy as LaTeX"]
        page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text }")
        page.evaluate("document.querySelectorAll('[data-copy]')[2].click()")
        page.until("document.getElementById('copied').textContent")
        assert page.evaluate("document.getElementById('copied').textContent") == "Copied."
        assert "\\toprule" in page.evaluate("window.copied")
        assert page.problems == []


TEN = (
    "bc",
    "dagger",
    "gail",
    "aggrevated",
    "ppo",
    "a2c",
    "reinforce",
    "dqn",
    "gail:plus-one",
    "gail:minus-one",
)


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_ten_learners_stay_readable(tmp_path: Path, width: int) -> None:
    """Nothing is cut off: every text is within its box, and every box within the page or a part that scrolls."""
    out = tmp_path / "out"
    returns = {name: five(40 * n + 30, 40 * n + 60) for n, name in enumerate(TEN)}
    index = {f"{name}-seed{seed}": f"runs/{n}-{seed}" for n, name in enumerate(TEN) for seed in range(5)}
    fill(out, {"bc": []})
    comparison = Comparison("CartPole-v1", TEN, expert="CartPole-v1", seeds=5, budget=BUDGET, episodes=2)
    write_json(out / "comparison.json", comparison.to_json())
    write_json(out / "runs.json", index)
    for name, seed in itertools.product(TEN, range(5)):
        result(name, seed, returns[name][seed]).save(out / index[f"{name}-seed{seed}"])
    with chromium.Page(write_report(out).as_uri(), tmp_path / "profile", width=width) as page:
        assert page.evaluate("document.querySelectorAll('.chart path.line').length") == 10
        assert page.evaluate(chromium.CUT) == []
        assert page.evaluate(chromium.ON_TOP) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.problems == []


needs_axe = pytest.mark.skipif(
    not chromium.AXE.is_file(), reason="no axe-core here: npm install --no-save axe-core"
)


@needs_chromium
@needs_axe
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(page_url: str, tmp_path: Path, width: int) -> None:
    with chromium.Page(page_url, tmp_path / "profile", width=width) as page:
        assert page.violations() == []


@needs_chromium
def test_all_videos_play_together(page_url: str, tmp_path: Path) -> None:
    with chromium.Page(page_url, tmp_path / "profile") as page:
        page.evaluate("document.getElementById('play').click()")
        page.until("[...document.querySelectorAll('video')].every(film => film.ended)")
        assert page.evaluate("document.getElementById('play').textContent") == "Play all"
        assert page.problems == []


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(page_url: str, tmp_path: Path, scheme: str) -> None:
    """WCAG AA: 4.5 : 1 for text, here for every element that holds some; figures included."""
    with chromium.Page(page_url, tmp_path / "profile") as page:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        texts = page.evaluate(
            """(() => {
              const rgb = text => text.match(/[\\d.]+/g).map(Number);
              const seen = new Set();
              for (const node of document.querySelectorAll('body *')) {
                const text = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
                const box = node.getBoundingClientRect();
                if (!text || !box.width || ['SCRIPT', 'STYLE', 'title'].includes(node.tagName)) continue;
                let behind = node, paper = [0, 0, 0, 0];
                for (; behind && !paper[3]; behind = behind.parentElement) {
                  const found = rgb(getComputedStyle(behind).backgroundColor);
                  paper = found.length === 3 ? [...found, 1] : found;
                }
                const style = getComputedStyle(node);
                const ink = rgb(node instanceof SVGElement ? style.fill : style.color);
                seen.add(JSON.stringify([ink.slice(0, 3), paper.slice(0, 3)]));
              }
              return [...seen].map(pair => JSON.parse(pair));
            })()"""
        )

    def luminance(color: list[float]) -> float:
        linear = [v / 3294.6 if v <= 10.31 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in color]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    assert len(texts) >= 4
    for ink, paper in texts:
        bright, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


# --- commands


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
        return write_report(folder)

    monkeypatch.setattr(commands, "run_comparison", run)
    assert main(["compare", "--out", str(out), *argv]) == 0
    assert {name: getattr(seen[0], name) for name in asked} == asked
    assert (seen[0].env_id, seen[0].expert) == ("CartPole-v1", "CartPole-v1")
    # The file beside the report says the same.
    assert main(["compare", str(out / "comparison.toml"), "--out", str(out), *argv]) == 0
    assert seen[1] == seen[0]


def test_a_folder_of_a_users_environment_grows_where_it_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may not choose what is imported, not even a folder that we wrote."""
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": five(100, 180)})
    stored = json.loads((out / "comparison.json").read_text()) | {"env_id": "my_balls:Balls-v0"}
    write_json(out / "comparison.json", stored)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_balls.py").write_text(
        "import gymnasium\ngymnasium.register('Balls-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    assert main(["compare", "--out", str(out), "--add", "dqn"]) == 2
    assert "if you trust it, say --env my_balls:Balls-v0" in capsys.readouterr().err
    seen: list[Comparison] = []

    def run(comparison: Comparison, folder: Path, **_: Any) -> Path:
        seen.append(comparison)
        return write_report(folder)

    monkeypatch.setattr(commands, "run_comparison", run)
    assert main(["compare", "--env", "my_balls:Balls-v0", "--out", str(out), "--add", "dqn"]) == 0
    assert (seen[0].algorithms, seen[0].budget, seen[0].seeds) == (("bc", "ppo", "dqn"), BUDGET, 5)


def test_a_failed_run_is_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": []})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: boom", "traceback": ""})
    monkeypatch.setattr(commands, "run_comparison", lambda _comparison, folder, **_: write_report(folder))
    assert main(["compare", "--out", str(out)]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seeds = 3", "names no environment: add a line such as env_id"),
        ("env_id = ", "is no TOML"),
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
