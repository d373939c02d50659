"""`imitate export`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import tyro

from imitate import hub
from imitate.commands.line import CommandLine
from imitate.commands.options import run
from imitate.errors import InputError
from imitate.files import atomic_folder

__all__ = ["export"]

_NAMES = {
    "onnx": "policy.onnx",
    "torch": "policy.pt2",
    "torchscript": "policy.pt",
    "sb3": "policy.zip",
    "safetensors": "exported",
    "hub": "hub",
}
"""The file that is written in the run's folder, unless --out names another place."""
_OF_HUB = ("--push", "--private", "--no-private", "--license", "--episodes", "--film", "--no-film", "--env")
"""Options that only a folder for the hub uses."""


def export(argv: list[str]) -> int:
    def command(
        run_folder: tyro.conf.Positional[Path],
        /,
        to: Literal["onnx", "torch", "torchscript", "sb3", "safetensors", "hub"] = "onnx",
        out: Path | None = None,
        push: str | None = None,
        private: bool = False,
        license: str | None = None,
        episodes: int = 20,
        film: bool = True,
        env: str | None = None,
    ) -> int:
        """Write a run's policy for use elsewhere, and check on random observations that it acts the same.

        Args:
            run_folder: a folder of `imitate train`, of a policy, or hub:ORG/REPO
            to: onnx, torch (torch.export) and torchscript take raw observations and give the environment's actions;
                sb3 is a zip for PPO.load or SAC.load; safetensors is a folder with weights and a description, which
                `load_policy` reads; hub is a folder for the Hugging Face hub, with a card, the film and an SB3 zip
            out: the file to write, for safetensors and hub the folder; by default in the run's folder
            push: for hub: ORG/REPO to push the folder to; the token is that of `hf auth login`, or HF_TOKEN
            private: for hub: make the repository private, if it is new
            license: for hub: the licence on the card, such as mit
            episodes: for hub: episodes to measure the return on the card
            film: for hub: film the first of them
            env: for hub: module:Env-v0 of the run, to allow the import of its module
        """
        if out is None and run_folder.as_posix().startswith(hub.PREFIX):
            raise InputError(f"{run_folder} is on the hub: say with --out where the export goes")
        path = out or run_folder / _NAMES[to]
        suffix = Path(_NAMES[to]).suffix
        if path.suffix != suffix and suffix:
            raise InputError(f"an export to {to} ends in {suffix}, got {path}")
        if path.exists():
            raise InputError(f"{path} exists: move it, or give another --out")
        if to == "hub":
            if private and push is None:
                raise InputError("--private is for --push: add it, or leave --private out")
            return _hub(run_folder, path, push, private, license, episodes, film, env)
        if unused := [option.name for option in CommandLine(argv).options if option.name in _OF_HUB]:
            raise InputError(f"only --to hub takes {' and '.join(unused)}: leave that out with --to {to}")
        print(*_written(run_folder, to, path), sep="\n")
        return 0

    return run(command, argv, "export")


def _written(run_folder: Path, to: str, path: Path) -> list[Path]:
    from imitate.nn.stored_policy import load_policy, save_policy  # torch takes a second

    policy = load_policy(run_folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    if to == "sb3":
        from imitate.export.sb3_zip import class_of, to_sb3

        beside = to_sb3(policy, path)
        normalised = f", with observations that {beside.name} normalises" if beside is not None else ""
        print(f"imitate: {class_of(policy)}.load opens it{normalised}", file=sys.stderr)
        return [path] if beside is None else [path, beside]
    if to == "safetensors":
        with atomic_folder(path) as folder:
            save_policy(folder, policy)
        return [path]
    from imitate.export import graphs

    write = {"onnx": graphs.to_onnx, "torch": graphs.to_torch, "torchscript": graphs.to_torchscript}[to]
    write(policy, path)
    return [path]


def _hub(
    run_folder: Path,
    path: Path,
    repo: str | None,
    private: bool,
    license: str | None,
    episodes: int,
    film: bool,
    env: str | None,
) -> int:
    from imitate.export.hub_folder import hub_folder

    if repo is not None:
        hub.check_push(repo)  # before episodes are played
    repo_id = repo or "ORG/REPO"
    hub_folder(run_folder, path, repo=repo_id, episodes=episodes, film=film, license=license, env_id=env)
    print(path, flush=True)
    if repo is None:
        return 0
    files = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    try:
        pushed = hub.push(repo, files, private=private)
    except InputError as error:
        raise InputError(f"{error}; {path} is complete: `hf upload {repo} {path}` sends it later") from error
    print(f"hub:{pushed}")
    return 0
