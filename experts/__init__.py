"""Who demonstrates: experts from SB3's zoo, the Hugging Face hub, a zip, or trained here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from imitate.experts.expert import Expert, known_experts, load_expert, save_expert

__all__ = ["Expert", "known_experts", "load_expert", "save_expert"]


def __getattr__(name: str) -> Any:
    """Import on first use: torch and gymnasium take a second, which `imitate --help` doesn't have."""
    if name in __all__:
        from imitate.experts import expert

        return getattr(expert, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
