from __future__ import annotations

from django.core.management import call_command


def test_the_migrations_make_what_the_models_say(db: None) -> None:
    """Else the next ``makemigrations`` would find a change that nobody has written down."""
    call_command("makemigrations", "--check", "--dry-run")
