"""The endpoints, a module for each kind of resource. Each method is one operation."""

from __future__ import annotations
