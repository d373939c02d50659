"""Films of a policy while it learns."""

from __future__ import annotations

import logging
from pathlib import Path

from imitate.algorithms import find
from imitate.envs.seeds import Stream, draw_seed
from imitate.errors import LARGEST, InputError, check_range
from imitate.media.video import record_video, renderable_env
from imitate.nn.policy import ActorPolicy
from imitate.training.checkpoint import Checkpoint
from imitate.training.experiment import Experiment

__all__ = ["Films"]

_SECONDS, _WIDTH, _CRF = 60, 480, 28
logger = logging.getLogger(__name__)


class Films:
    """Called with (steps spent, policy) before the first iteration and after each, it films an episode for every
    `video_every` steps of the budget (iterations, if the learner is offline): RUN/videos/00012800.mp4 after 12,800.

    Every film is of the same episode, which serves no other purpose and is outside the budget; of a long one it shows a
    minute. A resumed run goes on after its last film, and doesn't repeat those that were made after its checkpoint.

    Raises InputError if the environment can't be filmed. If a later film fails, a warning says so, and it is the last.
    """

    def __init__(self, experiment: Experiment, out: Path, video_every: int) -> None:
        self.experiment, self.folder, self.video_every = experiment, out / "videos", video_every
        check_range(self, 1, LARGEST, "video_every")
        renderable_env(experiment.env_id, experiment.env_kwargs).close()
        self.offline = find(experiment.algorithm).offline
        checkpoint = Checkpoint.read(out) if self.offline else None
        self._iterations = -1 if checkpoint is None else checkpoint.account.iterations or -1
        made = [int(path.stem) for path in self.folder.glob("*.mp4") if path.stem.isdecimal()]
        self._due = self._after(max(made)) if made else 0

    def __call__(self, spent: int, policy: ActorPolicy) -> None:
        self._iterations += 1
        position = self._iterations if self.offline else spent
        if position < self._due:
            return
        self._due = self._after(position)
        try:
            record_video(
                policy,
                self.experiment.env_id,
                self.folder / f"{position:08}.mp4",
                env_kwargs=self.experiment.env_kwargs,
                seed=draw_seed(Stream.FILMS, self.experiment.seed),
                max_seconds=_SECONDS,
                width=_WIDTH,
                crf=_CRF,
            )
        except InputError as error:  # learning doesn't depend on it
            logger.warning("the policy is not filmed any more: %s", error)
            self._due = LARGEST

    def _after(self, position: int) -> int:
        return (position // self.video_every + 1) * self.video_every
