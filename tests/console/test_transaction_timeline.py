"""The figure of a transaction's life."""

from __future__ import annotations

from engine.inspect.timeline import Timeline
from engine.model.txn_status import TxnStatus
from tests.console.lives import transaction
from txnconsole.console.transaction_timeline import figure, lanes


def test_idle_time_is_told_and_drawn_short_on_demand() -> None:
    """An hour open, then a second until its end was carried out."""
    one = Timeline(
        transaction=transaction(TxnStatus.ABORTED, decided=3600, ended=3601),
        partitions=(),
        subscriptions=(),
        unavailable={},
    )
    whole, short = (figure(one, lanes(one), hide_idle=hide) for hide in (False, True))
    [[since, until, took]] = whole["idle"]
    assert (since, until, took) == (0, 60, "1 h")
    bars = {trace["meta"]: trace for trace in short["data"]}
    assert bars["OPEN"]["x"][0] < 0.01  # Minutes: an hour is drawn as less than a second.
    assert bars["ABORTING"]["x"] == [round(1 / 60, 4)]
    axis = short["layout"]["xaxis"]
    assert axis["ticktext"] == ["0 ms", "1 h", "1 h 00 min"]
    assert "ticksuffix" not in axis


def test_without_idle_time_nothing_is_drawn_otherwise() -> None:
    one = Timeline(
        transaction=transaction(TxnStatus.OPEN, decided=None, ended=None),
        partitions=(),
        subscriptions=(),
        unavailable={},
    )
    assert figure(one, lanes(one))["idle"] == []
    assert figure(one, lanes(one), hide_idle=True) == figure(one, lanes(one))
