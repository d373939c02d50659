"""A pygame window that shows an environment to a person and reads keys and mouse."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line
from imitate.terminal import quiet_pygame

__all__ = ["Window", "check_display"]

_HEIGHT = 480
_DRIVERS = {"DISPLAY": "x11", "WAYLAND_DISPLAY": "wayland"}  # SDL's, by the variable that names a display


def check_display() -> None:
    """Raise InputError if there is no display, or none that answers."""
    _with_display().display.quit()


def _with_display() -> Any:
    """pygame with its display. Raises InputError if there is none that answers."""
    chosen = sys.platform != "linux" or "SDL_VIDEODRIVER" in os.environ
    named = [name for name in _DRIVERS if os.environ.get(name)]
    if not chosen and not named:
        raise InputError("there is no display for a window: DISPLAY is not set")
    pygame = quiet_pygame()
    if not chosen:  # otherwise SDL would draw to memory if no display answers
        os.environ["SDL_VIDEODRIVER"] = ",".join(_DRIVERS[name] for name in named)
    try:
        pygame.display.init()
    except pygame.error as error:
        asked = " and ".join(f"{name}={os.environ[name]}" for name in named) or "the screen"
        raise InputError(f"there is no display for a window: {asked} did not answer ({error})") from error
    finally:
        if not chosen:
            del os.environ["SDL_VIDEODRIVER"]
    return pygame


class Window:
    """`Controls` of `imitate.datasets.human.playing`. Raises InputError if there is no display."""

    def __init__(self, fps: float) -> None:
        self._pygame = pygame = _with_display()
        self._clock, self._fps = pygame.time.Clock(), fps
        self._down: set[str] = set()
        self._held = False
        self.mouse: tuple[float, float] | None = None

    def show(self, picture: Array, caption: str) -> None:
        pygame = self._pygame
        height, width = picture.shape[:2]
        size = (round(width * _HEIGHT / height), _HEIGHT)
        with self._open():
            screen = pygame.display.get_surface()
            if screen is None or screen.get_size() != size:
                screen = pygame.display.set_mode(size)
            surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
            screen.blit(pygame.transform.scale(surface, size), (0, 0))
            pygame.display.set_caption(caption)
            pygame.display.flip()

    def down(self) -> set[str]:
        pygame = self._pygame
        self._clock.tick(self._fps)
        tapped = set()
        mouse = self.mouse if self._held else None
        with self._open():
            events = pygame.event.get()
        for event in events:
            if event.type == pygame.QUIT:
                tapped.add("escape")
            elif event.type == pygame.KEYDOWN:
                self._down.add(pygame.key.name(event.key))
                tapped.add(pygame.key.name(event.key))  # even if it is released within the frame
            elif event.type == pygame.KEYUP:
                self._down.discard(pygame.key.name(event.key))
            elif event.type in (pygame.MOUSEBUTTONDOWN, pygame.MOUSEBUTTONUP) and event.button == 1:
                self._held = event.type == pygame.MOUSEBUTTONDOWN
                mouse = self._place_of(event.pos)  # even if it is released within the frame
            elif event.type == pygame.MOUSEMOTION and self._held:
                mouse = self._place_of(event.pos)
        self.mouse = mouse
        return self._down | tapped

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Raises InputError if the display fails."""
        try:
            yield
        except self._pygame.error as error:
            raise InputError(f"the window is gone: {one_line(error)}") from error

    def _place_of(self, at: tuple[int, int]) -> tuple[float, float]:
        """The position of pixel `at` in the window, from -1 to 1; the mouse may be dragged outside."""
        width, height = self._pygame.display.get_window_size()
        x, y = 2 * at[0] / (width - 1) - 1, 1 - 2 * at[1] / (height - 1)
        return min(max(x, -1.0), 1.0), min(max(y, -1.0), 1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pygame.display.quit()
