"""The pages of the algorithms: one for each, and their tables of metrics are what the learners log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from handwritten import named

from imitate.algorithms import ALGORITHMS
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.imitators.roll_in.teachers import Teachers

PAGES = Path(__file__).parent.parent / "docs" / "algorithms"
FEW = {"total_steps": 200, "iterations": 3, "updates_per_iteration": 2, "final_updates": 2}
CRITIC = FEW | {"fqe_updates": 2}
TRIED = CRITIC | {"total_steps": 600, "iterations": 6}
REPLAY = {
    "total_steps": 120,
    "learning_starts": 40,
    "hidden": (8,),
    "batch_size": 8,
    "rounds_per_iteration": 2,
}
DQN = REPLAY | {"num_updates": 1}
ROLLOUT = {"total_steps": 80, "num_steps": 10}
CLONE = {"total_steps": 80, "bc_updates": 3, "updates_per_round": 1, "batch_size": 8}
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("bc", {"max_updates": 4, "holdout": 0.2}),
    ("dagger", FEW),
    ("dagger", FEW | {"experts": 2, "iterations": 1}),
    ("aggrevated", TRIED | {"gate": 0.0}),
    ("aggrevated", CRITIC | {"experts": 2}),
    ("aggrevate", CRITIC),
    ("loki", {"total_steps": 400, "guidance": 0.5, "aggrevated": CRITIC, "ppo": {"num_steps": 10}}),
    ("guided", REPLAY | {"total_steps": 400, "offline_updates": 2, "clone_updates": 2}),
    ("gail", CLONE | {"ppo": {"num_steps": 10}}),
    ("gail", CLONE | {"learner": "a2c"}),
    ("gail", CLONE | {"learner": "reinforce", "reinforce": {"num_episodes": 2}}),
    ("dac", REPLAY),
    ("gaifo", REPLAY),
    ("sqil", {"total_steps": 120, "dqn": DQN, "env_id": "Identity-v0"}),
    ("sqil", {"total_steps": 120, "sac": REPLAY, "env_id": "ContinuousIdentity-v0"}),
    ("iq", {"total_steps": 120, "dqn": DQN, "env_id": "Identity-v0"}),
    ("iq", {"total_steps": 120, "sac": REPLAY, "env_id": "ContinuousIdentity-v0"}),
    ("td3bc", {"max_updates": 8, "updates_per_iteration": 4, "hidden": (8,), "batch_size": 8}),
    ("qdagger", DQN | {"teacher_steps": 60, "offline_updates": 2}),
    ("ppo", ROLLOUT),
    ("rpo", ROLLOUT | {"rpo_alpha": 0.1}),
    ("a2c", {"total_steps": 80}),
    ("reinforce", {"total_steps": 80, "num_episodes": 2}),
    ("dqn", DQN),
    ("sac", REPLAY),
    ("tqc", REPLAY | {"quantiles": 4, "dropped": 1}),
    ("td3", REPLAY),
]
"""Short runs that log everything an algorithm can log, of one expert and of two."""


def right(obs: Array) -> Array:
    """The expert of both environments names the observation."""
    return obs


def documented(page: str) -> tuple[set[str], set[str]]:
    """Names in the first column of the table below `## Metrics`, and those of the pages that the text there names."""
    section = (PAGES / f"{page}.md").read_text("utf-8").partition("\n## Metrics\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    text = re.sub(r"(?m)^\|.*$", "", section)
    others = [set.union(*documented(other)) for other in re.findall(r"\((\w+)\.md#metrics\)", text)]
    return set(re.findall(r"`(\w+)`", " ".join(cells))), set().union(*others)


def logged(name: str, settings: dict[str, Any], folder: Path) -> set[str]:
    """Names of what a run of these settings logs."""
    algorithm, settings = ALGORITHMS[name], dict(settings)
    experts = settings.pop("experts", 1)
    env_id = "Identity-v0" if algorithm.actions == "discrete" else "ContinuousIdentity-v0"
    env_id = settings.pop("env_id", env_id)
    handed: dict[str, Any] = {}
    if "envs" in algorithm.needs:
        handed["envs"] = SyncVecEnv([lambda: make_env(env_id)] * 2)
    if "demos" in algorithm.needs:
        handed["demos"] = DemoReader(named(folder / "demos.h5", env_id, 5, terminated=False))
    if "expert" in algorithm.needs:
        handed["expert"] = right if experts == 1 else [right] * experts
    if "store" in algorithm.needs:
        env = make_env(env_id)
        info = DemoInfo(env_id, env.observation_space, env.action_space)
        handed["store"] = DemoWriter(folder / "store.h5", info, expert_actions=True)
    learner = algorithm.learner(algorithm.config(**settings), seed=0, **handed)
    names: set[str] = set()
    while not learner.done:
        spent = settings.get("total_steps", 0) - learner.env_steps
        names |= set(learner.step(None if algorithm.offline else spent))
    return {re.sub(r"_\d+$", "_K", each) for each in names}


def test_every_algorithm_has_a_page_and_no_page_lacks_its_algorithm() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {*ALGORITHMS, "index"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_metrics_of_a_page_are_those_that_are_logged(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imitate.aggrevated.loki.VALUE_UPDATES", 2)  # gradient steps of the expert's value
    monkeypatch.setattr(Teachers.fit, "__defaults__", (2, 0))  # DAgger's of its experts' values
    found: set[str] = set()
    for number, (_, settings) in enumerate(run for run in RUNS if run[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        found |= logged(name, settings, folder)
    assert found, f"no run of {name} here"
    own, others = documented(name)
    found -= documented("index")[0]
    assert found - others - own == set(), f"{name}.md does not explain them"
    assert own - found == set(), f"{name}.md explains what is not logged"
