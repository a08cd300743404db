"""What axe-core finds wrong with a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page

from tests.console.browser.screens import picture

#: The rules of WCAG 2.0 to 2.2, levels A and AA; and the one of contrasts alone.
WCAG = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
CONTRAST = {"type": "rule", "values": ["color-contrast"]}
_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
_RUN_AXE = """
async (only) => (await axe.run(document, {runOnly: only, resultTypes: ["violations"]})).violations
  .map(({ id, nodes }) =>
    id + ": " + nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | "))
"""
#: Colours that are on their way to others would be measured half-way.
_STILL = """
async () => {
  await new Promise(requestAnimationFrame);
  const isPassing = ({ effect }) => effect.getTiming().iterations !== Infinity;
  const passing = document.getAnimations().filter(isPassing);
  await Promise.all(passing.map((one) => one.finished.catch(() => {})));
}
"""


def axe(page: Page, only: Mapping[str, Any] = WCAG) -> list[str]:
    """What breaks one of the rules."""
    page.evaluate(_STILL)
    page.evaluate(_AXE)
    found: list[str] = page.evaluate(_RUN_AXE, only)
    return [f"axe {each}" for each in found]


def keep(page: Page, name: str) -> None:
    """A picture of the page, which axe must find nothing wrong with."""
    picture(page, name)
    assert axe(page) == []
