"""Django's backend for PostgreSQL, with another way to wait for a server that is away (``base``).

Django finds the module ``base`` by the setting ``ENGINE`` (txnconsole.environment).
"""

from __future__ import annotations
