"""Benchmarks: ratios within one run, because absolute figures drift (design/quality.md)."""

from __future__ import annotations
