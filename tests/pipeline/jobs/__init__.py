"""Tests of txnconsole.pipeline.jobs: pure parts, and Spark against a real server."""

from __future__ import annotations
