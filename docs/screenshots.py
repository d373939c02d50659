"""Takes the pictures of a report, light and dark, in a browser without a screen.

python docs/screenshots.py
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from chromium import Page  # noqa: E402

REPORT = ROOT / "examples" / "classic" / "report.html"
WIDTH, SCALE = 1100, 0.75
BOTTOM = "document.querySelector('main .chart').getBoundingClientRect().bottom + scrollY"
"""The picture ends below the first figure."""


def main() -> None:
    with Page(REPORT.as_uri(), width=WIDTH) as page:
        for scheme in ("light", "dark"):
            page.call(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
            )
            page.evaluate("draw()")
            path = ROOT / "docs" / "images" / f"report-{scheme}.png"
            path.parent.mkdir(exist_ok=True)
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": page.evaluate(BOTTOM), "scale": SCALE}
            taken = page.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
            path.write_bytes(base64.b64decode(taken["data"]))
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
