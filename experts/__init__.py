"""Experts: demonstrators from SB3's zoo, the Hugging Face hub, a zip, or trained here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from imitate.experts.expert import Expert
    from imitate.experts.folder import save_expert
    from imitate.experts.load import load_expert
    from imitate.experts.sources import known_experts

__all__ = ["Expert", "known_experts", "load_expert", "save_expert"]

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "expert": ["Expert"],
        "folder": ["save_expert"],
        "load": ["load_expert"],
        "sources": ["known_experts"],
    },
)
