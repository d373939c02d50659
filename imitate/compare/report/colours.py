"""Colours and dashes of learners in figures; an algorithm has the same ones on every page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

from imitate.compare.plan.learners import base, baseline, is_own

__all__ = ["HUES", "LOOKS", "Look", "looks"]

HUES = {
    "blue": ("#4d6be3", "#9ac0ff"),
    "orange": ("#c94c00", "#ff9f54"),
    "green": ("#004436", "#24da97"),
    "purple": ("#6f26a1", "#ae86fe"),
    "grey": ("#7a7161", "#c1cbd5"),
    "pink": ("#a91c77", "#e05697"),
    "teal": ("#077584", "#049eb1"),
    "olive": ("#9c6b2d", "#e3c641"),
    "brown": ("#752c10", "#d3805e"),
    "navy": ("#191e6a", "#e5e7ff"),
}
"""Colours for a light page and for a dark one."""
SOLID, DASHED, DOTTED, DASHDOT, LONG = "", "7 3", "2 2.5", "9 3 2 3", "14 4"
DASHES = (SOLID, DASHED, DASHDOT, DOTTED, LONG)
"""Dashes in SVG's notation: lengths of line and gap."""


@dataclass(frozen=True)
class Look:
    """A colour for light pages, one for dark pages, and a dash."""

    light: str
    dark: str
    dash: str


_HUES_BY_DASH = {
    SOLID: {
        "bc": "blue", "dagger": "orange", "aggrevated": "green", "gail": "purple", "ppo": "grey", "loki": "pink",
    },
    DASHED: {"dqn": "teal", "a2c": "brown", "sqil": "olive", "sac": "navy"},
    DASHDOT: {
        "aggrevate": "green", "qdagger": "teal", "rpo": "grey", "reinforce": "brown", "dac": "purple", "iq": "olive",
    },
}  # fmt: skip
LOOKS = {name: Look(*HUES[hue], dash) for dash, hues in _HUES_BY_DASH.items() for name, hue in hues.items()}
"""Any two of them differ in their dash, or have colours that colour-blind readers can tell apart."""


def looks(names: Iterable[str]) -> Mapping[str, Look]:
    """The look of each learner. A learner that is not in LOOKS gets its algorithm's colour, or one derived from its
    name, and the first dash that no other learner of this colour uses here. If all dashes are in use it gets another
    colour."""
    names = list(names)
    found = {name: LOOKS[name] for name in names if name in LOOKS}
    for name in names:
        if name not in found:
            dashes = (DOTTED, *DASHES) if baseline(name) else DASHES
            wanted = [Look(*hue, dash) for hue in (_hue(name), *HUES.values()) for dash in dashes]
            found[name] = next((look for look in wanted if look not in found.values()), wanted[0])
    return found


def _hue(name: str) -> tuple[str, str]:
    family = baseline(name) or base(name).partition(":")[0]
    if family in LOOKS and not is_own(name):
        return LOOKS[family].light, LOOKS[family].dark
    return list(HUES.values())[crc32(base(name).encode()) % len(HUES)]
