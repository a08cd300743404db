"""Tests of txnconsole.client: pure parts, transport faults, and a real server."""

from __future__ import annotations
