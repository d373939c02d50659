"""The report's page in a real browser."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import chromium
import gymnasium as gym
import numpy as np
import pytest
from chromium import needs_axe, needs_chromium
from gymnasium import spaces
from reported import BUDGET, RETURNS, fill, five, result

from imitate.compare.plan.comparison import POINTS, Comparison
from imitate.compare.report.report import write_report
from imitate.compare.statistics.job_results import Point
from imitate.files import write_json
from imitate.media.video import record_video


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


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page with films; test_report.py looks at the PDF and PNG of its figures, for which bytes stand here."""
    gym.register("Ball-v0", Ball)
    out = fill(tmp_path_factory.mktemp("report") / "out")
    for name in ("expert", *RETURNS):
        (shown,) = record_video(Ball(), "Ball-v0", out / "videos" / f"{name}.mp4")
        write_json(out / "videos" / f"{name}.json", {"episode_return": shown})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imitate.compare.report.page_data.save_figure", lambda *_, **__: b"%PDF of a figure")
        return write_report(out).as_uri()


@needs_chromium
def test_a_browser_shows_all_of_it(page_url: str) -> None:
    """One page load, since a browser takes seconds to begin."""
    with chromium.Page(page_url) as page:
        page.until("[...document.querySelectorAll('video')].every(film => film.readyState >= 2)")
        assert page.requests == [page_url]
        assert page.evaluate("document.title") == "CartPole-v1: BC, DAgger and PPO · imitate"
        assert page.evaluate("document.getElementById('answer').textContent").startswith("Worth it: yes.")
        assert page.evaluate("[...document.querySelectorAll('section')].map(part => part.id)") == [
            "final", "cost", "curves", "matrix", "results", "videos", "reading", "repeat"
        ]  # fmt: skip
        assert page.evaluate("document.documentElement.scrollWidth") == 1280  # no sideways scrolling
        captions = page.evaluate(
            "[...document.querySelectorAll('.film figcaption')].map(text => text.innerText)"
        )
        assert [" ".join(text.split()) for text in captions[:2]] == [
            "Expert return 20 mean of all episodes 500", "DAgger return 20 mean of all episodes 500"
        ]  # fmt: skip
        films = "[...document.querySelectorAll('video')].map(film => [Math.floor(film.duration), film.videoWidth])"
        assert page.evaluate(films) == [[1, 180]] * 4
        assert page.evaluate(chromium.CUT) == []
        assert page.evaluate(chromium.ON_TOP) == []
        _points_at_a_step(page)
        _saves_its_figures(page)
        _switches_and_hides(page)
        _sorts_and_unfolds(page)
        _copies_its_table(page)
        for scheme in ("light", "dark"):
            _has_contrast(page, scheme)
        page.evaluate("document.getElementById('play').click()")
        page.until("[...document.querySelectorAll('video')].every(film => film.ended)")
        assert page.evaluate("document.getElementById('play').textContent") == "Play all"
        assert page.problems == []


CURVES = "document.querySelector('figure[data-name=curves]')"


def _points_at_a_step(page: chromium.Page) -> None:
    """All values half way along the steps, where everybody's made-up curve is half way from 20 to its mean."""
    svg = f"{CURVES}.querySelector('svg')"
    page.evaluate(
        f"""(() => {{
          const svg = {svg}, axis = svg.querySelector('.gridline').getBoundingClientRect();
          const place = {{clientX: axis.left + axis.width / 2, clientY: axis.top}};
          svg.dispatchEvent(new PointerEvent('pointerdown', {{pointerType: 'touch', ...place}}));
        }})()"""
    )
    tip = page.evaluate(f"{CURVES}.querySelector('.tip').innerText")
    assert tip.splitlines()[0] == "800 environment steps"
    assert [line.split()[:2] for line in tip.splitlines()[1:] if line] == [
        ["DAgger", "260"],
        ["BC", "210"],
        ["PPO", "80"],
    ]
    page.evaluate(f"{svg}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}}))")
    assert page.evaluate(f"{CURVES}.querySelector('.tip b').innerText") == "900 environment steps"
    page.evaluate(f"{svg}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Escape'}}))")
    assert page.evaluate(f"{CURVES}.querySelector('.tip').hidden")


def _saves_its_figures(page: chromium.Page) -> None:
    """SVG and PNG with light paper and styles of their own, every point as CSV, and a PDF."""
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.evaluate("window.saved = []; save = (name, url) => saved.push([name, url])")
    page.evaluate(f"{CURVES}.querySelectorAll('[data-save]').forEach(button => button.click())")
    page.until("saved.length === 3")
    files = dict(page.evaluate("saved"))
    assert set(files) == {"curves.svg", "curves.csv", "curves.png"}
    drawing = unquote(files["curves.svg"])
    assert "Near the expert" in drawing
    assert 'fill="rgb(86, 94, 104)"' in drawing  # the light page's, though the page is dark
    assert 'fill="rgb(162, 171, 181)"' not in drawing
    assert files["curves.png"].startswith("data:image/png;base64,iVBOR")
    rows = unquote(files["curves.csv"].partition(",")[2]).splitlines()
    assert rows[0] == "panel,learner,axis,x,what,value,low,high"
    assert sum(row.startswith(",DAgger,environment steps,") for row in rows) == 17
    pdf = page.evaluate(f"{CURVES}.querySelector('a[download]').href")
    assert base64.b64decode(pdf.partition(",")[2]) == b"%PDF of a figure"


def _switches_and_hides(page: chromium.Page) -> None:
    lines = f"{CURVES}.querySelector('svg').querySelectorAll('path.line').length"
    label = f"{CURVES}.querySelector('svg').getAttribute('aria-label')"
    assert page.evaluate(lines) == 3
    page.evaluate("document.querySelector('[data-learner=bc]').click()")
    assert page.evaluate(lines) == 2
    page.evaluate("document.querySelector('[data-cost=queries]').click()")
    assert page.evaluate(lines) == 1  # PPO asks nobody, and BC is hidden
    assert page.evaluate(label).endswith("against expert answers: DAgger ends at 500 after 800")
    page.evaluate("document.querySelector('[data-cost=cpu_seconds]').click()")
    assert "PPO ends at 140 after 32" in page.evaluate(label)


def _sorts_and_unfolds(page: chromium.Page) -> None:
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


def _copies_its_table(page: chromium.Page) -> None:
    names = "[...document.querySelectorAll('[data-copy]')].map(button => button.textContent)"
    assert page.evaluate(names) == ["Copy as CSV", "Copy as Markdown", "Copy as LaTeX"]
    page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text }")
    page.evaluate("document.querySelectorAll('[data-copy]')[2].click()")
    page.until("document.getElementById('copied').textContent")
    assert page.evaluate("document.getElementById('copied').textContent") == "Copied."
    assert "\\toprule" in page.evaluate("window.copied")


def _has_contrast(page: chromium.Page, scheme: str) -> None:
    """WCAG AA: 4.5 : 1 for text, here for every element that holds some; figures included."""
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    texts = page.evaluate(INK_AND_PAPER)

    def luminance(color: list[float]) -> float:
        linear = [v / 3294.6 if v <= 10.31 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in color]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    assert len(texts) >= 4
    for ink, paper in texts:
        bright, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (scheme, ink, paper)


INK_AND_PAPER = """(() => {
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


@needs_chromium
def test_tables_are_cards_on_a_phone(page_url: str) -> None:
    """Every cell has its column's name, nothing scrolls sideways, and what is empty is left out."""
    with chromium.Page(page_url, width=390) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate(chromium.CUT) == []
        assert page.evaluate(chromium.ON_TOP) == []
        scrolled = "[...document.querySelectorAll('.scroll')].filter(part => part.scrollWidth > part.clientWidth + 1)"
        assert page.evaluate(f"{scrolled}.length") == 0
        cards = page.evaluate("[...document.querySelectorAll('#results tbody tr')].map(row => row.innerText)")
        assert cards[0].split("\n")[0] == "DAgger"
        label = "getComputedStyle(document.querySelector('#results tbody td'), '::before').content"
        assert page.evaluate(label) == '"Mean return"'
        cells = "[...document.querySelectorAll('#matrix td, #results td')]"
        shown = f"{cells}.filter(cell => cell.offsetHeight && !cell.innerText.trim())"
        assert page.evaluate(f"{shown}.length") == 0
        assert page.problems == []


@needs_chromium
@pytest.mark.usefixtures("undrawn")
def test_all_points_are_within_the_axis(tmp_path: Path) -> None:
    """BC is trained anew at each point, and the last training took fewer CPU seconds than the one before."""
    out = fill(tmp_path / "out", {"bc": five(390, 410)[:1]})
    seconds = [2.0 * n for n in range(POINTS)] + [10.0]
    points = [Point(100 * n, 50 * n, each, [400.0] * 2) for n, each in enumerate(seconds)]
    result("bc", 0, [385.0, 395.0], curve=points).save(next((out / "runs").glob("bc-*")))
    with chromium.Page(write_report(out).as_uri()) as page:
        page.evaluate("document.querySelector('[data-cost=cpu_seconds]').click()")
        ends = "part => { const {x, width} = part.getBBox(); return x + width; }"
        drawn, axis = (
            page.evaluate(
                f"Math.max(...[...{CURVES}.querySelector('svg').querySelectorAll('{part}')].map({ends}))"
            )
            for part in ("circle", ".gridline")
        )
        # A circle's radius is 2.4.
        assert drawn <= axis + 2.5


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
@pytest.mark.usefixtures("undrawn")
def test_ten_learners_stay_readable(tmp_path: Path) -> None:
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
    with chromium.Page(write_report(out).as_uri()) as page:
        assert page.evaluate(f"{CURVES}.querySelector('svg').querySelectorAll('path.line').length") == 10
        for width in (1280, 390):
            page.resize(width)
            assert page.evaluate(chromium.CUT) == []
            assert page.evaluate(chromium.ON_TOP) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.problems == []


@needs_chromium
@needs_axe
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(page_url: str, width: int) -> None:
    with chromium.Page(page_url, width=width) as page:
        assert page.violations() == []
