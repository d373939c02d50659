"""The command line under bad conditions: odd paths, closed streams, few descriptors, signals."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forked import COMMAND, Script, run

from imitate.cli import main

posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX shells")


def shell(line: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    script = f'imitate() {{ {sys.executable} -P -m imitate.cli "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, check=False, **options)


@pytest.mark.parametrize(
    "path", ["x" * 300 + ".h5", "a\0b.h5", "caf\udce9.h5"], ids=["long", "NUL", "latin-1"]
)
@pytest.mark.parametrize("command", [["data", "info"], ["evaluate"]], ids=["data", "evaluate"])
def test_odd_paths_are_one_line(path: str, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@posix
def test_closed_streams_do_not_stop_an_evaluation(tmp_path: Path) -> None:
    done = shell("imitate evaluate CartPole-v1:ppo --episodes 1 <&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demonstrations."""
    folder = tmp_path_factory.mktemp("recorded")
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", str(folder / "demos.h5")]) == 0
    return folder


@posix
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_a_command_prints_goes_to_the_streams_that_are_open(closed: str, recorded: Path) -> None:
    """The file that the command opens could take the number of a closed stream."""
    done = shell(f"imitate data info demos.h5 {closed}", recorded)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert (b"CartPole-v1" in done.stdout) == (">&-" not in closed.split("2>&-")[0])


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux")
def test_output_that_can_not_be_written(tmp_path: Path) -> None:
    done = shell("imitate --help > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (2, b"imitate: No space left on device\n")


def test_too_many_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "CartPole-v1:ppo", "--episodes", "1"]) == 0
    capsys.readouterr()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        status = main(["evaluate", "CartPole-v1:ppo", "--episodes", "1"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert status == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "raise `ulimit -n`" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            MemoryError("Unable to allocate 3 GiB"),
            "the memory is full (Unable to allocate 3 GiB); ask for less",
        ),
        (RuntimeError("CUDA out of memory."), "the memory is full (CUDA out of memory.); ask for less"),
        (OSError(errno.EIO, "", "run"), "can't use run: Input/output error"),
    ],
)
def test_failures_of_the_machine_say_what_is_kept(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_argv: list[str]) -> int:
        error.add_note("imitate: 30 steps were taken")  # as a run does
        raise error

    monkeypatch.setattr("imitate.cli.find", lambda _: failing)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == f"imitate: {said}; 30 steps were taken\n"


@posix
@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_an_interrupted_comparison_says_so_with_its_status(
    name: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:  # noqa: ARG001
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(1)

    monkeypatch.setattr("imitate.compare.compare", interrupted)
    assert main(["compare", "--env", "CartPole-v1", "--out", str(tmp_path / "out")]) == status
    assert "the same command goes on from here" in capsys.readouterr().err


def test_the_command_leaves_alone_signals_that_are_not_handled_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda _: None)
        patch.setattr(signal, "signal", lambda *given: put.append(given))
        assert main(["--version"]) == 0
    assert put == []


@pytest.mark.parametrize(("name", "said"), [("SIGTERM", "terminated"), ("SIGINT", "interrupted")])
def test_a_signal_in_a_destructor_is_not_lost(name: str, said: str) -> None:
    """Python prints and drops what is raised there."""
    program = """
import os, signal, sys, time
import imitate.commands.data
from imitate.cli import main
class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.NAME)
        [None for _ in range(100)]
def command(arguments):
    last = Last()
    del last
    time.sleep(5)
imitate.commands.data.data = command
sys.exit(main(["data"]))
"""
    done = run(program.replace("NAME", name))
    status = 128 + getattr(signal, name)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"imitate: {said}\n")


def test_sigterm_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    with Script(COMMAND, "collect", "CartPole-v1:ppo", "--out", str(path), "--episodes", "100000") as process:
        for _ in range(600):
            time.sleep(0.1)
            if path.exists() and path.stat().st_size > 100_000:
                break
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait() == 143, said
    assert "the same command with --resume goes on\nimitate: terminated\n" in said
    assert main(["data", "validate", str(path)]) == 0
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # main puts back what was there
