"""The Hugging Face hub: finding a repository, fetching its files, and pushing files to it as one commit."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from tqdm import tqdm

from imitate.errors import InputError, one_line
from imitate.files import Count, read_json, write_json

__all__ = [
    "PREFIX",
    "Kind",
    "Repository",
    "check_push",
    "fetch",
    "find",
    "is_policy",
    "policy_folder",
    "push",
]

logger = logging.getLogger(__name__)

PREFIX = "hub:"
Kind = Literal["model", "dataset"]
_LARGEST_POLICY = 256 << 20  # bytes of all its files
_POLICY = ("policy/policy.json", "policy/policy.safetensors")
_RUN = ("config.json", "evaluation.json", "finished.json", *_POLICY)
"""Files of a run that `imitate export --to hub` writes and that loading it needs."""
_NOTE = "imitate/{}.json"
"""In the folder of a repository in the hub's cache: what was fetched of a revision."""


@dataclass(frozen=True)
class Repository:
    """A repository at one commit.

    name    ORG/REPO@revision, as it was asked for
    sizes   bytes of its files by name; None if the hub doesn't say
    card    the metadata on its card, or None
    """

    name: str
    repo: str
    kind: Kind
    sha: str
    sizes: Mapping[str, int | None]
    card: Any


class _NoBar(tqdm):  # type: ignore[type-arg]  # its stubs alone have an argument
    """No bar that counts files; each file that is downloaded has its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "disable": True})


def find(name: str, kind: Kind = "model") -> Repository:
    """The repository `ORG/REPO[@revision]`. HF_ENDPOINT names another hub; it is read on every call.

    If the hub can't be reached, the repository is what `fetch` has last brought of it, without a card.

    Raises InputError if that is nothing, or the hub has no such repository or revision.
    """
    from huggingface_hub import HfApi

    repo, _, revision = name.partition("@")
    with _fetching(name):
        try:
            info = HfApi(endpoint=_endpoint()).repo_info(
                repo, revision=revision or None, repo_type=kind, files_metadata=True
            )
        except Exception as error:
            cached = _cached(name, kind) if _unreachable(error) else None
            if cached is None:
                raise
            logger.warning("%s of hub:%s is taken from the cache: %s", cached.sha, name, _reason(error))
            return cached
        sizes = {file.rfilename: file.size for file in info.siblings or []}
        return Repository(name, repo, kind, str(info.sha), sizes, info.card_data)


def fetch(found: Repository, files: Collection[str], limit: int) -> Path:
    """The folder of the hub's cache with these files of the repository, which are downloaded if they are missing.

    Raises InputError if they have more than `limit` bytes together, or one has no size, or they can't be fetched.
    """
    from huggingface_hub import snapshot_download

    cached = _cached(found.name, found.kind)
    if cached is not None and cached.sha == found.sha and set(files) <= set(cached.sizes):
        _sizes(cached, files, limit)
        return _cache_of(found.name, found.kind) / "snapshots" / found.sha
    sizes = _sizes(found, files, limit)
    with _fetching(found.name):
        folder = snapshot_download(
            found.repo,
            repo_type=found.kind,
            revision=found.sha,
            endpoint=_endpoint(),
            allow_patterns=[glob.escape(file) for file in files],
            tqdm_class=_NoBar,  # type: ignore[arg-type]
        )
    missing = [file for file in files if not (Path(folder) / file).is_file()]
    if missing:
        raise InputError(f"hub:{found.name} can't be fetched: {missing[0]} did not come; check the network")
    _note(found, sizes)
    return Path(folder)


def _sizes(found: Repository, files: Collection[str], limit: int) -> dict[str, int]:
    """Bytes of these files. Raises InputError if they have more than `limit` bytes together, or one has no size."""
    sizes = {}
    for file in files:
        size = found.sizes[file]
        if size is None:
            raise InputError(
                f"hub:{found.name} is not fetched: the hub doesn't name the size of {file}: wanted sizes of "
                f"at most {limit} bytes together; download the files yourself and give their path"
            )
        sizes[file] = size
    if (total := sum(sizes.values())) > limit:
        raise InputError(
            f"hub:{found.name} has {total} bytes in {len(files)} files, over the limit of {limit}"
        )
    return sizes


@dataclass(frozen=True)
class _Fetched:
    """A note of `fetch`: the hub, the commit, and the bytes of the files, all of which have come."""

    endpoint: str
    commit: str
    sizes: dict[str, Count]


def _note(found: Repository, sizes: dict[str, int]) -> None:
    """Note what was fetched, with what was noted of the same commit before."""
    before = _noted(found.name, found.kind)
    if before is not None and before.commit == found.sha:
        sizes = before.sizes | sizes
    path = _cache_of(found.name, found.kind) / _NOTE.format(_revision(found.name))
    with suppress(OSError):  # a cache that others filled may be read-only
        write_json(path, asdict(_Fetched(_place(), found.sha, sizes)))


def _noted(name: str, kind: Kind) -> _Fetched | None:
    path = _cache_of(name, kind) / _NOTE.format(_revision(name))
    try:
        noted = read_json(path, _Fetched) if path.is_file() else None
    except InputError:  # damaged
        return None
    return noted if noted is not None and _without_password(noted.endpoint) == _place() else None


def _cached(name: str, kind: Kind) -> Repository | None:
    """`ORG/REPO[@revision]` as `fetch` last brought it from this hub; None if it did not, or if files are gone."""
    noted = _noted(name, kind)
    if noted is None:
        return None
    folder = _cache_of(name, kind) / "snapshots" / noted.commit
    if not all((folder / file).is_file() for file in noted.sizes):
        return None
    return Repository(name, name.partition("@")[0], kind, noted.commit, noted.sizes, None)


def _cache_of(name: str, kind: Kind) -> Path:
    """The folder of a repository in the hub's cache."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    return Path(HF_HUB_CACHE) / repo_folder_name(repo_id=name.partition("@")[0], repo_type=kind)


def _revision(name: str) -> str:
    return quote(name.partition("@")[2] or "main", safe="")


def is_policy(found: Repository) -> bool:
    """True if the repository holds a policy of ours, as `imitate export --to hub` writes it."""
    return set(_POLICY) <= set(found.sizes)


def policy_folder(found: Repository) -> Path:
    """The folder of such a policy, laid out as a run's. Raises InputError if the repository holds none."""
    if not is_policy(found):
        raise InputError(f"hub:{found.name} holds no policy of imitate: it lacks {' or '.join(_POLICY)}")
    return fetch(found, [file for file in _RUN if file in found.sizes], _LARGEST_POLICY)


def check_push(repo: str) -> None:
    """Raise InputError, without the network, if `repo` is no ORG/REPO or there is no token with which to push."""
    from huggingface_hub import get_token
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # not in an __all__

    try:
        validate_repo_id(repo)
        sound = repo.isascii() and repo.count("/") == 1
    except ValueError:
        sound = False
    if not sound:
        raise InputError(
            f"{repo!r} is no name on the hub: wanted ORG/REPO of letters, digits, '-', '_' and '.', at most 96 "
            "characters, such as me/hopper-demos"
        )
    if get_token() is None:
        raise InputError(
            f"{repo} was not pushed: no token for the hub; `hf auth login` stores one, or set HF_TOKEN"
        )


def push(
    repo: str,
    files: Mapping[str, Path | bytes],
    kind: Kind = "model",
    *,
    private: bool = False,
    replaced: tuple[str, ...] = (),
) -> str:
    """Commit the files, by their names in the repository, which is made if it is missing; returns ORG/REPO@commit.

    private    for a repository that is made; one that exists stays as it is
    replaced   suffixes: other files there whose names end so are removed by the same commit

    Raises InputError if there is no token, or the hub can't be reached or refuses. Then the repository has its old
    files.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    check_push(repo)
    api = HfApi(endpoint=_endpoint())
    try:
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        there = api.list_repo_files(repo, repo_type=kind) if replaced else []
        old = [file for file in there if file.endswith(replaced) and file not in files]
        changes: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationDelete(file) for file in old
        ]
        changes += [CommitOperationAdd(file, content) for file, content in files.items()]
        commit = api.create_commit(repo, changes, commit_message="Upload by imitate", repo_type=kind)
    except Exception as error:  # the hub's own errors, or its HTTP client's
        raise InputError(f"{repo} was not pushed: {_reason(error)}") from error
    return f"{repo}@{commit.oid}"


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "the hub does not accept the token (401); `hf auth login` stores another, or set HF_TOKEN"
    if status == 403:
        return "the token may not write there (403): check the name, or use a token with write access"
    if _unreachable(error):
        return _unreached(error)
    return f"{_said(error)[:200]}; check the name and the network"


def _unreached(error: Exception) -> str:
    said = f" ({_said(error)[:160]})" if "SSL" in type(error).__name__ else ""
    return f"{_place() or 'the hub'} can't be reached{said}; check the network"


def _unreachable(error: Exception) -> bool:
    """True if no connection was made or it was lost, also if the hub's package reports that as a file that is missing.

    HTTP clients have errors of their own, some of which show only by their bases that they are of this kind.
    """
    kinds = [*type(error).__mro__, *type(error.__cause__).__mro__]
    return any(re.search("Connect|Timeout|Offline|Proxy", kind.__name__) for kind in kinds)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT")


def _place() -> str:
    """HF_ENDPOINT as it may be shown and stored; empty if it isn't set."""
    return _without_password(_endpoint() or "")


def _said(error: Exception) -> str:
    return one_line(_without_password(str(error)))


def _without_password(text: str) -> str:
    """The text without the `user:password@` of the addresses in it."""
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)


@contextmanager
def _fetching(name: str) -> Iterator[None]:
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        yield
    except RepositoryNotFoundError as error:
        raise InputError(
            f"hub:{name} can't be fetched: the hub shows no such repository, or it is private: check the name; "
            "`hf auth login` stores a token, or set HF_TOKEN"
        ) from error
    except Exception as error:  # the hub's own errors, or its HTTP client's
        reason = _unreached(error) if _unreachable(error) else f"{_said(error)[:160]}; check the name"
        raise InputError(f"hub:{name} can't be fetched: {reason}") from error
