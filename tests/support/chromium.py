"""Debian's Chromium, as tests, benchmarks and screenshots start it.

The headless shell, where it is installed: the same engine without the browser's own windows, for
half of the processor time (98 tests: 198 s beside some 400, two processors).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_FOUND = shutil.which("chromium-headless-shell") or shutil.which("chromium")
CHROMIUM = Path(os.environ.get("CHROMIUM") or _FOUND or "/usr/bin/chromium-headless-shell")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",  # The shell's letters stand as a browser's do.
]
