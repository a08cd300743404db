"""Aborting: a reason is required, the effect is told, and every attempt is recorded."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.test import Client

from engine import Engine
from engine.model.errors import CoordinatorUnavailable
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from tests.console.conftest import TOPIC, Orders, begin, produce
from tests.console.questions import Questions
from tests.engine.support import archive
from txnconsole.audit.models import AuditEntry

REASON = "left hanging by a dead producer"


def test_the_dialog_tells_what_would_change(orders: Orders, operator: Client) -> None:
    text = operator.get(f"/transactions/{orders.open}/abort").content.decode()
    assert "discarded; the stable position moves from" in text
    assert "given back for redelivery" in text


def test_a_clients_name_turns_no_sentence_around(engine: Engine, operator: Client) -> None:
    """It may hold the character that has all after it read from right to left."""
    engine.topics.create(TOPIC, TopicSettings())
    name = "pod-7 \N{RIGHT-TO-LEFT OVERRIDE}gnp.exe"
    txn_id = begin(engine, client=name)
    produce(engine, PartitionName(TOPIC, 0), "hidden", txn_id=txn_id)
    for path in (f"/transactions/{txn_id}/abort", f"/topics/{TOPIC}/partitions/0/log"):
        assert f"(<bdi>{name}</bdi>)" in operator.get(path).content.decode()


def test_of_many_partitions_the_dialog_tells_what_moves_by_a_question_to_each_broker(
    engine: Engine, operator: Client, questions: Questions
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=9))
    txn_id = begin(engine)
    for number in range(9):
        produce(engine, PartitionName(TOPIC, number), "hidden", txn_id=txn_id)
    operator.get(f"/transactions/{txn_id}/abort")
    with questions.at_most(6):
        text = operator.get(f"/transactions/{txn_id}/abort").content.decode()
    assert 'The stable position of <b class="num">9</b> partitions moves:' in text
    assert 'and <span class="num">4</span> more' in text
    assert (
        '<b class="num">9</b> messages in <span class="num">9</span> partitions discarded' in text
    )


@pytest.mark.parametrize("reason", ["", "short", "       x   "])
def test_without_a_reason_of_eight_characters_nothing_happens(
    orders: Orders, operator: Client, engine: Engine, reason: str
) -> None:
    answer = operator.post(
        f"/transactions/{orders.open}/abort", {"reason": reason}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 422
    assert "Give a reason of at least 8 characters." in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert engine.coordinator.get(orders.open).status is TxnStatus.OPEN
    assert not AuditEntry.objects.exists()


def test_an_abort_is_decided_and_recorded(orders: Orders, operator: Client, engine: Engine) -> None:
    answer = operator.post(
        f"/transactions/{orders.open}/abort", {"reason": REASON}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 204
    assert answer["HX-Trigger"] == "aborted"
    ended = engine.coordinator.get(orders.open)
    assert ended.status is TxnStatus.ABORTING
    assert ended.end_reason is EndReason.OPERATOR
    assert ended.end_detail == REASON
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.action, entry.reason) == ("a-operator", "transaction.abort", REASON)
    assert (entry.object, entry.result) == (f"transaction:{orders.open}", "done")
    assert entry.before == '{"owner":"alice","status":"OPEN"}'
    assert entry.after == '{"status":"ABORTING"}'
    assert REASON in operator.get("/audit").content.decode()


def test_without_a_script_the_form_leads_to_the_transaction(
    orders: Orders, operator: Client
) -> None:
    answer = operator.post(f"/transactions/{orders.open}/abort", {"reason": REASON})
    assert answer.status_code == 302
    assert answer["Location"] == f"/transactions/{orders.open}"


def test_a_committed_transaction_cannot_be_aborted_and_the_attempt_is_recorded(
    orders: Orders, operator: Client
) -> None:
    answer = operator.post(f"/transactions/{orders.committed}/abort", {"reason": REASON})
    assert answer.status_code == 409
    assert "cannot abort" in answer.content.decode()
    assert AuditEntry.objects.get().result == "InvalidTxnStatus"


def test_what_was_decided_while_the_dialog_stood_open_is_not_offered_again(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    path = f"/transactions/{orders.open}/abort"
    assert "Keep it open" in operator.get(path).content.decode()
    engine.coordinator.end(orders.open, TxnAction.COMMIT)
    for script in ({}, {"HX-Request": "true"}):
        answer = operator.post(path, {"reason": REASON}, headers=script)
        text = answer.content.decode()
        assert answer.status_code == 409
        assert "is decided" in text
        assert "COMMITTING" in text
        assert re.search(r'role="alert">[^<]*cannot abort', text), text
        assert "Keep it open" not in text
        assert "<form method" not in text.partition('id="dialog-title"')[2].partition("</main>")[0]
    late = operator.post(path, {"reason": ""})
    assert late.status_code == 422
    assert "There is nothing left to abort." in late.content.decode()


def test_who_aborts_what_another_has_aborted_since_is_told_so(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    """The dialog closed as after their own abort."""
    path = f"/transactions/{orders.open}/abort"
    assert "Keep it open" in operator.get(path).content.decode()
    engine.coordinator.end(
        orders.open, TxnAction.ABORT, reason=EndReason.OPERATOR, detail="the night shift's"
    )
    answer = operator.post(path, {"reason": REASON}, headers={"HX-Request": "true"})
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "HX-Trigger" not in answer
    assert "is decided" in text
    assert "Ended by operator: <bdi>the night shift&#x27;s</bdi>." in text


def test_nobody_is_asked_whether_to_abort_what_is_decided(orders: Orders, operator: Client) -> None:
    for txn_id in (orders.committed, orders.aborted):
        text = operator.get(f"/transactions/{txn_id}/abort").content.decode()
        assert "There is nothing left to abort." in text
        assert "<textarea" not in text


def test_an_archived_transaction_cannot_be_aborted_and_its_dialog_says_so(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    assert archive(engine) == 2
    path = f"/transactions/{orders.committed}/abort"
    shown, refused = operator.get(path), operator.post(path, {"reason": REASON})
    assert (shown.status_code, refused.status_code) == (200, 409)
    assert "cannot abort" in refused.content.decode()


def test_an_unreachable_coordinator_is_told_in_the_dialog(
    orders: Orders, operator: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CoordinatorUnavailable("No answer.")

    monkeypatch.setattr(type(engine.coordinator), "end", fail)
    answer = operator.post(f"/transactions/{orders.open}/abort", {"reason": REASON})
    assert answer.status_code == 503
    assert "No answer." in answer.content.decode()
    assert AuditEntry.objects.get().result == "CoordinatorUnavailable"


def test_a_viewer_sees_the_button_disabled_and_is_refused(
    orders: Orders, viewer: Client, engine: Engine
) -> None:
    text = viewer.get(f"/transactions/{orders.open}").content.decode()
    assert 'needs <span class="mono">transaction.abort_any</span>' in text
    answer = viewer.post(f"/transactions/{orders.open}/abort", {"reason": REASON})
    assert answer.status_code == 403
    assert engine.coordinator.get(orders.open).status is TxnStatus.OPEN


def test_a_form_without_its_token_is_refused(orders: Orders, operator: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    asked_on = {"referer": f"http://testserver/transactions/{orders.open}/abort"}
    answer = strict.post(f"/transactions/{orders.open}/abort", {"reason": REASON}, headers=asked_on)
    assert answer.status_code == 403
    card = answer.content.decode()
    assert "form has expired" in card
    back = f"/login?unsent=1&amp;next=/transactions/{quote(str(orders.open))}/abort%23unsent"
    assert f'href="{back}">Back to the form' in card
    in_dialog = strict.post(
        f"/transactions/{orders.open}/abort", {"reason": REASON}, headers={"HX-Request": "true"}
    )
    assert in_dialog.status_code == 403
    assert "before you last signed in. Reload the page and send it again.</span>" in (
        in_dialog.content.decode()
    )
    assert in_dialog["HX-Refresh"] == "true"
