"""Jobs: each a module with a pure DataFrame core and a command."""

from __future__ import annotations
