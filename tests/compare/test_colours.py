"""Learners are told apart, whatever one's eyes, and look the same on every page."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from imitate.compare.report.colours import HUES, LOOKS, looks


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
@pytest.mark.parametrize(("paper", "shade"), [("#ffffff", 0), ("#111417", 1)])
def test_algorithms_are_told_apart_by_all_eyes(paper: str, shade: int, eyes: str) -> None:
    """Two of the same dash differ by 20 in L*a*b* (2 is just noticed side by side), each by 4.5 : 1 from the page."""
    colors = [pair[shade] for pair in HUES.values()]
    seen = {color: lab(np.asarray(EYES[eyes]) @ linear(color)) for color in colors}
    for (a, p), (b, q) in itertools.combinations(LOOKS.items(), 2):
        first, second = (p.light, q.light) if shade == 0 else (p.dark, q.dark)
        assert p.dash != q.dash or np.linalg.norm(seen[first] - seen[second]) >= 20, (a, b)
    for color in colors:
        light, dark = sorted(
            (float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (color, paper)), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) >= 4.5, color


def test_an_algorithm_looks_the_same_on_every_page() -> None:
    a, b = looks(["bc", "aggrevated", "sb3:ppo"]), looks(["sb3:ppo", "ppo", "aggrevated"])
    assert a["aggrevated"] == b["aggrevated"]
    assert a["sb3:ppo"] == b["sb3:ppo"]


def test_relatives_share_a_colour_and_differ_in_their_dash() -> None:
    names = ["ppo", "sb3:ppo", "ppo@wide", "gail", "gail:random", "mine:Learner", "mine:Learner@two"]
    found = looks(names)
    assert {found[name].light for name in names[:3]} == {LOOKS["ppo"].light}
    assert found["gail:random"].light == LOOKS["gail"].light
    assert len(set(found.values())) == len(names)


def test_no_two_of_many_relatives_look_alike() -> None:
    """A colour has five dashes: the sixth and the eleventh of PPO's relatives take another colour."""
    names = ["ppo", "sb3:ppo", *(f"ppo@{n}" for n in range(10))]
    found = looks(names)
    assert len(set(found.values())) == len(names) == 12
    assert {found[name].light for name in names[:5]} == {LOOKS["ppo"].light}
