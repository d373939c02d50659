"""Debian's chromium without a screen, driven over a pipe: what a page does in a real browser."""

from __future__ import annotations

import atexit
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
"""The accessibility checks of axe-core, where somebody has installed them."""

needs_chromium = pytest.mark.skipif(EXECUTABLE is None, reason="no chromium here: apt-get install chromium")
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="no axe-core here: npm install --no-save axe-core")

CUT = """[...document.querySelectorAll('h1, h2, h3, p, li, dt, dd, button, summary, .finals span, .chart text')]
  .filter(node => {
    if (node.closest('.scroll')) return false;  // which is there to be scrolled
    const box = node.getBoundingClientRect(), chart = node.closest('.chart')?.getBoundingClientRect();
    const outer = chart ?? {left: 0, right: innerWidth};
    const spilled = node.namespaceURI.endsWith('xhtml') && node.scrollWidth > node.clientWidth + 1
      && getComputedStyle(node).display !== 'inline';
    return box.width && (box.left < outer.left - 1 || box.right > outer.right + 1 || spilled);
  }).map(node => node.textContent.trim())"""
"""Texts that don't fit their box, the page or their chart."""

ON_TOP = """[...document.querySelectorAll('.chart svg')].flatMap(chart => {
  const boxes = [...chart.querySelectorAll('text')].map(node => [node.textContent, node.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
    p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3
  ).map(([b]) => [a, b]));
})"""
"""Pairs of texts in a chart that cover each other."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """The browser that all pages of this process are opened in, as it takes seconds to begin."""

    def __init__(self) -> None:
        assert EXECUTABLE is not None
        read_end, browser_writes = os.pipe()
        browser_reads, write_end = os.pipe()
        self._profile = tempfile.mkdtemp(prefix="imitate-chromium-")
        # The protocol is spoken on descriptors 3 and 4: commands in, answers and events out, each ended by
        # a zero.
        command = f'exec "$0" "$@" 3<&{browser_reads} 4>&{browser_writes}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, EXECUTABLE, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(browser_reads, browser_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_reads)
        os.close(browser_writes)
        self._in, self._out = read_end, write_end
        self._buffer, self._count = b"", 0

    def send(self, method: str, session: str, params: dict[str, Any]) -> int:
        """Give a command to the browser, or to the page of a session; returns the number that its answer will have."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._count

    def receive(self) -> dict[str, Any]:
        """The next answer or event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 120)
            chunk = os.read(self._in, 1 << 20) if ready else b""
            assert chunk, "the browser does not answer"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)


@cache
def _browser() -> Browser:
    browser = Browser()
    atexit.register(browser.close)
    return browser


class Page:
    """A page with a profile of its own, which is gone with the context.

    problems   console errors, exceptions and log entries
    requests   URLs asked for, the page's own first; data: URLs left out
    """

    def __init__(self, url: str, *, width: int = 1280, height: int = 900) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._browser, self._session = _browser(), ""
        self._profile = self.call("Target.createBrowserContext")["browserContextId"]
        made = self.call("Target.createTarget", url="about:blank", browserContextId=self._profile)
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self._measure(width, height)
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def resize(self, width: int, height: int = 900) -> None:
        """Another width; returns when the page's script has drawn its figures for it."""
        self._measure(width, height)
        self.evaluate("draw()")

    def _measure(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = self._browser.send(method, self._session, params)
        while True:
            answer = self._browser.receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            if self._session and answer.get("sessionId") == self._session:
                self._note(answer)

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"{expression} did not come true in {seconds} s"
            time.sleep(0.05)

    def violations(self) -> list[str]:
        """The findings of axe-core, as `rule: element`; needs AXE."""
        self.evaluate(AXE.read_text("utf-8"))
        found = self.evaluate("axe.run().then(result => result.violations)")
        return [f"{each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]]

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("data:"):
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        self.call("Target.disposeBrowserContext", browserContextId=self._profile)
