"""The report: its numbers, its words, its files, and the page in a real browser."""

from __future__ import annotations

import csv
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitate.compare.plan import Comparison
from imitate.compare.report import write_report
from imitate.compare.results import Entry, Outcome, Result, interval, read_outcome
from imitate.compare.sentences import duration, listed, number, percent, summary
from imitate.errors import InputError
from imitate.files import write_json
from imitate.video import record_video


def evaluation(returns: list[float]) -> dict[str, Any]:
    mean = float(np.mean(returns))
    low, high = interval([returns])
    lengths = [10] * len(returns)
    return {
        "mean": mean,
        "std": 1.0,
        "iqm": mean,
        "ci95": [low, high],
        "returns": returns,
        "lengths": lengths,
    }


def result(algorithm: str, seed: int, returns: list[float], **other: Any) -> Result:
    online = algorithm != "bc"
    facts: dict[str, Any] = {
        "curve": [(100 + seed, returns[0] / 2), (1_000 + seed, returns[0])],
        "expert_queries": 0 if algorithm == "ppo" else 1_000,
        "env_steps": 800 if online else 0,
        "demo_steps": 0 if online else 1_000,
        "validation_steps": 200 if online else 0,
        "wall_seconds": 12.0 + seed,
        "hyperparameters": {"learning_rate": 1e-3, "note": "</pre><script>alert(1)</script>"},
        "stepped": {"num_envs": 4, "backend": "envpool"} if online else {},
        "versions": {"python": "3.11", "imitate-rl": "0"},
    }
    return Result(algorithm, seed, final=evaluation(returns), **(facts | other))


RETURNS = {
    "bc": [[380.0, 400.0], [400.0, 420.0]],  # 400: 79 % of the way from 20 to 500
    "dagger": [[500.0, 500.0], [500.0, 500.0]],
    "ppo": [[100.0, 120.0], [160.0, 180.0]],  # 140: 25 %
}


def fill(
    out: Path, returns: dict[str, list[list[float]]] = RETURNS, expert: float | None = 500.0, **fields: Any
) -> Path:
    """A folder as `carry_out` leaves it."""
    names = tuple(returns)
    seeds = max(1, *map(len, returns.values()))
    comparison = Comparison("CartPole-v1", names, expert="CartPole-v1", seeds=seeds, budget=1_000, **fields)
    write_json(out / "comparison.json", comparison.to_json())
    references: dict[str, Any] = {"random": evaluation([18.0, 22.0]), "expert": None}
    if expert is not None:
        references["expert"] = {
            "spec": "CartPole-v1",
            "description": "CartPole-v1: DQN on CartPole-v1",
            "sha256": "0123456789abcdef" * 4,
            "published_return": None,
            "evaluation": evaluation([expert, expert]),
        }
    write_json(out / "references.json", references)
    for name, seed_returns in returns.items():
        for seed, final in enumerate(seed_returns):
            result(name, seed, final).save(out / "runs" / f"{name}-seed{seed}")
    return out


def outcome(tmp_path: Path, *args: Any, **fields: Any) -> Outcome:
    return read_outcome(fill(tmp_path / "out", *args, **fields))


# --- numbers


def test_results_are_read_back(tmp_path: Path) -> None:
    bc, dagger, ppo = outcome(tmp_path).learners
    assert (bc.title, dagger.title, ppo.title) == ("BC", "DAgger", "PPO")
    assert (bc.mean, ppo.mean) == (400.0, 140.0)
    assert bc.average("wall_seconds") == 12.5
    assert ppo.iqm == 140.0  # middle half of 100 120 160 180


def test_share_is_of_the_way_from_random_to_expert(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    assert found.share(20.0) == 0.0
    assert found.share(500.0) == 1.0
    assert found.share(260.0) == 0.5
    hopeless = read_outcome(fill(tmp_path / "hopeless", expert=20.0))
    assert hopeless.share(400.0) is None


def test_interval_is_over_seeds_and_episodes() -> None:
    assert interval([[3.0, 3.0], [3.0, 3.0]]) == (3.0, 3.0)
    assert interval([[0.0], [10.0]]) == (0.0, 10.0)  # a quarter of the draws is each seed twice
    low, high = interval(np.random.default_rng(0).normal(5.0, 1.0, (1, 400)))
    assert low == pytest.approx(5 - 1.96 / 20, abs=0.07)  # one seed: the usual interval over its episodes
    assert high == pytest.approx(5 + 1.96 / 20, abs=0.07)


def test_curves_meet_where_all_seeds_have_been() -> None:
    runs = [
        result("ppo", 0, [1.0], curve=[(0, 0.0), (100, 10.0), (200, 20.0)]),
        result("ppo", 1, [1.0], curve=[(50, 15.0), (150, 25.0)]),  # 10 higher everywhere
    ]
    steps, mean, low, high = Entry("ppo", runs).curve()
    assert steps.tolist() == [50, 100, 150]
    assert mean.tolist() == [10.0, 15.0, 20.0]
    assert low.tolist() == [5.0, 10.0, 15.0]
    assert high.tolist() == [15.0, 20.0, 25.0]


def test_a_curve_of_one_seed_has_no_interval() -> None:
    steps, mean, low, high = Entry("ppo", [result("ppo", 0, [8.0])]).curve()
    assert (steps.tolist(), mean.tolist()) == ([100, 1_000], [4.0, 8.0])
    assert np.isnan([low, high]).all()


def test_the_median_seed_is_shown() -> None:
    runs = [result("ppo", seed, [value]) for seed, value in enumerate([9.0, 1.0, 5.0])]
    assert Entry("ppo", runs).typical.seed == 2


# --- words


def test_the_summary_says_who_won_how_the_others_did_and_what_it_took(tmp_path: Path) -> None:
    assert summary(outcome(tmp_path)) == (
        "With 1,000 environment steps each, DAgger ended best, at a mean return of 500 ± 0: 100 % of the way "
        "from random actions (20) to the expert (500). BC reached 79 % and PPO 25 %. "
        "Per seed, BC used 1,000 of the expert's actions and 12 s, DAgger 1,000 and 12 s, PPO none and 12 s."
    )


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ({"bc": [[500.0, 500.0]], "dagger": [[500.0, 500.0]]}, "BC and DAgger ended level, at"),
        ({"bc": [[500.0, 500.0]]}, "each, BC ended, at a mean return of 500 ± 0: 100 %"),
        ({"bc": [[480.0, 500.0]], "ppo": [[470.0, 485.0]]}, "one seed does not tell BC and PPO apart"),
        ({"bc": [[400.0, 500.0]] * 3, "ppo": [[400.0, 490.0]] * 3}, "3 seeds do not tell BC and PPO apart"),
        ({"bc": [[480.0, 500.0]], "ppo": [[-90.0, 10.0]]}, "(500). PPO ended below random actions. Per seed"),
        ({"ppo": [[90.0, 110.0]]}, "Per seed, PPO used none of the expert's actions and 12 s."),
    ],
)
def test_the_summary_claims_no_more_than_the_numbers(
    tmp_path: Path, returns: dict[str, list[list[float]]], said: str
) -> None:
    assert said in summary(outcome(tmp_path, returns))


def test_without_an_expert_returns_stand_for_themselves(tmp_path: Path) -> None:
    words = summary(outcome(tmp_path, {"ppo": [[90.0, 110.0]]}, expert=None))
    assert "at a mean return of 100 ± 10 (random actions get 20)." in words


def test_numbers_are_for_people() -> None:
    values = [0.0, 3.14159, 42.0, -163.44, 12_345.6]
    assert [number(value) for value in values] == ["0", "3.14", "42", "−163.4", "12,346"]
    assert [duration(seconds) for seconds in (5.4, 600, 7_200)] == ["5 s", "10 min", "2.0 h"]
    assert [percent(share) for share in (0.996, -0.82, -0.001)] == ["100 %", "−82 %", "0 %"]
    assert listed(["a", "b", "c"]) == "a, b and c"


# --- files


def test_everything_is_written(tmp_path: Path) -> None:
    page = write_report(fill(tmp_path / "out"))
    out = page.parent
    written = {path.name for path in out.iterdir() if path.is_file()} - {"comparison.json", "references.json"}
    assert written == {"report.html", "curves.png", "bars.png", "results.csv", "summary.json"}
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["seed"], float(row["mean"])) for row in rows[:3]] == [
        ("bc", "0", 390.0), ("bc", "1", 410.0), ("dagger", "0", 500.0)
    ]  # fmt: skip
    assert float(rows[0]["share_of_expert"]) == pytest.approx(370 / 480)
    data = json.loads((out / "summary.json").read_text())
    assert data["algorithms"]["ppo"]["mean"] == 140.0
    assert data["algorithms"]["ppo"]["curve"]["budget_steps"] == [101.0, 1000.0]
    assert write_report(out) == page  # again: replaced


def test_a_single_seed_gives_valid_json(tmp_path: Path) -> None:
    out = write_report(fill(tmp_path / "out", {"ppo": [[90.0, 110.0]]})).parent

    def refuse(constant: str) -> None:
        raise AssertionError(constant)  # NaN is no JSON

    data = json.loads((out / "summary.json").read_text(), parse_constant=refuse)
    assert data["algorithms"]["ppo"]["curve"]["low"] == [None, None]


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
    references = re.findall(r'(?:url\(|xlink:href=")#([\w.-]+)', text)
    assert references
    assert set(references) <= set(links.ids)


def test_failures_are_on_the_page(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"bc": [[400.0, 410.0]], "ppo": []})
    write_json(
        out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: RuntimeError: <boom>", "traceback": ""}
    )
    text = write_report(out).read_text("utf-8")
    assert "ppo-seed0: RuntimeError: &lt;boom&gt;" in text


def test_nothing_to_report_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no comparison to report .*comparison\.json is missing"):
        write_report(tmp_path)
    out = fill(tmp_path / "out", {"ppo": []})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: boom", "traceback": ""})
    with pytest.raises(InputError, match=r"no learner .* came to an end, .*: ppo-seed0: boom"):
        write_report(out)
    assert not (out / "report.html").exists()


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
        assert page.evaluate("[...document.querySelectorAll('section')].map(part => part.id)") == [
            "curves", "final", "videos", "reading", "settings"
        ]  # fmt: skip
        figures = "[...document.querySelectorAll('svg[role=img]')]"
        shown = f"{figures}.filter(svg => svg.clientWidth).map(svg => svg.classList[0])"
        assert page.evaluate(shown) == (["wide"] if width > 680 else ["narrow"]) * 2
        assert page.evaluate("document.documentElement.scrollWidth") == width  # no sideways scrolling
        assert page.evaluate("document.querySelectorAll('tbody tr').length") == 5
        captions = page.evaluate(
            "[...document.querySelectorAll('.film figcaption')].map(text => text.innerText)"
        )
        assert [" ".join(text.split()) for text in captions[:2]] == [
            "Expert return 20 mean of all episodes 500", "BC return 20 mean of all episodes 400"
        ]  # fmt: skip
        films = "[...document.querySelectorAll('video')].map(film => [film.duration, film.videoWidth])"
        assert [(math.floor(seconds), pixels) for seconds, pixels in page.evaluate(films)] == [(1, 180)] * 4


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
