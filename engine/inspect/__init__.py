"""Questions about the whole engine, for operators; nothing here changes anything."""

from __future__ import annotations
