"""Draw the guide's moving picture: inverse kinematics and a student of it reach the same goals.

    imitate train dagger --env imitate/ReachArm-v0 --expert imitate/ReachArm-v0 --out runs/arm
    python benchmarks/arm_picture.py runs/arm

Both play the first test episodes.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from imitate import load_policy
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import TEST_SEED, episode_seeds
from imitate.experts import load_expert
from imitate.media.video import renderable_env

PICTURE = Path(__file__).parents[1] / "examples" / "robot_arm.gif"
ENV = "imitate/ReachArm-v0"
EPISODES, STEPS = 4, 30  # the hand has arrived by then
CAPTION, COLOURS = 30, 48
INK = "#1a1d21"

Pixels = NDArray[np.uint8]


def main(run: str) -> None:
    """Write the picture of the policy in a run's folder."""
    both = zip(film(load_expert(ENV), "expert"), film(load_policy(run), "student"), strict=True)
    frames = [Image.fromarray(np.hstack(pair)) for pair in both]
    palette = frames[0].quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    first.save(PICTURE, save_all=True, append_images=rest, duration=50, loop=0, optimize=False)
    print(f"{PICTURE}: {len(frames)} frames, {PICTURE.stat().st_size / 1e6:.2f} MB")


def film(policy: Policy, who: str) -> list[Pixels]:
    """Captioned pictures (H, W, 3) of the beginnings of the first test episodes."""
    env, pictures = renderable_env(ENV, {}), []
    for seed in islice(episode_seeds(TEST_SEED), EPISODES):
        obs, _ = env.reset(seed=seed)
        for _ in range(STEPS):
            away = np.linalg.norm(obs[14:17] - obs[17:20])
            pictures.append(captioned(env.render(), f"{who}: {100 * away:4.1f} cm from the goal"))  # type: ignore[arg-type]
            obs, *_ = env.step(policy.act(obs[None])[0])
    env.close()
    return pictures


def captioned(picture: Pixels, text: str) -> Pixels:
    height, width, _ = picture.shape
    image = Image.new("RGB", (width, height + CAPTION), "white")
    ImageDraw.Draw(image).text((10, 7), text, fill=INK, font=ImageFont.load_default(14))
    image.paste(Image.fromarray(picture), (0, CAPTION))
    return np.asarray(image)


if __name__ == "__main__":
    main(*sys.argv[1:])
