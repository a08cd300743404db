"""What a user has chosen."""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models


@cache
def zones() -> frozenset[str]:
    """The zones that may be chosen: a browser must know them too, by the same name, and knows
    nothing of this machine's own (``localtime``)."""
    return frozenset(available_timezones()) - {"localtime"}


class Theme(models.TextChoices):
    SYSTEM = "system", "As the system"
    LIGHT = "light", "Light"
    DARK = "dark", "Dark"


class Density(models.TextChoices):
    COMPACT = "compact", "Compact"
    COMFORTABLE = "comfortable", "Comfortable"


class Pace(models.IntegerChoices):
    """How often a page that is open renews what it shows, in seconds."""

    SECOND = 1, "1 s"
    TWO = 2, "2 s"
    FIVE = 5, "5 s"
    TEN = 10, "10 s"
    THIRTY = 30, "30 s"
    MINUTE = 60, "60 s"


class Preferences(models.Model):
    """One user's; ``zone`` is a name of the IANA time zone database."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="preferences",
    )
    theme = models.CharField(max_length=8, choices=Theme, default=Theme.SYSTEM)
    density = models.CharField(max_length=12, choices=Density, default=Density.COMPACT)
    zone = models.CharField(max_length=64, default="UTC")
    pace = models.PositiveSmallIntegerField(choices=Pace, default=Pace.SECOND)

    def __str__(self) -> str:
        return f"{self.theme}, {self.density}, {self.zone}"

    @property
    def zone_info(self) -> ZoneInfo:
        """The zone; UTC when it is none (any more) that may be chosen."""
        return ZoneInfo(self.zone if self.zone in zones() else "UTC")


def preferences_of(user: AbstractBaseUser) -> Preferences:
    """What the user has chosen, or the defaults, unsaved."""
    found: Preferences | None = getattr(user, "preferences", None)
    return found or Preferences(user_id=user.pk)
