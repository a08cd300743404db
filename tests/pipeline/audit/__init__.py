"""Tests of txnconsole.pipeline.audit: damage in copies of real logs, and real servers."""

from __future__ import annotations
