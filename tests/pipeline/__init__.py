"""Tests of txnconsole.pipeline: pure parts, and Spark against a real server."""

from __future__ import annotations
