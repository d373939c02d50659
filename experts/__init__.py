"""Who demonstrates: experts from SB3's zoo, the Hugging Face hub, a zip, or trained here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from imitate.experts.expert import Expert
    from imitate.experts.folder import save_expert
    from imitate.experts.load import known_experts, load_expert

__all__ = ["Expert", "known_experts", "load_expert", "save_expert"]

_HOMES = {"Expert": "expert", "known_experts": "load", "load_expert": "load", "save_expert": "folder"}


def __getattr__(name: str) -> Any:
    """Import on first use: torch and gymnasium take a second, which `imitate --help` doesn't have."""
    if name in _HOMES:
        return getattr(import_module(f"imitate.experts.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
