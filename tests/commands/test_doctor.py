"""`imitate doctor` looks at each thing by itself, and says what brings those that are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from imitate.cli import main
from imitate.commands import doctor

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def findings(text: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(text)}


def test_what_is_missing_is_said_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cache").touch()
    for name, value in {"PATH": "empty", "IMITATE_ZOO_DIR": "empty", "XDG_CACHE_HOME": "cache"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["doctor", "--json"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["caches"]["state"] == "missing"
    assert found["caches"]["remedy"] == "export XDG_CACHE_HOME=FOLDER"
    assert found["chromium"]["state"] == "missing"
    assert found["chromium"]["remedy"] == "apt-get install chromium"
    assert "IMITATE_ZOO_DIR" in found["zoo"]["remedy"]
    if sys.platform == "linux":
        assert "`evaluate --render`" in found["display"]["text"]
    assert found["Gymnasium"]["text"] == metadata.version("gymnasium")
    for package in ("numpy", "stable-baselines3"):
        assert f"{package} {metadata.version(package)}, " in found["imitate"]["text"]
    for name, (package, extra) in {"EnvPool": ("envpool", "envpool"), "Ray": ("ray", "ray")}.items():
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            assert found[name]["remedy"] == f'pip install -c constraints.txt -e ".[{extra}]"'
        else:
            assert (found[name]["state"], found[name]["text"]) == ("ok", version)
    # It needs an older MuJoCo than everything else here.
    remedy = found["Gymnasium-Robotics"]["remedy"]
    assert not remedy or remedy.startswith("python3.11 -m venv robotics && robotics/bin/pip install")
    named = {
        each["remedy"].rpartition("[")[2].rstrip(']"') for each in found.values() if "[" in each["remedy"]
    }
    assert named <= set(EXTRAS)


def test_a_broken_package_is_one_line_and_the_others_are_still_looked_at(tmp_path: Path) -> None:
    """The exit status is 1 for what everything needs, and MuJoCo's state is another's."""
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so:\\n cannot open shared object file')")
    (tmp_path / "mujoco.py").write_text("raise ImportError('libGL.so.1: no such file')")
    (tmp_path / "h5py.py").write_text("print('Install me')\nraise ImportError('libhdf5.so: no such file')")
    (tmp_path / "gymnasium.py").write_text("raise ImportError('no module farama')")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "imitate.cli", "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    found = findings(done.stdout)
    assert found["torch"]["state"] == "broken"
    assert found["torch"]["remedy"] == "pip install --force-reinstall -c constraints.txt -e ."
    assert found["torch"]["text"] == "OSError: libtorch_cpu.so: cannot open shared object file"
    assert found["imitate"]["state"] == found["Gymnasium"]["state"] == "broken"
    assert "a working h5py (here: ImportError: libhdf5.so: no such file)" in found["imitate"]["text"]
    assert found["Gymnasium"]["text"] == "ImportError: no module farama"
    # The lowest version of ALE needs Gymnasium itself.
    assert found["PyBullet"]["state"] == "ok"
    if found["MuJoCo"]["state"] != "missing":
        assert found["MuJoCo"] | {"text": ""} == {
            "name": "MuJoCo",
            "state": "broken",
            "text": "",
            "remedy": 'pip install -c constraints.txt -e ".[mujoco]"',
        }


def test_a_checkout_that_was_never_installed_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    monkeypatch.setattr(doctor, "PROBES", {"imitate": doctor.PROBES["imitate"]})
    assert main(["doctor", "--json"]) == 1
    found = findings(capsys.readouterr().out)["imitate"]
    assert (found["state"], found["remedy"].split()[:2]) == ("missing", ["pip", "install"])
