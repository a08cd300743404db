"""The shapes of bodies, query strings and answers, as design/api.md gives them.

Bodies and query strings refuse fields that they do not know. Answers are built from the engine's
values by the functions beside them.
"""

from __future__ import annotations
