"""`imitate export`"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro

from imitate.commands.options import run
from imitate.errors import InputError
from imitate.files import atomic_folder

__all__ = ["export"]

_SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt", "sb3": ".zip", "safetensors": ""}


def export(argv: list[str]) -> int:
    def command(
        run_folder: tyro.conf.Positional[Path],
        /,
        to: Literal["onnx", "torchscript", "sb3", "safetensors"] = "onnx",
        out: Path | None = None,
    ) -> int:
        """Write a run's policy for use without imitate, and check on random observations that it acts the same.

        Args:
            run_folder: of `imitate train`, or a folder with a policy
            to: onnx and torchscript take raw observations and give the environment's actions; sb3 is a zip for PPO.load
                or SAC.load; safetensors is a folder with weights and a description, as `load_policy` reads it
            out: the file to write, for safetensors the folder; by default in the run's folder
        """
        suffix = _SUFFIXES[to]
        path = out or run_folder / (f"policy{suffix}" if suffix else "exported")
        if path.suffix != suffix and suffix:
            raise InputError(f"an export to {to} ends in {suffix}, got {path}")
        if path.exists():
            raise InputError(f"{path} exists: move it, or give another --out")
        from imitate.nn.stored_policy import load_policy, save_policy  # torch takes a second

        policy = load_policy(run_folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = [path]
        if to == "sb3":
            from imitate.export.sb3_zip import to_sb3

            beside = to_sb3(policy, path)
            written += [] if beside is None else [beside]
        elif to == "safetensors":
            with atomic_folder(path) as folder:
                save_policy(folder, policy)
        else:
            from imitate.export import graphs

            (graphs.to_onnx if to == "onnx" else graphs.to_torchscript)(policy, path)
        print(*written, sep="\n")
        return 0

    return run(command, argv, "export")
