"""The limits and retention times in effect, with the settings that set them; read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from txnconsole.enginedb.wiring import engine
from txnconsole.quantities import count, duration, size
from txnconsole.trends import COARSE_KEPT, FINE_KEPT

_BUILT_IN = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: what it bounds, its value, and the environment variable that sets it (empty: built
    in)."""

    what: str
    value: str
    set_by: str
    effect: str


def limits() -> list[Limit]:
    """The limits above which requests are refused."""
    of_engine = engine().settings
    per_owner = of_engine.max_open_per_owner
    return [
        Limit(
            "Timeout of a transaction that asks for none",
            duration(of_engine.default_timeout_ms),
            _BUILT_IN,
            "It is aborted when its time is over.",
        ),
        Limit(
            "Longest timeout",
            duration(of_engine.max_timeout_ms),
            _BUILT_IN,
            "400 InvalidRequest",
        ),
        Limit(
            "Open transactions of one owner",
            count(per_owner) if per_owner else "no limit",
            "TXNCONSOLE_MAX_OPEN_PER_OWNER",
            "429 LimitExceeded",
        ),
        Limit("One message", size(of_engine.max_message_bytes), _BUILT_IN, "413 PayloadTooLarge"),
        Limit("One batch", size(of_engine.max_batch_bytes), _BUILT_IN, "413 PayloadTooLarge"),
        Limit(
            "Requests of one token a second",
            count(settings.REQUESTS_PER_SECOND),
            "TXNCONSOLE_REQUESTS_PER_SECOND",
            "429 LimitExceeded",
        ),
        Limit(
            "Requests of one token at once",
            count(settings.REQUESTS_BURST),
            "TXNCONSOLE_REQUESTS_BURST",
            "429 LimitExceeded",
        ),
        Limit(
            "One request, without what it waits for on purpose",
            duration(settings.REQUEST_TIMEOUT_MS),
            "TXNCONSOLE_REQUEST_TIMEOUT_MS",
            "504 TimeLimitExceeded",
        ),
        Limit(
            "Requests that one web process works on",
            count(settings.WEB_THREADS),
            "TXNCONSOLE_WEB_THREADS",
            "Further ones wait.",
        ),
        Limit(
            "Calls that wait on purpose in one web process",
            count(settings.WAITING_CALLS),
            "TXNCONSOLE_WAITING_CALLS",
            "Further ones are answered at once.",
        ),
        Limit(
            "Coordinators at least",
            count(of_engine.coordinators),
            "TXNCONSOLE_COORDINATORS",
            "The page Coordinators makes more.",
        ),
        Limit(
            "Payloads that viewers may read",
            ", ".join(settings.VIEWER_PAYLOADS) or "none",
            "TXNCONSOLE_VIEWER_PAYLOADS",
            "Others come masked.",
        ),
    ]


def retention() -> list[Limit]:
    """For how long each kind of data is kept."""
    of_engine = engine().settings
    return [
        Limit(
            "Header, participants and log of an ended transaction",
            duration(of_engine.archive_after_ms),
            "TXNCONSOLE_ARCHIVE_AFTER_MS",
            "After that its outcome and owner, for ever.",
        ),
        Limit(
            "Sequences of each coordinator that keep them",
            count(of_engine.archive_keep),
            "TXNCONSOLE_ARCHIVE_KEEP",
            "Older ones are archived sooner.",
        ),
        Limit(
            "Messages",
            "as each topic says",
            "PUT /topics/…",
            "Below the log's start they are gone.",
        ),
        Limit("Audit log", "for ever", _BUILT_IN, "It can only grow."),
        Limit(
            "Answers kept under an Idempotency-Key",
            "24 h",
            _BUILT_IN,
            "Then the key is free again.",
        ),
        Limit(
            "Samples of ten seconds and of five minutes",
            f"{duration(_ms(FINE_KEPT))}, {duration(_ms(COARSE_KEPT))}",
            _BUILT_IN,
            "The overview's charts are of these.",
        ),
    ]


def _ms(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)
