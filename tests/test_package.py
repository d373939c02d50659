"""What is installed where, and what help costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_installs_nothing_outside_imitate(tmp_path: Path) -> None:
    """A top-level `datasets` would overwrite Hugging Face's package of that name."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"imitate"}
    for needed in (
        "imitate/py.typed",
        "imitate/compare/report.html",
        "imitate/presets/ppo.toml",
        "imitate/envs/cart_pole.urdf",
        "imitate/experts/presets/tqc.toml",
        "imitate/experts/bundled/CartPole-v1/policy.safetensors",
        "imitate/datasets/hdf5.py",
    ):
        assert needed in names


def test_help_imports_no_torch() -> None:
    script = "import sys; from imitate.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_the_layers_import_only_downwards() -> None:
    upward = {"datasets": r"imitate\.(?!datasets)", "experts": r"imitate\.(?!datasets|experts)"}
    for layer, pattern in upward.items():
        for path in (ROOT / layer).glob("*.py"):
            found = re.findall(rf"^\s*(?:from|import) ({pattern}\S*)", path.read_text(), re.MULTILINE)
            assert not found, f"{path.name} imports {found}"


def test_the_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for path in re.findall(r"\]\(((?!https?:)[^)#]+)\)", text):
        assert (ROOT / path).exists(), path


def test_bundled_experts_are_small() -> None:
    weights = list((ROOT / "experts" / "bundled").glob("*/policy.safetensors"))
    assert len(weights) >= 6
    assert all(path.stat().st_size < 4 << 20 for path in weights)
    assert not os.path.lexists(ROOT / "shared")
