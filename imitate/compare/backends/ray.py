"""Tasks on a Ray cluster, without shared storage. A task's input files travel to its worker; its output files come back
along with its progress and when it ends. So a task that loses its worker or node continues elsewhere.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from imitate.compare.backends import Failure, Task
from imitate.compare.backends.transport import files_at, read, receive
from imitate.errors import InputError, one_line, pip_install
from imitate.files import versions

try:
    import ray
    from ray import exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError as error:
    raise InputError(f"--backend ray needs Ray: {pip_install('ray')}") from error

from imitate.compare.backends.ray_worker import Parcel, carry_out, mailbox, mailbox_name

__all__ = ["Ray"]

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
MOST_LOSSES = 5
"""A task fails after it has lost its worker this often without a new checkpoint in between."""

_HOW = "start one with `ray start --head` and give --address HOST:PORT"
_LOST = (
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,  # and its subclasses: the node died after the task had ended
)


@dataclass
class _Attempt:
    """A task under way."""

    task: Task
    number: int = 0
    losses: int = 0
    begun: bool = False

    @property
    def key(self) -> str:
        return f"{self.task.name} #{self.number}"


class Ray:
    """A `Backend` on a Ray cluster.

    address   of an existing cluster, as `ray.init` takes it. None: the cluster that RAY_ADDRESS names or that runs
              on this machine; otherwise a new one on this machine alone, which ends with the block
    cpus      processors that each task reserves
    gpus      GPUs that each run reserves, such as 0.25; recordings and videos reserve none
    most      maximum number of tasks at a time; None: as many as fit the cluster

    Entering the block raises InputError if the cluster can't be reached, or if it is this machine alone and has too few
    resources.
    """

    def __init__(
        self, address: str | None = None, *, cpus: float = 1, gpus: float = 0, most: int | None = None
    ) -> None:
        if cpus <= 0 or gpus < 0 or (most is not None and most < 1):
            raise InputError(
                f"wanted more than 0 CPUs, at least 0 GPUs and at least 1 task at a time, got {cpus, gpus, most}"
            )
        self._address, self._cpus, self._gpus, self._most = address, cpus, gpus, most

    def __enter__(self) -> Self:
        self._waiting: deque[_Attempt] = deque()
        self._running: dict[Any, _Attempt] = {}  # by the reference to its result
        self._news: list[tuple[str, int]] = []
        self._stored: dict[tuple[Path, int], Any] = {}
        self._stopping = False
        self._versions = versions()
        self.mailbox: Any = None
        self._often: Any = ray.remote(carry_out)
        self._once: Any = ray.remote(max_calls=1)(carry_out)
        self._session = uuid.uuid4().hex
        self._connected = not ray.is_initialized()
        self._alone = False
        if self._connected:
            self._connect()
        try:
            self._check_resources()
            self._open_mailbox()
        except BaseException:
            self._disconnect()
            raise
        return self

    def _open_mailbox(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options = {"num_cpus": 0, "max_concurrency": 100_000, "scheduling_strategy": here}
        made = ray.remote(mailbox()).options(name=mailbox_name(self._session), get_if_exists=True, **options)
        self.mailbox = made.remote()
        if self._stopping:
            self.mailbox.stop.remote()

    def submit(self, task: Task) -> None:
        self._waiting.append(_Attempt(task))
        self._fill()

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        done: list[Any] = []
        if self._running and ray.wait(list(self._running), timeout=POLL_SECONDS)[0]:
            done, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        self._collect()
        for reference in done:
            attempt = self._running.pop(reference)
            try:
                failure, files = ray.get(reference)
                if files is not None:
                    receive(attempt.task, files, whole=True)
            except _LOST as error:
                if self._again(attempt, error):
                    continue
                failure = Failure(f"lost its worker {MOST_LOSSES} times; the last time: {_how_lost(error)}")
            except exceptions.TaskCancelledError:
                failure = None
            except (exceptions.RayError, InputError) as error:
                failure = Failure(_said(error))
            yield attempt.task.name, failure
        self._fill()

    def news(self) -> Iterator[tuple[str, int]]:
        self._collect()
        news, self._news = self._news, []
        yield from news

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                self._stop()
        finally:
            self._disconnect()

    def _connect(self) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        logging.getLogger("ray").setLevel(logging.ERROR)
        address = self._address or os.environ.get("RAY_ADDRESS")
        if address not in (None, "auto"):
            _check_address(address)
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address or "auto", **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address is not None:
                raise InputError(f"no Ray cluster at {address}: {one_line(error)}; {_HOW}") from error
            logger.info("no Ray cluster runs here: starting one on this machine")
            ray.init(include_dashboard=False, **quiet)
            self._alone = True
        finally:
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray has installed its own handler

    def _check_resources(self) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        total = ray.cluster_resources()
        wanted = _amounts(CPU=self._cpus, GPU=self._gpus)
        has = _amounts(CPU=total.get("CPU", 0), GPU=total.get("GPU", 0))
        logger.info("Ray: %s with %s; a run takes %s", _amounts(node=len(nodes)), has, wanted)
        if not any(node.get("CPU", 0) >= self._cpus and node.get("GPU", 0) >= self._gpus for node in nodes):
            if self._alone:
                raise InputError(
                    f"this machine has less than {wanted}; reserve less, or name a cluster: {_HOW}"
                )
            logger.warning("no node has %s yet: runs wait until one joins", wanted)

    def _fill(self) -> None:
        """Submit waiting tasks to Ray, which queues those that don't fit the cluster yet."""
        while self._waiting and (self._most is None or len(self._running) < self._most):
            attempt = self._waiting.popleft()
            task = attempt.task
            luggage = {} if task.luggage is None else task.luggage.pack()
            # Only files that the task itself has written change between attempts.
            files = {name: self._store(path) for name, path in files_at(task.root, task.reads)}
            files |= {name: ray.put(read(path)) for name, path in files_at(task.root, task.writes)}
            packed = {name: self._store(path) for name, path in luggage.items()}
            parcel = Parcel(attempt.key, self._session, task, files, packed, self._versions)
            gpus = self._gpus if task.learns else 0
            # A process that has imported from a task's folder, or holds GPU memory, is not used for another task.
            once = gpus > 0 or any(name.startswith("modules/") for name in packed)
            function = (self._once if once else self._often).options(
                num_cpus=self._cpus, num_gpus=gpus, max_retries=0
            )
            self._running[function.remote(parcel)] = attempt

    def _store(self, path: Path) -> Any:
        """Put a file in the object store, once for all tasks."""
        key = path, path.stat().st_mtime_ns
        if key not in self._stored:
            self._stored[key] = ray.put(read(path))
        return self._stored[key]

    def _collect(self) -> None:
        """Fetch the news that workers have sent."""
        try:
            positions, sent = ray.get(self.mailbox.take.remote())
        except exceptions.RayActorError as error:
            logger.warning("the mailbox of the workers was lost (%s): another one is made", _said(error))
            self._open_mailbox()  # workers find it by its name and resend the contents of the old one
            return
        except exceptions.RayError as error:
            raise InputError(
                f"the Ray cluster is gone ({_said(error)}); the same command goes on from here, on another one"
            ) from error
        attempts = {attempt.key: attempt for attempt in self._running.values()}
        for key, files in sent.items():
            if key in attempts:  # otherwise it is from a worker that was given up
                task = attempts[key].task
                receive(task, files, whole=False)
                if task.checkpoint and task.checkpoint.as_posix() in files:
                    attempts[key].losses = 0
        for key, position in positions.items():
            if key in attempts:
                attempts[key].begun = True
                self._news.append((attempts[key].task.name, position))

    def _again(self, attempt: _Attempt, error: Exception) -> bool:
        """Resubmit a task that lost its worker; returns False if that has happened too often."""
        if self._stopping or attempt.losses + 1 >= MOST_LOSSES:
            return self._stopping
        logger.warning("%s lost its worker (%s): it goes on elsewhere", attempt.task.name, _how_lost(error))
        self._waiting.append(
            replace(attempt, number=attempt.number + 1, losses=attempt.losses + 1, begun=False)
        )
        return True

    def _stop(self) -> None:
        """Let the running tasks save their state, and bring their files back."""
        logger.info("stopping: tasks under way save what they have")
        self._stopping = True
        self._waiting.clear()
        self._collect()
        for reference, attempt in self._running.items():
            if not attempt.begun:
                ray.cancel(reference)
        self.mailbox.stop.remote()
        while self._running:
            list(self.ended())

    def _disconnect(self) -> None:
        if self._connected:
            ray.shutdown()
        else:  # the connection was not opened here
            for reference in self._running:
                ray.cancel(reference, force=True)
            if self.mailbox is not None:
                ray.kill(self.mailbox)
        self._running.clear()
        self._stored.clear()


def _check_address(address: str) -> None:
    """Raise InputError unless a server listens at HOST:PORT. Ray itself would try for five minutes."""
    host, _, port = address.rpartition(":")
    try:
        if not host or "/" in host:
            raise ValueError("it is not HOST:PORT")
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(f"no Ray cluster at {address}: {one_line(error)}; {_HOW}") from error


def _amounts(**numbers: float) -> str:
    """`1 CPU and 0.5 GPUs`; resources of zero are omitted."""
    return (
        " and ".join(f"{n:g} {what}" + ("" if n == 1 else "s") for what, n in numbers.items() if n)
        or "no CPU"
    )


def _how_lost(error: Exception) -> str:
    """The first sentence of Ray's message; the rest is half a page about its logs."""
    return f"{type(error).__name__}: {one_line(error).partition('. ')[0]}"


def _said(error: Exception) -> str:
    """The last line of Ray's message; if a worker raised an error, this line is the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"
