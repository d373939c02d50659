"""Experts from a hub on 127.0.0.1."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
import stable_baselines3 as sb3
from hub_server import WRITER, Files, Hub, serving
from huggingface_hub import hf_hub_download
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.expert import Expert
from imitate.experts.find import _results_on_card
from imitate.hub import fetch, find, push

CARTPOLE = "CartPole-v1"
AGENT = "models/org/a2c-CartPole-v1"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path, monkeypatch) as hub:
        yield hub


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """An agent's files, as the hub has them."""
    sb3.A2C("MlpPolicy", CARTPOLE, seed=0, device="cpu").save(tmp_path / "agent.zip")
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(CARTPOLE)]))
    venv.reset()
    venv.obs_rms.mean[:] = 3.0
    venv.save(str(tmp_path / "vec_normalize.pkl"))
    return {
        "a2c-CartPole-v1.zip": (tmp_path / "agent.zip").read_bytes(),
        "a2c-CartPole-v1/policy.pth": b"the unzipped copy that the hub keeps, never fetched",
        "train_eval_metrics.zip": b"",
        "vec_normalize.pkl": (tmp_path / "vec_normalize.pkl").read_bytes(),
        "args.yml": b"!!python/object/apply:collections.OrderedDict\n- - - env\n    - CartPole-v1\n",
        "results.json": b'{"mean_reward": 499.5, "std_reward": 1.5, "n_eval_episodes": 10}',
    }


def test_hub_experts_are_pinned_and_normalised(hub: Hub, files: Files) -> None:
    spec, sha = "hub:org/a2c-CartPole-v1", hub.put(AGENT, files)
    for expert in map(load_expert, (spec, f"{spec}@{sha}", "hub:org/a2c/CartPole-v1")):
        assert isinstance(expert, Expert)
        assert (expert.env_id, expert.algorithm, expert.revision) == (CARTPOLE, "A2C", sha)
        assert expert.sha256 == hashlib.sha256(files["a2c-CartPole-v1.zip"]).hexdigest()
        assert (expert.published_return, expert.published_std) == (499.5, 1.5)
        assert expert.normalisation is not None
        assert expert.normalisation.mean is not None
        assert (expert.normalisation.mean == 3.0).all()


@pytest.mark.parametrize("name", ["org/a2c-CartPole-v1@nosuch", "org/nothing", "not a name", "org/two"])
def test_what_the_hub_lacks_is_refused_in_one_line(name: str, hub: Hub, files: Files) -> None:
    hub.put(AGENT, files)
    hub.put("models/org/two", {"first.zip": b"", "second.zip": b""})
    with pytest.raises(InputError, match="hub:") as refusal:
        load_expert(f"hub:{name}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("figures", "wanted"),
    [
        ("214.53+/-12.75", {"mean_reward": 214.53, "std_reward": 12.75}),
        ("-3 +/- 0.5", {"mean_reward": -3.0, "std_reward": 0.5}),
        ("1,234,567.5 +/- 1,012.75", {"mean_reward": 1234567.5, "std_reward": 1012.75}),
        ("1e999 +/- 2", {}),
    ],
)
def test_returns_on_a_card(figures: str, wanted: dict[str, float]) -> None:
    result = SimpleNamespace(metric_type="mean_reward", metric_value=figures)
    assert _results_on_card(SimpleNamespace(eval_results=[result])) == wanted


@pytest.mark.parametrize("file", ["cartpole-v1-a2c-medium.zip", "cartpole-v1-A2C-medium.zip"])
def test_graded_experts_of_minari(file: str, hub: Hub, files: Files) -> None:
    """Named as farama-minari/Hopper-v5-SAC-medium is: the environment first, the file in small letters or mixed ones,
    its return on the model card."""
    agent = files["a2c-CartPole-v1.zip"]
    metrics = [{"type": "mean_reward", "value": "214.53 +/- 12.75", "name": "mean_reward", "verified": False}]
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": "CartPole-v1", "type": "CartPole-v1"},
        "metrics": metrics,
    }
    card = json.dumps({"model-index": [{"name": "A2C", "results": [result]}]})
    files = {file: agent, "replay_buffer.zip": b"never fetched", "README.md": f"---\n{card}\n---\n".encode()}
    hub.put("models/farama-minari/CartPole-v1-A2C-medium", files)
    expert = load_expert("hub:farama-minari/CartPole-v1-A2C-medium")
    assert (expert.env_id, expert.algorithm, expert.runnable) == (CARTPOLE, "A2C", True)
    assert expert.sha256 == hashlib.sha256(agent).hexdigest()
    assert (expert.published_return, expert.published_std) == (214.53, 12.75)


def test_a_file_without_a_size_is_not_downloaded(hub: Hub, files: Files) -> None:
    """It could be of any size; files that are not wanted may lack theirs."""
    hub.put(AGENT, files)
    hub.unsized = (".pkl",)
    with pytest.raises(
        InputError, match=r"doesn't name the size of vec_normalize\.pkl: wanted sizes of at most \d+ bytes"
    ):
        load_expert("hub:org/a2c-CartPole-v1")
    hub.unsized = (".pth",)
    load_expert("hub:org/a2c-CartPole-v1")
    hub.unsized = (".pkl",)
    load_expert("hub:org/a2c-CartPole-v1")  # it is here already


def test_a_certificate_that_is_not_trusted_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", unverified)
    with pytest.raises(
        InputError, match=r"can't be reached \(certificate verify failed\); check the network$"
    ):
        load_expert("hub:org/a2c-CartPole-v1")


class ProxyError(Exception):
    """As the hub's HTTP client raises it behind the dead proxy of a computing node."""


class SSLError(ConnectionError):
    """As `requests` has it: one of its connection errors, by another name."""


def unreachable(*_: object, **__: object) -> None:
    raise ProxyError("no route")


def unverified(*_: object, **__: object) -> None:
    raise SSLError("certificate verify failed")


def test_an_agent_of_which_others_fetched_a_part_is_not_loaded_without_a_network(
    hub: Hub, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `huggingface_sb3.load_from_hub` does, which leaves its normalisation behind."""
    sha = hub.put(AGENT, files)
    archive = next(name for name in files if name.endswith(".zip"))
    path = hf_hub_download("org/a2c-CartPole-v1", archive, revision=sha, endpoint=os.environ["HF_ENDPOINT"])
    refs = Path(path).parents[2] / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(sha)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", unreachable)
    with pytest.raises(InputError, match=r"can't be fetched: http.* can't be reached; check the network$"):
        load_expert("hub:org/a2c-CartPole-v1")


def test_files_that_did_not_come_are_named(
    hub: Hub, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """snapshot_download returns what it has if the network fails on the way."""
    hub.put(AGENT, files)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path))
    with pytest.raises(InputError, match="did not come; check the network"):
        load_expert("hub:org/a2c-CartPole-v1")


def test_a_network_that_fails_after_the_hub_was_asked_is_named(
    hub: Hub, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's package then says that it found no local copy."""
    hub.put(AGENT, files)
    found = find("org/a2c-CartPole-v1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9 can't be reached; check the network$"):
        fetch(found, ["vec_normalize.pkl"], limit=1 << 20)


@pytest.mark.parametrize("fails", [unreachable, unverified])
def test_what_was_fetched_once_needs_no_network(
    fails: Callable[..., None],
    hub: Hub,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec, sha = "hub:org/a2c-CartPole-v1", hub.put(AGENT, files)
    hub.put("models/org/never-asked-for", files)
    known = load_expert(spec)
    with monkeypatch.context() as offline:
        offline.setattr("huggingface_hub.HfApi.repo_info", fails)
        expert = load_expert(spec)
        assert f"{sha} of {spec} is taken from the cache" in caplog.text
        assert isinstance(expert, Expert)
        assert isinstance(known, Expert)
        assert (expert.revision, expert.sha256, expert.env_id) == (sha, known.sha256, known.env_id)
        assert expert.normalisation is not None
        for name in ("org/never-asked-for", "org/a2c-CartPole-v1@another"):
            with pytest.raises(InputError, match="can't be fetched"):
                load_expert(f"hub:{name}")
        offline.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(InputError, match="can't be fetched"):  # of another hub nothing has been fetched
            load_expert(spec)
    newer = hub.put(AGENT, files | {"README.md": b"newer"})
    assert load_expert(spec).revision == newer


def test_a_repository_that_is_not_shown_may_be_private(hub: Hub) -> None:
    hub.put(AGENT, {"README.md": b""})
    with pytest.raises(InputError, match=r"no such repository, or it is private: .*HF_TOKEN.*"):
        load_expert("hub:org/nothing")


def test_a_password_in_the_hubs_address_is_neither_shown_nor_stored(
    hub: Hub, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.put(AGENT, files)
    monkeypatch.setenv("HF_ENDPOINT", os.environ["HF_ENDPOINT"].replace("//", "//someone:secret@"))
    load_expert("hub:org/a2c-CartPole-v1")
    notes = [note.read_text("utf-8") for note in (tmp_path / "hub").rglob("imitate/*.json")]
    assert len(notes) == 1
    assert "secret" not in notes[0]
    with pytest.raises(InputError, match=r"404 .* http://127"):
        load_expert("hub:org/a2c-CartPole-v1@nosuch")
    monkeypatch.setenv("HF_TOKEN", WRITER)
    hub.refuses = "create"
    with pytest.raises(InputError, match=r"503 .* http://127"):
        push("org/mine", {"README.md": b""})
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", unreachable)
    with pytest.raises(InputError, match=r"http://127.* can't be reached"):
        load_expert("hub:org/never-asked-for")
