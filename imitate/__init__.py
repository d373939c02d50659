"""Imitation learning from real experts, compared with pure RL.

`__init__.pyi` lists the names, each of which is imported when it is first used: torch takes a second, which
`imitate --help` does not have. `compare` is imported from `imitate.compare`, the package of that name.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
