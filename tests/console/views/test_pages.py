"""Every page on the real engine: what it shows, to whom, and when something is missing."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.console.browser import pages as browser_pages
from tests.console.conftest import SECRET, TOPIC, Orders, signed_in
from txnconsole.audit.models import AuditEntry
from txnconsole.console import health
from txnconsole.console.csp import POLICY

PAGES = [
    "/",
    "/transactions",
    "/topics",
    "/topics?system=1",
    f"/topics/{TOPIC}",
    f"/topics/{TOPIC}/partitions/0/log",
    "/subscriptions",
    f"/subscriptions/{TOPIC}/billing",
    "/coordinators",
    "/search?q=zzz",
]


@pytest.mark.parametrize("page", PAGES)
def test_an_anonymous_request_is_sent_to_the_login_and_back(db: None, page: str) -> None:
    answer = Client().get(page)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login?next=/")


@pytest.mark.deep
@pytest.mark.parametrize("page", PAGES)
def test_a_viewer_reads_every_page_under_the_policy(
    orders: Orders, viewer: Client, page: str
) -> None:
    answer = viewer.get(page)
    assert answer.status_code == 200
    assert answer["Content-Security-Policy"] == POLICY
    assert answer["Cache-Control"] in ("private, no-cache", "no-store")
    assert "style=" not in answer.content.decode()
    assert "<script>" not in answer.content.decode()


@pytest.mark.deep
def test_every_page_has_one_heading_that_tells_what_it_is(orders: Orders, db: None) -> None:
    """Also what is a dialog, when it is opened by itself."""
    names = {"topic": TOPIC, "txn": orders.open, "subscription": orders.subscription.name}
    admin, found = signed_in("admin"), {}
    for row in browser_pages.PAGES:
        if row.name == "settings-user":
            continue  # Of a user that the tests of the browser make.
        answer = admin.get(row.address.format(**names))
        found[row.name] = answer.content.decode().count("<h1")
    assert {name: count for name, count in found.items() if count != 1} == {}


@pytest.mark.deep
def test_asking_for_a_pages_head_answers_as_the_page_without_it_and_changes_nothing(
    orders: Orders, db: None
) -> None:
    """Also where a form is sent to the same address: no token of a form comes with HEAD."""
    names = {"topic": TOPIC, "txn": orders.open, "subscription": orders.subscription.name}
    admin, before = signed_in("admin"), AuditEntry.objects.count()
    for row in browser_pages.PAGES:
        if row.name == "settings-user":
            continue
        address = row.address.format(**names)
        head = admin.head(address)
        assert (head.status_code, head.content) == (admin.get(address).status_code, b""), address
    assert AuditEntry.objects.count() == before


def test_a_page_that_asks_before_a_change_leads_back_to_what_it_is_about(
    orders: Orders, db: None
) -> None:
    admin = signed_in("admin")
    asking = {
        f"/topics/{TOPIC}/delete": str(TOPIC),
        f"/topics/{TOPIC}/partitions/0/operate/offline": f"{TOPIC}:0",
        f"/subscriptions/{TOPIC}/billing/seek": f"{TOPIC}/billing",
        "/coordinators/scale": "Coordinators",
    }
    for address, of in asking.items():
        page = admin.get(address).content.decode()
        found = re.search(r'aria-label="Breadcrumb"><li><a href="([^"]+)">([^<]+)</a></li>', page)
        assert found is not None, address
        assert (found[2], admin.get(found[1]).status_code) == (of, 200)


@pytest.mark.parametrize("page", [page for page in PAGES if str(TOPIC) not in page])
def test_an_empty_system_has_its_pages_too(engine: Engine, viewer: Client, page: str) -> None:
    assert viewer.get(page).status_code == 200


def test_an_overview_without_traffic_shows_how_to_produce(engine: Engine, viewer: Client) -> None:
    text = viewer.get("/").content.decode()
    assert "curl -X POST http://testserver/api/v1/topics/" in text
    assert "/partitions/0/messages" in text
    # There is no topic yet, so that the second line alone would be told so.
    assert text.index("curl -X PUT http://testserver/api/v1/topics/") < text.index("curl -X POST")


def test_an_overview_counts_what_is_stuck_also_while_the_queue_is_away(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE_MS", -1)
    text = " ".join(viewer.get("/").content.decode().split())
    assert "<b>The queue cannot be reached.</b> Until it is back nothing expires" in text
    assert '<b class="num">1</b> partition held back for more than a minute.' in text
    assert "Nothing is stuck" not in text


def test_an_overview_with_traffic_needs_no_example(orders: Orders, viewer: Client) -> None:
    assert "curl -X POST" not in viewer.get("/").content.decode()


def test_the_navigation_shows_only_what_the_role_may_open(
    engine: Engine, viewer: Client, operator: Client
) -> None:
    assert "/audit" not in viewer.get("/").content.decode()
    assert "/audit" in operator.get("/").content.decode()
    refused = viewer.get("/audit")
    assert refused.status_code == 403
    assert "audit.read" in refused.content.decode()


@pytest.mark.parametrize(
    "page",
    [
        "/alerts/history?object=%00",
        "/alerts/history?rule=a%00b",
        "/alerts/history/since?since=2026-01-01T00:00:00Z&rule=%00",
        "/pipeline?kind=%00",
        "/pipeline/figures?name=%00",
        "/pipeline/figures/charts?name=%00",
        "/settings/users?after=%00",
        "/settings/tokens?user=%00",
    ],
)
def test_an_address_that_no_database_can_look_for_is_refused(
    engine: Engine, db: None, page: str
) -> None:
    answer = signed_in("admin").get(page)
    assert answer.status_code == 400
    assert "null character" in answer.content.decode()


def test_a_script_of_a_page_whose_session_ended_gets_401(engine: Engine, db: None) -> None:
    assert Client().get("/topics", headers={"HX-Request": "true"}).status_code == 401


def test_a_region_is_answered_without_the_frame_around_it(orders: Orders, viewer: Client) -> None:
    whole = viewer.get("/")
    part = viewer.get("/?part=now", headers={"HX-Request": "true"})
    assert "<html" in whole.content.decode()
    assert "<html" not in part.content.decode()
    assert "What holds readers back" in part.content.decode()
    assert "HX-Request" in whole["Vary"]


@pytest.mark.parametrize("part", ["now", "rest"])
def test_a_regions_address_opened_by_itself_is_the_page(
    orders: Orders, viewer: Client, part: str
) -> None:
    text = viewer.get(f"/?part={part}").content.decode()
    assert "What holds readers back" in text
    assert "Who held readers back" in text


def test_the_overview_names_what_holds_a_partition_back(orders: Orders, operator: Client) -> None:
    text = operator.get("/").content.decode()
    assert str(orders.partition) in text
    assert f"/transactions/{orders.open}/abort" in text


@pytest.mark.parametrize(
    "page",
    [
        *("/", "/held-back", "/coordinators/{}"),
        *(f"/topics/{TOPIC}/partitions/0", f"/subscriptions/{TOPIC}/billing"),
    ],
)
def test_a_row_from_which_one_aborts_is_its_transactions(
    orders: Orders, operator: Client, page: str
) -> None:
    """Rows hold still by their names for who points at one, and no button becomes another's."""
    text = operator.get(page.format(orders.open.tc_id)).content.decode()
    button = f'action="/transactions/{orders.open}/abort"'
    rows = [row for row in text.split("<tr")[1:] if button in row]
    assert rows
    for row in rows:
        assert re.match(rf' id="[^"]*\b{orders.open}\b', row), row[:200]


def test_a_topic_page_shows_positions_and_blocker(orders: Orders, viewer: Client) -> None:
    text = viewer.get(f"/topics/{TOPIC}").content.decode()
    assert "Partition 0" in text
    assert "Partition 1" in text
    assert str(orders.open) in text
    assert "4 of 8 offsets readable" not in text
    assert "5 of 8 offsets readable" in text


def test_a_subscription_page_shows_acknowledged_and_pending(orders: Orders, viewer: Client) -> None:
    text = viewer.get(f"/subscriptions/{TOPIC}/billing").content.decode()
    assert f"/transactions/{orders.open}" in text
    assert "individual" in text


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("/topics/public/default/none", "There is no topic public/default/none"),
        ("/topics/public/default/none/partitions/0/log", "There is no topic"),
        (f"/topics/{TOPIC}/partitions/9/log", "partition"),
        (f"/subscriptions/{TOPIC}/none", "none"),
        ("/transactions/3:999999", "There is no transaction 3:999999"),
        ("/nowhere", "There is no page at this address"),
    ],
)
def test_what_does_not_exist_is_404_and_says_what(
    orders: Orders, viewer: Client, page: str, told: str
) -> None:
    answer = viewer.get(page)
    assert answer.status_code == 404
    assert told in answer.content.decode()


def test_an_unknown_address_says_so_to_a_stranger_too(db: None) -> None:
    answer = Client().get("/nowhere")
    assert answer.status_code == 404
    assert "There is no page at this address" in answer.content.decode()


def test_a_failure_shows_the_request_id_and_nothing_else(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(engine: Engine) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("txnconsole.console.views.overview.read_summary", break_down)
    viewer.raise_request_exception = False
    answer = viewer.get("/", headers={"X-Request-ID": "r-17"})
    assert answer.status_code == 500
    assert "r-17" in answer.content.decode()
    assert "secret detail" not in answer.content.decode()


@pytest.mark.parametrize(("role", "shown"), [("operator", True), ("viewer", False)])
def test_a_payload_is_shown_as_text_to_operators_only(
    orders: Orders, request: pytest.FixtureRequest, role: str, shown: bool
) -> None:
    client: Client = request.getfixturevalue(role)
    text = client.get(f"{orders.log}/entries/5").content.decode()
    escaped = SECRET.replace("<", "&lt;").replace(">", "&gt;")
    assert (f">{escaped}</pre>" in text) is shown
    assert SECRET not in text
    assert ("hidden from your role" in text) is not shown


def test_a_viewer_reads_the_payloads_of_topics_that_are_opened_to_viewers(
    orders: Orders, viewer: Client, settings: Settings
) -> None:
    settings.VIEWER_PAYLOADS = ["public/default/ord*"]
    assert "card 4111" in viewer.get(f"{orders.log}/entries/5").content.decode()


def test_an_entry_that_is_not_there_is_404(orders: Orders, viewer: Client) -> None:
    assert viewer.get(f"{orders.log}/entries/99").status_code == 404


@pytest.mark.parametrize(
    ("moment", "offset"), [("2000-01-01 00:00", 0), ("2100-01-01T00:00:00Z", 7)]
)
def test_a_moment_leads_to_the_last_offset_then(
    orders: Orders, viewer: Client, moment: str, offset: int
) -> None:
    answer = viewer.get(orders.log, {"at": moment, "iso": "ru"})
    assert answer.status_code == 302
    assert answer["Location"] == f"{orders.log}?at={offset}&iso=ru"


@pytest.mark.parametrize("at", ["x", "-1", "9" * 30, "2026-02-30 00:00"])
def test_what_is_no_place_is_a_400_with_the_log_and_the_reason(
    orders: Orders, viewer: Client, at: str
) -> None:
    answer = viewer.get(orders.log, {"at": at})
    text = answer.content.decode()
    assert answer.status_code == 400
    assert "is neither an offset nor a moment" in text
    assert f'value="{at}"' in text
    assert 'aria-invalid="true"' in text
    assert "k-late" in text


@pytest.mark.parametrize("at", ["x", "-1", "25:00"])
def test_a_window_at_no_place_is_refused_as_json(orders: Orders, viewer: Client, at: str) -> None:
    answer = viewer.get(f"{orders.log}/window", {"at": at}, headers={"Accept": "application/json"})
    assert answer.status_code == 400
    assert "is neither an offset nor a moment" in answer.json()["message"]


def test_a_window_may_be_asked_for_by_a_moment(orders: Orders, viewer: Client) -> None:
    told = viewer.get(f"{orders.log}/window", {"at": "2100-01-01T00:00:00Z"}).json()
    assert told["at"] == 7


def test_the_pages_of_a_sidecar_buffered_topic_show_it_sensibly(
    engine: Engine, viewer: Client
) -> None:
    name = TopicName("public", "default", "aside")
    partition = PartitionName(name, 0)
    engine.topics.create(name, TopicSettings(buffer=BufferKind.SIDECAR))
    open_, committed = (engine.coordinator.open(owner="alice").txn_id for _ in range(2))
    engine.produce(partition, [NewMessage(payload=b"plain")])
    for txn_id in (open_, committed):
        engine.produce(
            partition, [NewMessage(payload=b"x"), NewMessage(payload=b"y")], txn_id=txn_id
        )
    engine.coordinator.end(committed, TxnAction.COMMIT)
    engine.finalizer.finalize(committed.tc_id)
    log = f"/topics/{name}/partitions/0/log"
    assert "sidecar buffer" in viewer.get(f"/topics/{name}").content.decode()
    assert "wait in the sidecar log" in viewer.get(log).content.decode()
    assert "wait in the sidecar log" in viewer.get(f"{log}/blocker").content.decode()
    window = viewer.get(f"{log}/window").json()
    assert [entry[:3] for entry in window["entries"]] == [
        [0, "m", None],
        [1, "m", str(committed)],
        [2, "m", str(committed)],
    ]
    assert window["summary"]["ongoing"] == 1
    assert window["summary"]["stable"] == window["summary"]["last"] == 2
    assert str(committed) in viewer.get(f"{log}/entries/2").content.decode()
    for txn_id in (open_, committed):
        assert viewer.get(f"/transactions/{txn_id}").status_code == 200
    assert viewer.get("/").status_code == 200
