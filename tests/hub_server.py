"""As much of the Hugging Face hub, on 127.0.0.1, as reading from it and pushing to it ask for."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

WRITER, READER = "hf_writer", "hf_reader"
"""Tokens: one may write, the other may not; any other is refused."""

Files = dict[str, bytes]


@dataclass
class Hub:
    """The repositories (`models/ORG/REPO`, `datasets/ORG/REPO`): the files of each commit, the last one being main."""

    commits: dict[str, dict[str, Files]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    large: dict[str, bytes] = field(default_factory=dict)
    refuses: str = ""
    """A part of a path that is answered with 503."""
    unsized: tuple[str, ...] = ()
    """Suffixes of files whose sizes are not named."""

    def put(self, repo: str, files: Files) -> str:
        """A commit with exactly these files; returns its name."""
        commits = self.commits.setdefault(repo, {})
        state = repr(
            (len(commits), sorted((name, hashlib.sha256(x).hexdigest()) for name, x in files.items()))
        )
        sha = hashlib.sha1(state.encode()).hexdigest()
        commits[sha] = dict(files)
        return sha

    def files(self, repo: str) -> Files:
        return list(self.commits[repo].values())[-1]


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/"):
            self._api(path.removeprefix("/api/"))
            return
        repo, _, rest = path.strip("/").partition("/resolve/")
        repo = repo if repo.startswith("datasets/") else f"models/{repo}"
        sha, _, name = rest.partition("/")
        content = self.hub.commits.get(repo, {}).get(sha, {}).get(name)
        if content is None:
            self._answer(404, code="EntryNotFound")
        else:
            self._answer(
                200, content, {"X-Repo-Commit": sha, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
            )

    def _api(self, path: str) -> None:
        kind, org, name, *rest = [*path.split("/"), "", ""]
        repo = f"{kind}/{org}/{name}"
        commits = self.hub.commits.get(repo, {})
        if not commits:
            self._answer(404, code="RepoNotFound")
            return
        sha = rest[1] if rest[:1] in (["revision"], ["tree"]) and rest[1] != "main" else list(commits)[-1]
        if sha not in commits:
            self._answer(404, code="RevisionNotFound")
        elif rest[0] == "tree":
            self._json(
                [
                    {"type": "file", "path": name, "size": len(x), "oid": "0"}
                    for name, x in commits[sha].items()
                ]
            )
        else:
            files = [
                {"rfilename": name, "size": None if name.endswith(self.hub.unsized) else len(x)}
                for name, x in commits[sha].items()
            ]
            card = _metadata(commits[sha].get("README.md", b"").decode())
            self._json({"id": f"{org}/{name}", "sha": sha, "siblings": files, "tags": [], "cardData": card})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.hub.refuses and self.hub.refuses in path:
            self._answer(503)
        elif token not in (WRITER, READER):
            self._answer(401)
        elif path == "/api/validate-yaml":
            _metadata(json.loads(body)["content"])
            self._json({"errors": [], "warnings": []})
        elif token == READER:
            self._answer(403)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.endswith("/info/lfs/objects/batch"):
            self._batch(json.loads(body))
        elif path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            # The hub keeps text in git, and everything else, or large, in LFS.
            modes = ["regular" if file["path"].endswith((".md", ".json")) else "lfs" for file in files]
            self._json({"files": [{"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
                                  for file, mode in zip(files, modes, strict=True)]})  # fmt: skip
        else:
            repo = path.removeprefix("/api/").removesuffix("/commit/main")
            self._commit(repo, [json.loads(line) for line in body.splitlines()])

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        assert hashlib.sha256(content).hexdigest() == Path(self.path).name
        self.hub.large[Path(self.path).name] = content
        self._answer(200)

    def _create(self, asked: dict[str, Any]) -> None:
        repo = f"{asked.get('type') or 'model'}s/{asked['organization']}/{asked['name']}"
        url = json.dumps({"url": f"{self._place}/{repo.removeprefix('models/')}"}).encode()
        if repo in self.hub.commits:
            self._answer(409, url)
            return
        self.hub.put(repo, {".gitattributes": b""})
        self.hub.private |= {repo} if asked.get("private") else set()
        self._answer(200, url)

    def _batch(self, asked: dict[str, Any]) -> None:
        def instruction(thing: dict[str, Any]) -> dict[str, Any]:
            place = {"href": f"{self._place}/lfs/{thing['oid']}"}
            return thing | ({} if thing["oid"] in self.hub.large else {"actions": {"upload": place}})

        self._json({"transfer": "basic", "objects": [instruction(thing) for thing in asked["objects"]]})

    def _commit(self, repo: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self.hub.files(repo))
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = self.hub.put(repo, files)
        self._json({"commitUrl": f"{self._place}/{repo}/commit/{sha}", "commitOid": sha, "success": True})

    @property
    def _place(self) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host}:{port}"

    def _json(self, data: Any) -> None:
        self._answer(200, json.dumps(data).encode())

    def _answer(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None, code: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in {
            "X-Error-Code": code,
            "Content-Length": str(len(content)),
            **(headers or {}),
        }.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def _metadata(card: str) -> Any:
    return yaml.safe_load(card.split("---")[1]) if card.startswith("---") else {}


@contextmanager
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub, to which HF_ENDPOINT points, with a cache of its own; nobody is logged in."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", place)
    # The package itself reads the variable once, at import.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", place)
    template = f"{place}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield hub
    server.shutdown()
    server.server_close()
