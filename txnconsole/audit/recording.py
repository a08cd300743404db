"""Writing the audit log: who changed what, when, why, and with what result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
from django.db import connection, transaction

from engine.model.errors import InvalidRequest
from engine.model.figures import FigureName
from engine.postgres import deadlines
from engine.postgres.combining import Combiner
from engine.postgres.prepared import INT8, TEXT, Prepared, Type, array_of
from txnconsole.enginedb.wiring import engine

DONE = "done"

_COLUMNS: Mapping[str, Type[Any]] = {
    "who": TEXT,
    "token_id": INT8,
    "action": TEXT,
    "object": TEXT,
    "reason": TEXT,
    "before": TEXT,
    "after": TEXT,
    "result": TEXT,
    "request_id": TEXT,
}
_APPEND = (Path(__file__).parent / "sql" / "append_entries.sql").read_text()
#: Entries outside a transaction use the engine's connections, which cost less than Django's.
_APPEND_ALONE = Prepared(
    "append_audit_entries",
    _APPEND,
    {name: array_of(type_) for name, type_ in _COLUMNS.items()},
    [],
)

_log = structlog.get_logger(__name__)
#: The characters that are kept of an object: all of any name, but not of whatever address somebody
#: has made up. No index takes more than 2704 bytes.
_OBJECT_LENGTH = 600
#: Made once: to make one for each entry takes longer than to use it.
_FACTS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)

#: Facts about an object before or after a change; values are JSON types.
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: a principal's name, its token if any, and the request."""

    name: str
    token_id: int | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be recorded; ``result`` is ``done`` or the stable code of the error."""

    actor: Actor
    action: str
    object: str
    reason: str = ""
    before: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    result: str = DONE


class Recording:
    """What becomes known about a change while it is made."""

    def __init__(self) -> None:
        self.before: Facts = {}
        self.after: Facts = {}


def record(change: Change) -> None:
    """Append an entry; it is durable when the surrounding SQL transaction is.

    Outside a transaction, callers that come at once share a statement and a commit, and each
    returns when its entry is stored. This ignores the request's deadline: what has been done is
    recorded, however late it is.
    """
    told_elsewhere = _is_told_elsewhere(change)
    with deadlines.lifted():
        if connection.in_atomic_block:
            _append([change])
        elif (failure := _together[told_elsewhere](change)) is not None:
            raise failure
    if not told_elsewhere:  # Of a program's end the request's own line tells all that this would.
        _log.info("audit", who=change.actor.name, action=change.action, result=change.result)
    _count([change])


def record_all(changes: Sequence[Change]) -> None:
    """Append entries within the surrounding SQL transaction, with which they are committed."""
    if changes:
        _append(changes)
        _log.info("audit", entries=len(changes), action=changes[0].action)
        _count(changes)


@contextmanager
def recorded(change: Change) -> Generator[Recording]:
    """Record a change when the block ends, whether it succeeds or raises.

    The result is the error's stable ``code``, or else its class; the error is raised further.
    """
    recording = Recording()
    try:
        yield recording
    except Exception as error:
        _record_failure(change, recording, error)
        raise
    record(replace(change, before=recording.before, after=recording.after))


@contextmanager
def recorded_atomically(change: Change) -> Generator[Recording]:
    """As :func:`recorded`, in one SQL transaction with the change; for changes of Django's own
    tables. A change that fails is undone, and then recorded."""
    recording = Recording()
    try:
        with transaction.atomic():
            yield recording
            record(replace(change, before=recording.before, after=recording.after))
    except Exception as error:
        _record_failure(change, recording, error)
        raise


def _record_failure(change: Change, recording: Recording, error: Exception) -> None:
    code = getattr(error, "code", None)
    result = code if isinstance(code, str) else type(error).__name__
    record(replace(change, before=recording.before, after=recording.after, result=result))


def _is_told_elsewhere(change: Change) -> bool:
    """Whether a change is an end without a reason, which the transaction log has too. Its entry
    does not wait for the disk (sql/audit_entry.sql), so it must not share a commit with one that
    does."""
    return change.action.startswith("transaction.") and not change.reason


def _count(changes: Sequence[Change]) -> None:
    """Count what operators do, once it is stored; programs' ends are counted as ends."""
    labels = Counter(
        f"{change.action}/{change.result}" for change in changes if not _is_told_elsewhere(change)
    )
    if not labels:
        return  # Asking Django when its transaction ends would take a connection of its pool.

    def count() -> None:
        for label, times in labels.items():
            engine().figures.count(FigureName.OPERATOR_ACTIONS, label, times=times)

    transaction.on_commit(count)


def _append_alone(changes: Sequence[Change]) -> list[InvalidRequest | None]:
    """Append entries in order, with one statement in a commit of its own. What cannot be stored of
    one caller is no reason to store nothing of the others: each then comes alone, and is told what
    became of it."""
    try:
        engine().database.ask(_APPEND_ALONE, *_columns(changes))
    except InvalidRequest as error:
        if len(changes) == 1:
            return [error]
        return [answer for change in changes for answer in _append_alone([change])]
    return [None] * len(changes)


def _append(changes: Sequence[Change]) -> None:
    """Append entries in order, with one statement in Django's SQL transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, dict(zip(_COLUMNS, _columns(changes), strict=True)))


def _columns(changes: Sequence[Change]) -> list[list[object]]:
    columns = zip(
        *(
            (
                _text(change.actor.name),
                change.actor.token_id,
                change.action,
                _object(change.object),
                _text(change.reason),
                _json(change.before),
                _json(change.after),
                change.result,
                _text(change.actor.request_id),
            )
            for change in changes
        ),
        strict=True,
    )
    return [list(column) for column in columns]


#: One combiner for entries that wait for the disk, one for the others. Callers share a statement,
#: because an entry costs little beside it.
_together: Mapping[bool, Combiner[Change, InvalidRequest | None]] = {
    told_elsewhere: Combiner(_append_alone, limit=100) for told_elsewhere in (False, True)
}


def _json(facts: Facts) -> str:
    return _FACTS.encode(facts)


def _object(name: str) -> str:
    text = _text(name)
    return text if len(text) <= _OBJECT_LENGTH else f"{text[:_OBJECT_LENGTH]}…"


def _text(value: str) -> str:
    """Text without what PostgreSQL cannot store, NUL and halves of surrogate pairs; an attempt with
    one is recorded nevertheless."""
    text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode(errors="replace").decode()
