"""How each user wants to see the console: theme, density, time zone, pace.

One row a user, made when something is first chosen; without it the defaults hold. Nothing else
depends on it, and a user that is gone takes it along.
"""

from __future__ import annotations
