"""Draw the README's moving picture: a teacher, a student that surpassed it, and their learning curves.

    imitate train aggrevated --env Hopper-v5 --expert zoo:sac/Hopper-v3 --out runs/hopper
    python benchmarks/moving_picture.py runs/hopper

Teacher and student play the first test episode. The curves are those of examples/mujoco, five seeds each. The picture
is drawn twice, for light pages and for dark ones.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from mujoco_suite import suite
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from imitate import load_policy
from imitate.compare.plan.learners import title
from imitate.compare.report.colours import LOOKS
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import TEST_SEED
from imitate.experts import load_expert
from imitate.media.video import record_video

EXAMPLES = Path(__file__).parents[1] / "examples"
ENV, TEACHER = "Hopper-v5", "zoo:sac/Hopper-v3"
FPS = 20
SIDE, CAPTION, WIDTH = 240, 34, 400  # pixels
VIEW = {"width": SIDE, "height": SIDE}
REST = 30  # frames for which the last picture stays

Pixels = NDArray[np.uint8]


class Page(NamedTuple):
    """The colours of a page, and whether it is dark."""

    paper: str
    ink: str
    muted: str
    dark: bool


PAGES = {
    "hopper.gif": Page("#ffffff", "#1a1d21", "#5b636e", dark=False),
    "hopper-dark.gif": Page("#111417", "#e9ecef", "#a2abb5", dark=True),
}


def main(run: str) -> None:
    """Write the pictures of the policy in a run's folder."""
    teacher = film(load_expert(TEACHER, env_id=ENV))
    student = film(load_policy(run))
    length = max(len(teacher[0]), len(student[0])) + REST
    for name, page in PAGES.items():
        panel = curves(page)
        frames = [
            np.hstack([captioned("teacher", teacher, n, page), captioned("student", student, n, page), panel])
            for n in range(length)
        ]
        save(frames, EXAMPLES / name)
        print(f"{name}: {length} frames, {(EXAMPLES / name).stat().st_size / 1e6:.1f} MB")


def film(policy: Policy) -> tuple[list[Pixels], float]:
    """Pictures (SIDE, SIDE, 3) of an episode in real time, FPS per second, and its return."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        (total,) = record_video(policy, ENV, path, env_kwargs=VIEW, seed=TEST_SEED, crf=12)
        video = cv2.VideoCapture(str(path))
        every = video.get(cv2.CAP_PROP_FPS) / FPS
        pictures: list[Pixels] = []
        while (read := video.read())[0]:
            pictures.append(np.asarray(read[1][:, :, ::-1], np.uint8))
        video.release()
    kept = np.unique(np.append(np.arange(0, len(pictures), every), len(pictures) - 1).astype(int))
    return [pictures[n] for n in kept], total


def captioned(who: str, filmed: tuple[list[Pixels], float], n: int, page: Page) -> Pixels:
    """Picture n below its caption. After the end the last picture stays, and the caption gives the return."""
    pictures, total = filmed
    ended = n >= len(pictures) - 1
    text = f"{who}: return {total:,.0f} in {(len(pictures) - 1) / FPS:.1f} s" if ended else who
    image = Image.new("RGB", (SIDE, SIDE + CAPTION), page.paper)
    ImageDraw.Draw(image).text((10, 8), text, fill=page.ink, font=ImageFont.load_default(14))
    image.paste(Image.fromarray(pictures[min(n, len(pictures) - 1)]), (0, CAPTION))
    return np.asarray(image)


def curves(page: Page) -> Pixels:
    """A plot of return against environment steps in examples/mujoco: the mean of five seeds, each seed faintly, and the
    teacher."""
    part = suite()[ENV]
    figure = Figure(
        figsize=(WIDTH / 100, (SIDE + CAPTION) / 100), dpi=100, layout="constrained", facecolor=page.paper
    )
    axes = figure.add_subplot(facecolor=page.paper)
    teacher = float(np.mean(part["references"]["expert"]["measured"]["curve"]))
    axes.axhline(teacher, color=page.muted, ls="--", lw=1, label="teacher")
    for name in ("aggrevated", "dagger", "gail", "ppo"):
        runs = [run["curve"] for run in part["learners"][name]]
        steps = np.array([[point["steps"] for point in run] for run in runs]) / 1_000  # (S, P)
        returns = np.array([[np.mean(point["returns"]) for point in run] for run in runs])  # (S, P)
        color = LOOKS[name].dark if page.dark else LOOKS[name].light
        axes.plot(steps.T, returns.T, color=color, lw=0.6, alpha=0.35)
        axes.plot(steps.mean(0), returns.mean(0), color=color, lw=1.8, label=title(name))
    axes.set_xlabel("thousand environment steps", color=page.muted, size=8)
    axes.set_ylabel("return, 5 seeds", color=page.muted, size=8)
    axes.tick_params(colors=page.muted, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(page.muted)
    axes.legend(frameon=False, fontsize=8, labelcolor=page.ink)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3]


def save(frames: list[Pixels], path: Path) -> None:
    """Write an endless GIF. Its frames share one palette, so that unchanged parts cost nothing."""
    films = np.vstack([frame[:, : 2 * SIDE] for frame in frames[:: len(frames) // 6]])
    colours = [_palette(films, 96), _palette(frames[0][:, 2 * SIDE :], 64)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate(colours).tobytes())
    first, *rest = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames
    ]
    first.save(path, save_all=True, append_images=rest, duration=1_000 // FPS, loop=0, optimize=False)


def _palette(pixels: Pixels, colours: int) -> Pixels:
    """Colours (colours * 3,) that suit the pixels."""
    quantized = Image.fromarray(pixels).quantize(colours, dither=Image.Dither.NONE)
    found = np.array(quantized.getpalette(), np.uint8)[: 3 * colours]
    return np.resize(found, 3 * colours)


if __name__ == "__main__":
    main(*sys.argv[1:])
