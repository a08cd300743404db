"""The Django project around the engine: REST API, browser console, workers, and what runs them."""

from __future__ import annotations
