"""Demonstrations that were recorded with noise, for imitators that learn from their next observations."""

from __future__ import annotations

import logging

from imitate.datasets.storage.reader import DemoReader

__all__ = ["warn_of_noise"]

logger = logging.getLogger(__name__)


def warn_of_noise(demos: DemoReader, name: str, remedy: str = "use bc or gail") -> None:
    """Warn if the next observations do not follow from the actions to imitate; `name` is the learner's."""
    if demos.info.noise or demos.has_expert_actions:
        logger.warning(
            "these demonstrations have noise in their actions: %s learns from the next observations as if the expert's "
            "own actions had led there; record without noise, or %s",
            name,
            remedy,
        )
