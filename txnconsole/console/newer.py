"""What has been added to a list since its page was read: counted, and shown when it is asked for,
so that no row moves under a reader."""

from __future__ import annotations

from dataclasses import dataclass

#: Additions are counted up to so many.
MOST = 999


@dataclass(frozen=True, slots=True)
class Newer:
    """``count`` additions that the list of the address has and the page has not."""

    count: int
    address: str

    @property
    def is_more(self) -> bool:
        """There are more than were counted."""
        return self.count > MOST

    @property
    def shown(self) -> int:
        return min(self.count, MOST)
