"""`imitate reward`"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from imitate.commands.options import command, print_json
from imitate.errors import InputError
from imitate.imitators.reward_files import reward_folder, reward_sha256
from imitate.training.experiment import Experiment

if TYPE_CHECKING:
    from imitate.imitators.reward_check import Agreement, Correlation

__all__ = ["reward"]

logger = logging.getLogger(__name__)


@command
def reward(
    run_folder: tyro.conf.Positional[Path],
    /,
    demos: tuple[str, ...],
    plot: Path | None = None,
    json: bool = False,
) -> int:
    """Compare the reward that a run of gail, dac or gaifo learned with the true one, on recorded episodes: the
    correlation over steps, and over the returns of episodes.

    Args:
        run_folder: the run
        demos: recordings of the same environment that the run did not learn from, preferably of good
            and bad players
        plot: write the two clouds of points as a .png
    """
    reward_folder(run_folder)  # before torch is imported, which takes a second
    if not demos:
        raise InputError("no recording to compare on: name one or more with --demos")
    config = run_folder / "config.json"  # missing if only the reward's own folder is there
    experiment = Experiment.read(config) if config.is_file() else None
    from imitate.datasets.convert.sources import in_our_format, is_spec
    from imitate.datasets.storage.opening import paths_of
    from imitate.datasets.storage.reader import DemoReader
    from imitate.imitators.learned_reward import load_reward
    from imitate.imitators.reward_check import plot_agreement, reward_agreement

    learned = load_reward(run_folder)
    env_id, env_kwargs = ("", None) if experiment is None else (experiment.env_id, experiment.env_kwargs)

    def ours(name: str) -> str:
        return in_our_format(name, env_id, env_kwargs or None)

    with DemoReader([ours(each) for each in demos]) as reader:
        learned_from = None if experiment is None else experiment.demos
        if learned_from is not None and (learned_from in demos or not is_spec(learned_from)):
            with suppress(InputError):  # if it is gone
                _warn(paths_of(ours(learned_from)), reader.paths)
        found, title = reward_agreement(learned, reader), f"{run_folder.name} on {reader.info.env_id}"
    if plot is not None:
        plot_agreement(found, plot, title)
    facts = _facts(run_folder, found) | {"network": asdict(learned.description.network)}
    print_json(facts) if json else print("\n".join(_lines(facts, found)))
    return 0


def _warn(learned_from: list[Path], shown: list[Path]) -> None:
    known = {path.resolve() for path in learned_from}
    for path in shown:
        if path.resolve() in known:
            logger.warning("%s is what the reward was learned from: record other episodes", path)


def _facts(subject: Path, found: Agreement) -> dict[str, Any]:
    return {
        "run": str(subject),
        "sha256": reward_sha256(subject),
        "steps": found.rewards.shape[1],
        "episodes": found.returns.shape[1],
        "per_step": asdict(found.per_step),
        "per_episode": asdict(found.per_episode),
    }


def _lines(facts: dict[str, Any], found: Agreement) -> list[str]:
    def said(correlation: Correlation, count: int) -> str:
        if count < 2:
            return "none: a correlation takes two or more"
        if correlation.linear is None:
            return "none: the true or the learned reward never varies"
        return f"correlation {correlation.linear:.3f}, of ranks {correlation.ranks:.3f}"

    lines = {
        "reward": f"{facts['network']['kind']} {facts['sha256'][:12]}",
        "steps": f"{facts['steps']:,}: {said(found.per_step, facts['steps'])}",
        "returns": f"{facts['episodes']:,}: {said(found.per_episode, facts['episodes'])}",
    }
    return [f"{name:<8} {text}" for name, text in lines.items()]
