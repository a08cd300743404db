"""What has been added to a list since its page was loaded. It is counted, and shown only when the
user asks for it, so that no row moves while somebody reads."""

from __future__ import annotations

from dataclasses import dataclass

#: How far additions are counted.
MOST = 999


@dataclass(frozen=True, slots=True)
class Newer:
    """``count`` additions that the page does not show yet; the list with them is at ``address``."""

    count: int
    address: str

    @property
    def is_more(self) -> bool:
        """Whether there are more than were counted."""
        return self.count > MOST

    @property
    def shown(self) -> int:
        return min(self.count, MOST)
