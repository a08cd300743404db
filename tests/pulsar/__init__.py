"""Pulsar's admin paths."""

from __future__ import annotations
