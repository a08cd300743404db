"""How many requests a principal may make: a token bucket for each, in each process.

The bucket is in memory because it is asked on every call; with several web processes a principal
has as many buckets. It protects the server from a program in a loop; it is no quota.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from txnconsole.access.requests import principal_behind

_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RequestRate:
    """Allows ``per_second`` requests a second for each name, and a burst of twice as many."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._burst = max(1.0, per_second * 2)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take one request; returns 0, or the seconds until the next one is allowed."""
        now = monotonic()
        with self._lock:
            bucket = self._buckets.get(name)
            if bucket is None:
                bucket = self._buckets[name] = _Bucket(self._burst, now)
                if len(self._buckets) > _BUCKETS:
                    self._buckets.popitem(last=False)
            self._buckets.move_to_end(name)
            filled = bucket.tokens + (now - bucket.filled_at) * self._rate
            bucket.tokens, bucket.filled_at = min(self._burst, filled), now
            if bucket.tokens < 1:
                return (1 - bucket.tokens) / self._rate
            bucket.tokens -= 1
            return 0.0


_rate = RequestRate(settings.TXNCONSOLE_REQUESTS_PER_SECOND)


class PrincipalThrottle(BaseThrottle):
    """DRF's view of :class:`RequestRate`: by principal, or by address without one."""

    def __init__(self) -> None:
        self._wait = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        principal = principal_behind(request)
        name = principal.name if principal else f"@{request.META.get('REMOTE_ADDR', '')}"
        self._wait = _rate.take(name)
        return self._wait == 0.0

    def wait(self) -> float:
        return self._wait
