"""`--demos hub:ORG/DATASET` and `--demos minari:ID` are read without converting by hand."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from converting import same

from imitate.cli import main
from imitate.datasets.convert import convert
from imitate.datasets.convert.sources import in_our_format, source_path

SHA = "0123456789abcdef" * 2 + "01234567"
REPO = "org/demos"


class _Hub(BaseHTTPRequestHandler):
    """As much of huggingface.co as data sets ask for."""

    files: dict[str, bytes]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in (f"/api/datasets/{REPO}", f"/api/datasets/{REPO}/revision/{SHA}"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            body = json.dumps({"id": REPO, "sha": SHA, "siblings": siblings, "tags": []}).encode()
        else:
            body = self.files.get(path.removeprefix(f"/datasets/{REPO}/resolve/{SHA}/"), b"")
        self.send_response(200 if body else 404)
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
    _Hub.files = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield _Hub.files
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("format", ["lerobot", "imitation", "minari"])
def test_bc_learns_from_a_data_set_on_the_hub(format: str, hub: dict[str, bytes], tmp_path: Path) -> None:
    ours = tmp_path / "a.h5"
    assert main(["collect", "CartPole-v1", "--episodes", "2", "--out", str(ours)]) == 0
    convert(ours, tmp_path / "there", format=format)
    for file in (tmp_path / "there").rglob("*"):
        if file.is_file():
            hub[file.relative_to(tmp_path / "there").as_posix()] = file.read_bytes()
    hub["run_me.py"] = b"raise SystemExit"
    command = [
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        f"hub:{REPO}",
        "--max-epochs",
        "1",
        "--device",
        "cpu",
    ]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert not (source_path(f"hub:{REPO}") / "run_me.py").exists()
    same(ours, Path(in_our_format(f"hub:{REPO}", "CartPole-v1")))
    (copy,) = (tmp_path / "cache" / "imitate" / "demos").iterdir()  # converted once
    assert copy.suffix == ".h5"


def test_what_the_hub_lacks_is_one_line(hub: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    hub["README.md"] = b"nothing here"
    for name, said in ((REPO, "files of known kinds"), ("org/nothing", "can't be fetched")):
        command = ["train", "bc", "--env", "CartPole-v1", "--demos", f"hub:{name}", "--out", "nowhere"]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_a_minari_data_set_that_is_not_there_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    command = [
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        "minari:D4RL/door/human-v2",
        "--out",
        "nowhere",
    ]
    assert main(command) == 2
    assert "`minari download D4RL/door/human-v2` fetches it" in capsys.readouterr().err
