"""Foreign experts, damaged or hostile: opened or refused in one line, within 1 GB and 20 s, and nothing runs."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import stable_baselines3 as sb3
from expert_bombs import bombs
from expert_mutants import DESCRIPTION, PENDULUM, STATISTICS, WEIGHTS, ZIP, Case, Files, mutants
from forked import run
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.envs.make import make_env
from imitate.experts import save_expert

GIGABYTE = 1 << 30
WORK = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path.cwd()))  # where the payload could be imported
from open_attacks import main
main(Path(sys.argv[1]), set(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """A zip with its companions, and a folder of ours, of the same small agent."""
    folder = tmp_path_factory.mktemp("agent")
    venv = VecNormalize(DummyVecEnv([lambda: make_env(PENDULUM)]))
    venv.reset()
    model = sb3.SAC("MlpPolicy", venv, buffer_size=10, device="cpu", policy_kwargs={"net_arch": [8]})
    model.save(folder / ZIP)
    venv.save(str(folder / STATISTICS))
    save_expert(folder / "own", model, venv, {"env_id": PENDULUM, "measured": {"mean": -150.0, "std": 80.0}})
    description = json.loads((folder / "own" / DESCRIPTION).read_text("utf-8"))
    config = {"normalize": True, "env_wrapper": [{"sb3_contrib.TimeFeatureWrapper": {"test_mode": True}}]}
    origin = {
        "source": "zoo:sac/Pendulum-v1",
        "sha256": "",
        "config": config,
        "results": {"mean_reward": -150.0},
    }
    (folder / "own" / DESCRIPTION).write_text(json.dumps(description | {"origin": origin}))
    found = {name: (folder / name).read_bytes() for name in (ZIP, STATISTICS)}
    found["args.yml"] = (
        f"!!python/object/apply:collections.OrderedDict\n- - - env\n    - {PENDULUM}\n".encode()
    )
    found["config.yml"] = b"normalize: true\n"
    return found, {name: (folder / "own" / name).read_bytes() for name in (DESCRIPTION, WEIGHTS)}


def opened(cases: list[Case], folder: Path) -> dict[str, dict[str, Any]]:
    """The outcome of each case, opened in a child process, which is started again where one of them ended it."""
    for number, (name, files) in enumerate(cases):
        case = folder / "cases" / f"{number:05d} {name}"
        case.mkdir(parents=True)
        for file, content in files.items():
            (case / file).write_bytes(content)
    (folder / "payload.py").write_text("import os\nos.mkdir('ran')\n")
    results: dict[str, dict[str, Any]] = {}
    while len(results) < len(cases):
        child = run(WORK, str(folder / "cases"), *results, cwd=folder)
        for line in child.stdout.splitlines():
            entry = json.loads(line)
            ended = {
                "outcome": f"ended the process: {child.returncode} {child.stderr[-500:]}",
                "peak": 0,
                "seconds": 0,
            }
            results[entry["case"]] = ended if "begun" in entry else entry
        assert child.stdout, child.stderr
    shutil.rmtree(folder / "cases")
    return results


def check(results: dict[str, dict[str, Any]], folder: Path) -> None:
    assert not (folder / "ran").exists(), "code in a file ran"
    bad = {
        case: found
        for case, found in results.items()
        if not found["outcome"].startswith(("opened", "refused: ")) or found["seconds"] > 20
    }
    assert not bad, json.dumps(bad, indent=1)[:20_000]
    first_above = next((case for case, found in results.items() if found["peak"] > GIGABYTE), None)
    assert first_above is None, f"above 1 GB since {first_above}"


def test_a_small_campaign(agents: tuple[Files, Files], tmp_path: Path) -> None:
    """The first two are the pristine agents, which open. There are two mutants of each kind."""
    random = mutants(agents, seed=0)
    pristine: list[Case] = [("zip", agents[0]), ("own", agents[1])]
    cases = [*pristine, *bombs(agents, everywhere=False), *(next(random) for _ in range(13 * 2))]
    assert len(cases) >= 90
    results = opened(cases, tmp_path)
    assert [found["outcome"] for found in results.values()][:2] == ["opened", "opened"]
    check(results, tmp_path)


@pytest.mark.attack
def test_every_bomb_in_every_place(agents: tuple[Files, Files], tmp_path: Path) -> None:
    cases = list(bombs(agents))
    assert len(cases) == 131
    check(opened(cases, tmp_path), tmp_path)


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_a_long_campaign(agents: tuple[Files, Files], tmp_path: Path) -> None:
    random = mutants(agents, seed=1)
    outcomes: Counter[str] = Counter()
    for batch in range(10):
        folder = tmp_path / str(batch)
        results = opened([next(random) for _ in range(500)], folder)
        check(results, folder)
        outcomes.update(found["outcome"].partition(":")[0] for found in results.values())
    print(dict(outcomes))
