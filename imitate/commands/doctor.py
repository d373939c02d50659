"""`imitate doctor`"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Literal

from imitate.commands.options import command, print_json
from imitate.compare.machine import processors
from imitate.errors import InputError, one_line, pip_install
from imitate.files import cache_folder, home

__all__ = ["doctor"]

_MODULES = {"opencv-python-headless": "cv2", "pyyaml": "yaml"}
"""Modules of packages that have another name."""
_REINSTALL = "pip install --force-reinstall -c constraints.txt -e ."


class _Missing(Exception):
    """Something optional is not here: what that means, and the command that brings it."""


@dataclass(frozen=True)
class Finding:
    """State of one thing; `remedy` is the command that brings what is missing or mends what is broken."""

    name: str
    state: Literal["ok", "missing", "broken"]
    text: str
    remedy: str = ""


@command
def doctor(json: bool = False) -> int:
    """Say what works here, what is missing, and which command brings it. The status is 1 if something required is
    broken or missing. Commands of pip are for the folder of the clone.
    """
    findings = [_looked(name, probe) for name, probe in PROBES.items()]
    print_json([asdict(each) for each in findings]) if json else _print_table(findings)
    return int(any(each.state != "ok" and each.name in REQUIRED for each in findings))


def _looked(name: str, probe: Callable[[], str]) -> Finding:
    """The finding of one probe, whatever it raises."""
    remedy = REMEDIES.get(name, _REINSTALL if name in REQUIRED else "")
    try:
        return Finding(name, "ok", probe())
    except _Missing as error:
        return Finding(name, "missing", *map(str, error.args))
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", remedy)
    except Exception as error:  # a foreign package may raise anything
        return Finding(name, "broken", f"{type(error).__name__}: {one_line(error)}", remedy)


def _print_table(findings: list[Finding]) -> None:
    width = max(len(each.name) for each in findings)
    for each in findings:
        remedy = f": {each.remedy}" if each.remedy else ""
        print(f"{each.state:<7}  {each.name:<{width}}  {each.text}{remedy}")


def _python() -> str:
    return f"{platform.python_version()}, {platform.system()}, {platform.machine()}"


def _dependencies() -> str:
    from packaging.requirements import Requirement

    asked = [Requirement(each) for each in metadata.requires("imitate-rl") or ()]
    asked = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    found, wrong = [], []
    for each in asked:
        try:
            version = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            version = "none"
        found.append(f"{each.name} {version}")
        if version == "none" or not each.specifier.contains(version, prereleases=True):
            wrong.append(f"{each.name}{each.specifier} (here: {version})")
        elif error := _import_error(_MODULES.get(each.name, each.name.replace("-", "_"))):
            wrong.append(f"a working {each.name} (here: {error})")
    if wrong:
        raise RuntimeError(f"wanted {', '.join(wrong)}")
    return f"imitate-rl {metadata.version('imitate-rl')}, which supports {', '.join(found)}"


def _import_error(module: str) -> str:
    """The error that the import of a module ends with, or ""."""
    try:
        # PyBullet prints when it was built, and OpenCV that it lacks NumPy.
        with _silent(), redirect_stdout(StringIO()):
            import_module(module)
    except Exception as error:  # a foreign package may raise anything
        return f"{type(error).__name__}: {one_line(error)}"
    return ""


def _torch() -> str:
    import torch

    torch.ones(2).sum().item()
    return f"{torch.__version__}, {torch.get_num_threads()} threads (imitate sets 1)"


def _gpu() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count()))
    if shutil.which("nvidia-smi"):
        raise _Missing(
            f"a GPU is here, but torch {torch.__version__} does not see it",
            "pip install --force-reinstall torch",
        )
    raise _Missing("none; networks run on the CPU")


def _gymnasium() -> str:
    import gymnasium as gym

    with closing(gym.make("CartPole-v1")) as env:
        env.reset(seed=0)
        env.step(env.action_space.sample())
    return gym.__version__


def _ale() -> str:
    import ale_py
    from ale_py import roms

    if not roms.get_rom_path("pong"):
        raise RuntimeError("it has no ROMs")
    return f"{ale_py.__version__}, with {len(roms.get_all_rom_ids())} games"


def _pybullet() -> str:
    with _silent():  # on import it prints when it was built
        import pybullet

        pybullet.disconnect(pybullet.connect(pybullet.DIRECT))
    return metadata.version("pybullet")


def _version(distribution: str, module: str = "") -> Callable[[], str]:
    """A probe that asks for the version alone, since the import takes long."""

    def probe() -> str:
        version = metadata.version(distribution)
        if find_spec(module or distribution) is None:
            raise ModuleNotFoundError(f"no module {module or distribution}")
        return version

    return probe


def _mujoco() -> str:
    version = metadata.version("mujoco")
    import mujoco

    mujoco.MjModel.from_xml_string("<mujoco/>")
    return version


def _processors() -> str:
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    return f"{processors()} for this process, of {os.cpu_count()}; OMP_NUM_THREADS {threads}"


def _display() -> str:
    if sys.platform != "linux":
        return "the system's"
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        if shown := os.environ.get(name):
            return f"{name}={shown}"
    raise _Missing("none; only recording a person and `evaluate --render` need one")


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    if found := next(filter(None, map(shutil.which, names)), None):
        return found
    raise _Missing("none; only tests of the reports' pages need one", "apt-get install chromium")


def _ffmpeg() -> str:
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def _zoo() -> str:
    from imitate.experts.sources import zoo_entries, zoo_folders

    folders, entries = zoo_folders(), zoo_entries()
    if not entries:
        where = f"{', '.join(map(str, folders))} holds no agent" if folders else "IMITATE_ZOO_DIR is not set"
        raise _Missing(
            where,
            "git clone https://github.com/DLR-RM/rl-trained-agents zoo && export IMITATE_ZOO_DIR=$PWD/zoo",
        )
    return f"{len(entries)} experts in {', '.join(map(str, folders))}"


def _caches() -> str:
    remedy = "export XDG_CACHE_HOME=FOLDER"
    try:
        own = cache_folder("measured")
        hub = Path(os.environ.get("HF_HOME") or home() / ".cache" / "huggingface")
        own.mkdir(parents=True, exist_ok=True)
    except (InputError, OSError) as error:
        raise _Missing(f"nothing is remembered: {one_line(error)}", remedy) from error
    if not os.access(own, os.W_OK):
        raise _Missing(f"nothing is remembered: {own} can't be written to", remedy)
    return (
        f"{own} ({len(list(own.iterdir()))} measurements), {hub}{'' if hub.exists() else ' (not there yet)'}"
    )


@contextmanager
def _silent() -> Iterator[None]:
    """Send what C code prints as messages to the null device."""
    sys.stderr.flush()
    before, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(null)


PROBES: dict[str, Callable[[], str]] = {
    "Python": _python,
    "imitate": _dependencies,
    "torch": _torch,
    "GPU": _gpu,
    "processors": _processors,
    "Gymnasium": _gymnasium,
    "ALE": _ale,
    "PyBullet": _pybullet,
    "PyBullet's robots": _version("pybullet-envs-gymnasium", "pybullet_envs_gymnasium"),
    "EnvPool": _version("envpool"),
    "MuJoCo": _mujoco,
    "Gymnasium-Robotics": _version("gymnasium-robotics", "gymnasium_robotics"),
    "Ray": _version("ray"),
    "ONNX": _version("onnxruntime"),
    "pyarrow": _version("pyarrow"),
    "PyAV": _version("av"),
    "hdf5plugin": _version("hdf5plugin"),
    "Optuna": _version("optuna"),
    "Weights & Biases": _version("wandb"),
    "zoo": _zoo,
    "caches": _caches,
    "display": _display,
    "ffmpeg": _ffmpeg,
    "chromium": _chromium,
}
"""The things that are looked at, in the order of the table."""
REQUIRED = ("Python", "imitate", "torch", "Gymnasium", "ALE", "PyBullet", "ffmpeg")
REMEDIES = {
    "PyBullet's robots": pip_install("bullet"),
    "EnvPool": pip_install("envpool"),
    "MuJoCo": pip_install("mujoco"),
    # No extra brings gymnasium-robotics: it needs an older MuJoCo than the constraints.
    "Gymnasium-Robotics": 'python3.11 -m venv robotics && robotics/bin/pip install -e ".[robotics]"',
    "Ray": pip_install("ray"),
    "ONNX": pip_install("export"),
    "pyarrow": pip_install("formats"),
    "PyAV": pip_install("formats"),
    "hdf5plugin": pip_install("zstd"),
    "Optuna": pip_install("tune"),
    "Weights & Biases": pip_install("wandb"),
}
