"""Tests of txnconsole.demo: the plan, and the programs against a real server."""

from __future__ import annotations
