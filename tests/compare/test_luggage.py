"""Files that travel with a task: a machine that has nothing else finds the experts and the modules."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import run as run_script

from imitate.cli import main
from imitate.compare.backends.luggage import Luggage
from imitate.experts import load_expert

WALKER = "zoo:ppo/BipedalWalker-v3"  # which has statistics to normalise by


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitate.experts.load.carried", {})


def travel(luggage: Luggage, to: Path) -> None:
    for name, path in luggage.pack().items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to / name)
    luggage.unpack(to)


def test_an_expert_of_the_zoo(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(zoo))
    here = load_expert(WALKER)
    luggage = Luggage(WALKER, (here.env_id,))
    packed = luggage.pack()
    assert "expert/BipedalWalker-v3.zip" in packed
    travel(luggage, tmp_path)
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path / "nowhere"))
    there = load_expert(WALKER)
    assert (there.source, there.sha256) == (here.source, here.sha256)
    assert there.normalisation_sha256 == here.normalisation_sha256 != ""
    obs = np.random.default_rng(0).normal(size=(5, 24)).astype(np.float32)
    np.testing.assert_array_equal(here.act(obs), there.act(obs))


def test_an_own_zip_with_statistics_that_were_asked_for(zoo: Path, tmp_path: Path) -> None:
    folder = next(zoo.glob("ppo/BipedalWalker-v3_*"))
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copyfile(folder / "BipedalWalker-v3.zip", mine / "agent.zip")
    shutil.copyfile(next(folder.rglob("vecnormalize.pkl")), mine / "statistics.pkl")
    spec, statistics = str(mine / "agent.zip"), str(mine / "statistics.pkl")
    here = load_expert(spec, env_id="BipedalWalker-v3", vecnormalize=statistics)
    travel(Luggage(spec, (), statistics), tmp_path / "there")
    shutil.rmtree(mine)
    there = load_expert(spec, env_id="BipedalWalker-v3", vecnormalize=statistics)
    assert (there.source, there.sha256) == (here.source, here.sha256)
    assert there.normalisation_sha256 == here.normalisation_sha256 != ""


def test_a_run_and_a_bundled_expert(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["train", "ppo", "--env", "CartPole-v1", "--budget", "300", "--out", str(run)]) == 0
    here = load_expert(run)
    packed = Luggage(str(run)).pack()
    assert sorted(packed) == [
        "expert/config.json", "expert/policy/policy.json", "expert/policy/policy.safetensors",
    ]  # fmt: skip
    travel(Luggage(str(run)), tmp_path / "there")
    shutil.rmtree(run)
    assert load_expert(run).sha256 == here.sha256
    assert Luggage("CartPole-v1:ppo", ("CartPole-v1", "gail:random", "sb3:ppo")).pack() == {}


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, in another folder, imports the module that this one has found in the current folder."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "travelling_expert.py").write_text(
        "def make_expert():\n    return lambda obs: obs[:, 0] > 0\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    from imitate.envs.trust import trust

    trust("travelling_expert:make_expert")
    load_expert("travelling_expert:make_expert", env_id="CartPole-v1")
    luggage = Luggage("travelling_expert:make_expert", ("CartPole-v1",))
    travel(luggage, tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").rglob("*.py")] == ["travelling_expert.py"]
    monkeypatch.delitem(sys.modules, "travelling_expert")
    script = (
        "import sys; from pathlib import Path; from imitate.compare.backends.luggage import Luggage;"
        f"luggage = {luggage!r}; luggage.unpack(Path(sys.argv[1]));"
        "from imitate.envs.trust import trust; trust(luggage.expert);"
        "from imitate.experts import load_expert; load_expert(luggage.expert, env_id='CartPole-v1')"
    )
    done = run_script(script, str(tmp_path / "there"), cwd="/")
    assert done.returncode == 0, done.stderr
