"""The process-wide engine."""

from __future__ import annotations

import os

import pytest

from engine import Engine
from tests.support import kept_pool
from tests.support.databases import Databases
from tests.support.together import at_once
from txnconsole.enginedb import wiring


def test_every_caller_gets_the_same_engine(engine: Engine) -> None:
    assert all(found is engine for found in at_once(8, lambda _: wiring.engine()))


def test_it_reaches_every_database(engine: Engine) -> None:
    assert engine.ping() == {"coordinator": None, "broker-1": None, "broker-2": None}


def test_a_closed_engine_is_made_anew(engine: Engine) -> None:
    wiring.close()
    again = wiring.engine()
    assert again is not engine
    assert set(again.ping().values()) == {None}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_an_engine_and_leaves_the_parents_alone(
    engine: Engine, databases: Databases
) -> None:
    before = engine.coordinator.open(owner="parent")

    child = os.fork()
    if child == 0:
        try:
            mine = wiring.engine()
            opened = mine.coordinator.open(owner="child", tc_id=before.txn_id.tc_id)
            wiring.close()
            fresh = mine is not engine and opened.txn_id > before.txn_id
        except BaseException:
            fresh = False
        os._exit(0 if fresh else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert engine.coordinator.get(before.txn_id).owner == "parent"
    assert set(engine.ping().values()) == {None}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_takes_no_connection_that_is_kept_between_tests(engine: Engine) -> None:
    engine.ping()
    wiring.close()
    kept = {each.info.backend_pid for idle in kept_pool._idle.values() for each in idle}
    assert kept

    child = os.fork()
    if child == 0:
        with wiring.engine().database.session() as session:
            os._exit(session._connection.info.backend_pid in kept)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
