"""Pictures of pages, which the browser tests leave in ``build/screens``."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

_SCREENS = Path(__file__).parents[3] / "build" / "screens"


def picture(page: Page, name: str, *, full_page: bool = True) -> None:
    """Keep a picture of the page, or of what its window shows of it."""
    _SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=_SCREENS / f"{name}.png", full_page=full_page)
