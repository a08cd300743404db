"""The limits and retention times in effect, with the settings that set them; read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from txnconsole.enginedb.wiring import engine
from txnconsole.idempotency.answers import KEPT, KEPT_AT_LEAST
from txnconsole.quantities import count, duration, size
from txnconsole.trends import COARSE_KEPT, FINE_KEPT


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: what it bounds, its value, what comes of what is beyond it, and the environment
    variable that sets it (empty: built in)."""

    what: str
    value: str
    effect: str
    set_by: str = ""


def limits() -> list[Limit]:
    """The limits above which requests are refused."""
    of_engine = engine().settings
    per_owner = of_engine.max_open_per_owner
    return [
        Limit(
            "Timeout of a transaction that asks for none",
            duration(of_engine.default_timeout_ms),
            "It is aborted when its time is over.",
        ),
        Limit("Longest timeout", duration(of_engine.max_timeout_ms), "400 InvalidRequest"),
        Limit(
            "Open transactions of one owner",
            count(per_owner) if per_owner else "no limit",
            "429 LimitExceeded",
            "TXNCONSOLE_MAX_OPEN_PER_OWNER",
        ),
        Limit("One message", size(of_engine.max_message_bytes), "413 PayloadTooLarge"),
        Limit("One batch", size(of_engine.max_batch_bytes), "413 PayloadTooLarge"),
        Limit(
            "Requests of one token a second",
            count(settings.REQUESTS_PER_SECOND),
            "429 LimitExceeded",
            "TXNCONSOLE_REQUESTS_PER_SECOND",
        ),
        Limit(
            "Requests of one token at once",
            count(settings.REQUESTS_BURST),
            "429 LimitExceeded",
            "TXNCONSOLE_REQUESTS_BURST",
        ),
        Limit(
            "One request, without what it waits for on purpose",
            duration(settings.REQUEST_TIMEOUT_MS),
            "504 TimeLimitExceeded",
            "TXNCONSOLE_REQUEST_TIMEOUT_MS",
        ),
        Limit(
            "Requests that one web process works on",
            count(settings.WEB_THREADS),
            "Further ones wait.",
            "TXNCONSOLE_WEB_THREADS",
        ),
        Limit(
            "Calls that wait on purpose in one web process",
            count(settings.WAITING_CALLS),
            "Further ones are answered at once.",
            "TXNCONSOLE_WAITING_CALLS",
        ),
        Limit(
            "Answers of one caller that are kept under an Idempotency-Key",
            size(settings.KEPT_ANSWERS_BYTES),
            f"The oldest go, but none that is younger than {duration(_ms(KEPT_AT_LEAST))}: then"
            " 429 LimitExceeded.",
            "TXNCONSOLE_KEPT_ANSWERS_BYTES",
        ),
        Limit(
            "Coordinators at least",
            count(of_engine.coordinators),
            "The page Coordinators makes more.",
            "TXNCONSOLE_COORDINATORS",
        ),
        Limit(
            "Payloads that viewers may read",
            ", ".join(settings.VIEWER_PAYLOADS) or "none",
            "Others come masked.",
            "TXNCONSOLE_VIEWER_PAYLOADS",
        ),
    ]


def retention() -> list[Limit]:
    """For how long each kind of data is kept."""
    of_engine = engine().settings
    return [
        Limit(
            "Header, participants and log of an ended transaction",
            duration(of_engine.archive_after_ms),
            "After that its outcome and owner, for ever.",
            "TXNCONSOLE_ARCHIVE_AFTER_MS",
        ),
        Limit(
            "Sequences of each coordinator that keep them",
            count(of_engine.archive_keep),
            "Older ones are archived sooner.",
            "TXNCONSOLE_ARCHIVE_KEEP",
        ),
        Limit(
            "Messages",
            "as each topic says",
            "Below the log's start they are gone.",
            "PUT /topics/…",
        ),
        Limit("Audit log", "for ever", "It can only grow."),
        Limit(
            "Answers kept under an Idempotency-Key",
            duration(_ms(KEPT)),
            "Then the key is free again.",
        ),
        Limit(
            "Samples of ten seconds and of five minutes",
            f"{duration(_ms(FINE_KEPT))}, {duration(_ms(COARSE_KEPT))}",
            "The overview's charts are of these.",
        ),
    ]


def _ms(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)
