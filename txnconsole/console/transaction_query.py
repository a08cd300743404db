"""The query language of the transactions page: ``state:open age:>5m owner:alice 3:1042``.

A query is a list of terms separated by blanks; a value with blanks is put in double quotes. A term
is ``qualifier:value``, a transaction's id in any of its forms, or a bare word, which is an owner.
All terms must hold; several values of one qualifier, separated by commas, are alternatives where
:data:`QUALIFIERS` allows that. The query is all of the page's filter, and is in its address.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.model.errors import InvalidRequest
from engine.model.topic_name import TopicName
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import MAX_TC_ID, TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.console.numbers import number_of
from txnconsole.console.txn_id_forms import is_txn_id, parse_txn_id
from txnconsole.enginedb.clock import database_now

MAX_LENGTH = 500
MAX_IDS = 50
#: The value of ``owner:`` that stands for the user who asks.
ME = "me"

_TERM = re.compile(r'([A-Za-z]+):(?:\s|$)|(?:([A-Za-z]+):)?("[^"]*"|\S+)')
_AGE = re.compile(r"(\d{1,9})(ms|s|m|min|h|d)?", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_YES = frozenset({"yes", "true", "1"})
_MAX_NAME = 400
_STATES = tuple(str(status).lower() for status in TxnStatus)


class QueryError(Exception):
    """The query is malformed; the text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term; ``name`` is the qualifier's canonical name, ``txn`` for an id, ``owner`` for a bare
    word."""

    name: str
    value: str

    def __str__(self) -> str:
        if self.name == "txn":
            return self.value
        quoted = f'"{self.value}"' if re.search(r"\s", self.value) else self.value
        return f"{self.name}:{quoted}"


@dataclass(frozen=True, slots=True)
class TransactionQuery:
    """A parsed query.

    Attributes:
        filter: the engine's filter; not used when there are ``txn_ids``.
        txn_ids: the transactions asked for by their ids.
    """

    terms: tuple[Term, ...] = ()
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    txn_ids: tuple[TxnID, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def values(self, name: str) -> list[str]:
        """The values of a qualifier, in the order in which they are written."""
        found = [term.value for term in self.terms if term.name == name]
        return [value for text in found for value in text.split(",")]

    def without(self, name: str) -> str:
        """The query without a qualifier's terms."""
        return " ".join(str(term) for term in self.terms if term.name != name)

    def toggled(self, name: str, value: str) -> str:
        """The query with a value of a qualifier added, or removed when it has it."""
        values = self.values(name)
        rest = [one for one in values if one.lower() != value]
        left = rest if len(rest) < len(values) else [*values, value]
        terms = [term for term in self.terms if term.name != name]
        return " ".join(map(str, [*terms, Term(name, ",".join(left))] if left else terms))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is needed to read values: who ``me`` is, and the time from which ``since:1h`` counts."""

    me: str
    now: Callable[[], datetime]


#: Reads a value; the first argument is the qualifier's name.
_Read = Callable[[str, str, _Reading], Any]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What values a qualifier takes, for completion and error texts, and which field of the filter
    it sets."""

    name: str
    takes: str
    field: str
    read: _Read
    values: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def _states(_name: str, value: str, _reading: _Reading) -> tuple[TxnStatus, ...]:
    found = []
    for text in value.split(","):
        try:
            found.append(TxnStatus(text.upper()))
        except ValueError:
            raise QueryError(f"“{text}” is no state; there are {', '.join(_STATES)}.") from None
    return tuple(found)


def _coordinator(_name: str, value: str, _reading: _Reading) -> int:
    number = number_of(value)
    if number is None or number > MAX_TC_ID:
        raise QueryError(f"tc: takes a coordinator's number, 0 to {MAX_TC_ID:,}; e.g. tc:3.")
    return number


def _owner(name: str, value: str, reading: _Reading) -> str:
    return reading.me if value == ME else _text(name, value, reading)


def _text(name: str, value: str, _reading: _Reading) -> str:
    if not value or len(value) > _MAX_NAME or "\0" in value:
        raise QueryError(f"{name}: takes a name of 1 to {_MAX_NAME} characters.")
    return value


def _topic(_name: str, value: str, _reading: _Reading) -> str:
    try:
        return str(TopicName.parse(value))
    except InvalidRequest:
        raise QueryError(
            "topic: takes a topic's whole name; e.g. topic:public/default/orders."
        ) from None


def _age(_name: str, value: str, _reading: _Reading) -> int:
    milliseconds = _milliseconds(value.removeprefix(">").removeprefix("="))
    if milliseconds is None:
        raise QueryError("age: takes a shortest age; e.g. age:>90s, age:>5m, age:>2h or age:>1d.")
    return milliseconds


def _yes(name: str, value: str, _reading: _Reading) -> bool:
    if value.lower() not in _YES:
        raise QueryError(f"{name}: takes yes; leave it away for any.")
    return True


def _moment(name: str, value: str, reading: _Reading) -> datetime:
    now = reading.now()
    ago = _milliseconds(value)
    try:
        if ago is not None:
            return now - timedelta(milliseconds=ago)
        moment = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        raise QueryError(
            f"{name}: takes how long ago, as 1h, or a time in UTC, as 2026-03-01T14:00."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _milliseconds(text: str) -> int | None:
    found = _AGE.fullmatch(text.lower())
    return None if found is None else int(found[1]) * _UNIT_MS[found[2] or "s"]


_AGO = ("15m", "1h", "1d")
QUALIFIERS: Mapping[str, Qualifier] = {
    one.name: one
    for one in (
        Qualifier("state", "one or more states", "statuses", _states, _STATES, ("status",)),
        Qualifier(
            *("age", "older than, as >5m", "min_age_ms", _age),
            (">30s", ">5m", ">1h", ">1d"),
            ("older",),
        ),
        Qualifier("owner", "who opened it; me is you", "owner", _owner, (ME,)),
        Qualifier("client", "the program that opened it", "client", _text),
        Qualifier("topic", "a topic it writes to or acknowledges", "topic", _topic),
        Qualifier(
            *("sub", "a subscription it acknowledges", "subscription", _text),
            aliases=("subscription",),
        ),
        Qualifier(
            "tc", "its coordinator's number", "tc_id", _coordinator, aliases=("coordinator",)
        ),
        Qualifier("overdue", "open past its deadline", "overdue", _yes, ("yes",)),
        Qualifier("timedout", "aborted by its timeout", "timed_out", _yes, ("yes",)),
        Qualifier("pending", "holds acknowledgements", "pending_acks", _yes, ("yes",)),
        Qualifier("since", "opened since: 1h, or a time in UTC", "opened_after", _moment, _AGO),
        Qualifier(
            "until", "opened before: 1h ago, or a time in UTC", "opened_before", _moment, _AGO
        ),
    )
}
#: Qualifiers by their names, and by other names that people try.
NAMES: Mapping[str, Qualifier] = {
    name: one for one in QUALIFIERS.values() for name in (one.name, *one.aliases)
}


def parse(
    text: str, *, me: str = "", now: Callable[[], datetime] = database_now
) -> TransactionQuery:
    """Parse a query; the empty one matches every transaction.

    Args:
        me: the owner that ``owner:me`` stands for.
        now: gives the time that relative times count from; called only when there are any.

    Raises:
        QueryError: it is malformed.
    """
    if len(text) > MAX_LENGTH:
        raise QueryError(f"A query has at most {MAX_LENGTH} characters.")
    reading = _Reading(me, now)
    if is_txn_id(text):
        return _by_id([text])
    terms = _terms(text)
    ids = [term.value for term in terms if term.name == "txn"]
    if ids and len(ids) < len(terms):
        raise QueryError(f"{ids[0]} is one transaction; take the other terms away to see it.")
    if ids:
        return _by_id(ids)
    chosen: dict[str, Any] = {"statuses": ()}
    for term in terms:
        one = QUALIFIERS[term.name]
        if term.name != "state" and one.field in chosen:
            raise QueryError(f"{term.name}: is there twice; it takes one value.")
        value = one.read(term.name, term.value, reading)
        if term.name == "state":
            value = tuple(dict.fromkeys((*chosen["statuses"], *value)))
        chosen[one.field] = value
    return TransactionQuery(tuple(terms), TransactionFilter(**chosen))


def _terms(text: str) -> list[Term]:
    if text.count('"') % 2:
        raise QueryError("A quotation mark is left open.")
    terms = []
    for found in _TERM.finditer(text):
        nothing, name, value = found.groups()
        whole = found[0]
        if nothing:
            raise QueryError(_empty(nothing))
        value = value.strip('"')
        if is_txn_id(whole):
            terms.append(Term("txn", str(parse_txn_id(whole))))
        elif name is None:
            terms.append(_word(value))
        else:
            terms.append(Term(_qualifier(name).name, value))
            if not value:
                raise QueryError(_empty(name))
    return terms


def _word(value: str) -> Term:
    if value.startswith("(") or re.fullmatch(r"\d+:\S*", value):
        raise QueryError(
            f"“{value}” is no TxnID. Write 3:1042, (844424930131968,1042) or its 32 hexadecimal"
            " digits."
        )
    return Term("owner", value)


def _qualifier(name: str) -> Qualifier:
    found = NAMES.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), QUALIFIERS, 1, cutoff=0.5)
    hint = f"Did you mean {near[0]}:?" if near else f"There are {_listed(QUALIFIERS)}."
    raise QueryError(f"There is no qualifier “{name}:”. {hint}")


def _empty(name: str) -> str:
    qualifier = _qualifier(name)
    return f"{qualifier.name}: needs a value, {qualifier.takes}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name}:" for name in names)


def _by_id(texts: Sequence[str]) -> TransactionQuery:
    if len(texts) > MAX_IDS:
        raise QueryError(f"At most {MAX_IDS} transactions can be asked for by their ids.")
    ids = tuple(dict.fromkeys(parse_txn_id(text) for text in texts))
    return TransactionQuery(tuple(Term("txn", str(each)) for each in ids), txn_ids=ids)
