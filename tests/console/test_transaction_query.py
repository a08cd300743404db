"""What the query box understands, and what it says to the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.console.transaction_query import MAX_LENGTH, QueryError, parse

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def understood(text: str) -> TransactionFilter:
    return parse(text, me="ann", now=lambda: NOW).filter


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("", TransactionFilter()),
        ("state:open", TransactionFilter(statuses=(TxnStatus.OPEN,))),
        (
            "state:Committing,ABORTING",
            TransactionFilter(statuses=(TxnStatus.COMMITTING, TxnStatus.ABORTING)),
        ),
        (
            "status:open state:aborted",
            TransactionFilter(statuses=(TxnStatus.OPEN, TxnStatus.ABORTED)),
        ),
        ("age:>5m", TransactionFilter(min_age_ms=300_000)),
        ("age:90", TransactionFilter(min_age_ms=90_000)),
        ("older:>=2h", TransactionFilter(min_age_ms=7_200_000)),
        ("owner:alice tc:3", TransactionFilter(owner="alice", tc_id=3)),
        ('owner:"Ann Smith"', TransactionFilter(owner="Ann Smith")),
        ("owner:me", TransactionFilter(owner="ann")),
        ("alice", TransactionFilter(owner="alice")),
        ("client:pod-7", TransactionFilter(client="pod-7")),
        ("topic:public/default/orders", TransactionFilter(topic="public/default/orders")),
        ("sub:billing", TransactionFilter(subscription="billing")),
        ("overdue:yes timedout:yes", TransactionFilter(overdue=True, timed_out=True)),
        ("pending:true", TransactionFilter(pending_acks=True)),
        ("since:1h", TransactionFilter(opened_after=datetime(2026, 3, 1, 11, tzinfo=UTC))),
        (
            "until:2026-02-01T10:30",
            TransactionFilter(opened_before=datetime(2026, 2, 1, 10, 30, tzinfo=UTC)),
        ),
    ],
)
def test_a_query_becomes_the_engines_filter(text: str, filter: TransactionFilter) -> None:
    assert understood(text) == filter


@pytest.mark.parametrize(
    "text", ["3:1042", "(844424930131968,1042)", "(3, 1042)", f"{3 << 48:016x}{1042:016x}"]
)
def test_every_form_of_an_id_asks_for_that_transaction(text: str) -> None:
    assert parse(text).txn_ids == (TxnID(3, 1042),)


def test_several_ids_ask_for_all_of_them_once() -> None:
    assert parse("3:1 (3,2) 3:1").txn_ids == (TxnID(3, 1), TxnID(3, 2))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stat:open", "Did you mean state:?"),
        ("zzzzzz:open", "There are state:"),
        ("state:oepn", "“oepn” is no state"),
        ("state:", "state: needs a value"),
        ("age:soon", "age:>5m"),
        ("age:<5m", "takes a shortest age"),
        ("topic:orders", "whole name"),
        ("tc:-1", "coordinator's number"),
        ("tc:65536", "coordinator's number"),
        ("overdue:no", "takes yes"),
        ("since:soon", "how long ago"),
        (f"since:{'9' * 9}d", "how long ago"),
        ('owner:"ann', "left open"),
        ('owner:""', "needs a value"),
        ("owner:a owner:b", "there twice"),
        ("owner:a 3:1", "3:1 is one transaction"),
        ("70000:1", "is no TxnID"),
        ("(1,2,3)", "is no TxnID"),
        ("x" * (MAX_LENGTH + 1), "at most"),
        ("owner:a\0b", "takes a name"),
    ],
)
def test_what_means_nothing_is_told_what_to_write(text: str, told: str) -> None:
    with pytest.raises(QueryError) as failure:
        parse(text, now=lambda: NOW)
    assert told in str(failure.value)


def test_a_value_is_toggled_in_the_text_and_the_rest_stays() -> None:
    query = parse('owner:"Ann Smith" state:open age:>5m')
    more = parse(query.toggled("state", "aborted"))
    assert more.filter.statuses == (TxnStatus.OPEN, TxnStatus.ABORTED)
    assert more.filter.owner == "Ann Smith"
    assert parse(more.toggled("state", "open")).filter.statuses == (TxnStatus.ABORTED,)
    assert query.toggled("state", "open") == 'owner:"Ann Smith" age:>5m'
    assert query.without("owner") == "state:open age:>5m"


def test_a_query_reads_back_as_itself() -> None:
    text = 'state:open,aborted owner:"Ann Smith" sub:billing'
    assert str(parse(text)) == text
    assert parse(str(parse("alice status:open"))).filter == understood("owner:alice state:open")
