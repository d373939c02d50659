"""Experts from a hub on 127.0.0.1."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.expert import Expert

CARTPOLE = "CartPole-v1"
SHA = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    """As much of huggingface.co as `hub:` asks for."""

    files: dict[str, bytes]
    repo = "org/a2c-CartPole-v1"
    card: dict[str, Any]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.path.startswith(f"/api/models/{self.repo}"):
            known = self.path.partition("?")[0].endswith((f"/{self.repo}", f"/revision/{SHA}"))
            siblings = [{"rfilename": name} for name in self.files]
            body = {"id": self.repo, "sha": SHA, "siblings": siblings, "tags": [], "cardData": self.card}
            self._answer(json.dumps(body).encode() if known else None)
        else:
            self._answer(self.files.get(self.path.removeprefix(f"/{self.repo}/resolve/{SHA}/")))

    def _answer(self, content: bytes | None) -> None:
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header(
                "X-Error-Code", "RevisionNotFound" if "revision" in self.path else "RepoNotFound"
            )
        body = content or b""
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", SHA)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    sb3.A2C("MlpPolicy", CARTPOLE, seed=0, device="cpu").save(tmp_path / "agent.zip")
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(CARTPOLE)]))
    venv.reset()
    venv.obs_rms.mean[:] = 3.0
    venv.save(str(tmp_path / "vec_normalize.pkl"))
    _Hub.files = {
        "a2c-CartPole-v1.zip": (tmp_path / "agent.zip").read_bytes(),
        "a2c-CartPole-v1/policy.pth": b"the unzipped copy that the hub keeps, never fetched",
        "train_eval_metrics.zip": b"",
        "vec_normalize.pkl": (tmp_path / "vec_normalize.pkl").read_bytes(),
        "args.yml": b"!!python/object/apply:collections.OrderedDict\n- - - env\n    - CartPole-v1\n",
        "results.json": b'{"mean_reward": 499.5, "std_reward": 1.5, "n_eval_episodes": 10}',
    }
    monkeypatch.setattr(_Hub, "repo", "org/a2c-CartPole-v1")
    _Hub.card = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield _Hub.files
    server.shutdown()
    server.server_close()


def test_hub_experts_are_pinned_and_normalised(hub: dict[str, bytes]) -> None:
    spec = "hub:org/a2c-CartPole-v1"
    for expert in map(load_expert, (spec, f"{spec}@{SHA}", "hub:org/a2c/CartPole-v1")):
        assert isinstance(expert, Expert)
        assert (expert.env_id, expert.algorithm, expert.revision) == (CARTPOLE, "A2C", SHA)
        assert expert.sha256 == hashlib.sha256(hub["a2c-CartPole-v1.zip"]).hexdigest()
        assert (expert.published_return, expert.published_std) == (499.5, 1.5)
        assert expert.normalisation is not None
        assert expert.normalisation.mean is not None
        assert (expert.normalisation.mean == 3.0).all()


@pytest.mark.parametrize("name", ["org/a2c-CartPole-v1@nosuch", "org/nothing", "not a name", "org/two"])
def test_what_the_hub_lacks_is_refused_in_one_line(name: str, hub: dict[str, bytes]) -> None:
    if name == "org/two":
        del hub["a2c-CartPole-v1.zip"]
        hub.update({"first.zip": b"", "second.zip": b""})
        name = "org/a2c-CartPole-v1"
    with pytest.raises(InputError, match="hub:") as refusal:
        load_expert(f"hub:{name}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("file", ["cartpole-v1-a2c-medium.zip", "cartpole-v1-A2C-medium.zip"])
def test_graded_experts_of_minari(file: str, hub: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Named as farama-minari/Hopper-v5-SAC-medium is: the environment first, the file in small letters or mixed ones,
    its return on the model card."""
    monkeypatch.setattr(_Hub, "repo", "farama-minari/CartPole-v1-A2C-medium")
    agent = hub["a2c-CartPole-v1.zip"]
    hub.clear()
    hub.update({file: agent, "replay_buffer.zip": b"never fetched", "README.md": b""})
    metrics = [{"type": "mean_reward", "value": "214.53 +/- 12.75", "name": "mean_reward", "verified": False}]
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": "CartPole-v1", "type": "CartPole-v1"},
        "metrics": metrics,
    }
    _Hub.card = {"model-index": [{"name": "A2C", "results": [result]}]}
    expert = load_expert("hub:farama-minari/CartPole-v1-A2C-medium")
    assert (expert.env_id, expert.algorithm, expert.runnable) == (CARTPOLE, "A2C", True)
    assert expert.sha256 == hashlib.sha256(agent).hexdigest()
    assert (expert.published_return, expert.published_std) == (214.53, 12.75)
