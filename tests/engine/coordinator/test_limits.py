"""How many transactions may be open at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine import Engine
from engine.coordinator import limits
from engine.coordinator.limits import OpenLimits
from engine.model.errors import LimitExceeded
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.engine.concurrency.waiting import at_once
from tests.engine.support import abort, commit, open_txn, overdue


def limited(engine: Engine, **changes: int) -> None:
    engine.coordinator._limits = OpenLimits(replace(engine.settings, **changes))


def test_an_owner_has_no_more_open_than_it_may_and_others_are_free(engine: Engine) -> None:
    limited(engine, max_open_per_owner=3)
    txns = [open_txn(engine, tc_id=None, owner="alice") for _ in range(3)]
    with pytest.raises(LimitExceeded) as refused:
        open_txn(engine, owner="alice")
    assert refused.value.data == {"limit": 3, "count": 3}
    assert "alice" in refused.value.message
    assert "limit is 3" in refused.value.message
    open_txn(engine, owner="bob")
    assert engine.coordinator.load().live[TxnStatus.OPEN] == 4
    for ended, ending in zip(txns, (commit, abort, None), strict=True):
        if ending is None:  # an expired one counts no more, either
            overdue(engine, ended)
            engine.coordinator.expire()
        else:
            ending(engine, ended)
        open_txn(engine, owner="alice")
        with pytest.raises(LimitExceeded):
            open_txn(engine, owner="alice")


def test_a_limit_of_zero_is_none(engine: Engine) -> None:
    limited(engine, max_open_per_owner=0)
    assert [open_txn(engine).sequence for _ in range(20)] == list(range(20))


def test_many_at_once_pass_the_limit_by_no_more_than_are_at_it_at_once(engine: Engine) -> None:
    limited(engine, max_open_per_owner=10)
    callers = 6

    def opens() -> list[TxnID | LimitExceeded]:
        found: list[TxnID | LimitExceeded] = []
        for _ in range(5):
            try:
                found.append(open_txn(engine))
            except LimitExceeded as error:
                found.append(error)
        return found

    calls: list[Callable[[], list[TxnID | LimitExceeded]]] = [opens] * callers
    answers = [one for found in at_once(*calls) for one in found]  # type: ignore[union-attr]
    opened = [one for one in answers if isinstance(one, TxnID)]
    assert 10 <= len(opened) < 10 + callers
    assert len(answers) == 5 * callers


def test_far_from_the_limit_few_openings_count(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(engine, max_open_per_owner=640)
    counted: list[int] = []
    grant = OpenLimits._grant
    monkeypatch.setattr(
        OpenLimits,
        "_grant",
        lambda self, *args: (counted.append(args[1]), grant(self, *args))[1],
    )
    monkeypatch.setattr(limits, "_SECONDS", 3600.0)
    for _ in range(22):
        open_txn(engine)
    assert counted == [0, 10, 20]
