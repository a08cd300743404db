"""The lines that pages offer really run, and answer what the page answers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client

from engine import Engine
from tests.console.browser.pages import PAGES
from tests.console.conftest import TOPIC, Orders, signed_in
from tests.server import Served, login_form
from tests.support.eventually import eventually
from txnconsole.access.roles import Role
from txnconsole.access.tokens import issue
from txnconsole.client.txnctl.app import main
from txnconsole.console.command_lines import TOKEN, WHY, Call, as_command_lines

_LINE = re.compile(r'data-copy="((?:curl|txnctl) [^"]*)"')
#: Questions that no REST call answers, and forms that ask nothing yet.
_UNANSWERED = {
    *("timeouts", "snapshots", "create-topic", "subscriptions", "figures", "search"),
    *("alert-silence", "alert-rule", "alert-channel", "settings-limits", "settings-masking"),
    *("bulk-abort", "transaction-document"),
}


def offered(page: str) -> dict[str, str]:
    """The lines of a page by their programs."""
    found = [unescape(line) for line in _LINE.findall(page)]
    return {line.partition(" ")[0]: line for line in found}


def test_a_line_is_quoted_for_a_shell_and_names_no_token() -> None:
    body = {"reason": "it's stuck"}
    call = Call("transactions/3:1/abort", {"a": "b c"}, ("x", "it's"), "POST", body)
    found = as_command_lines(call, "https://console.example")
    assert shlex.split(found.curl) == [
        *("curl", "-sS", "-H", f"Authorization: Bearer {TOKEN}", "-X", "POST"),
        *("-H", "Content-Type: application/json", "-d", json.dumps(body)),
        "https://console.example/api/v1/transactions/3:1/abort?a=b+c",
    ]
    assert found.txnctl is not None
    assert shlex.split(found.txnctl)[-1] == "it's"


def test_a_list_that_is_narrowed_by_its_opening_has_both_lines(db: None, engine: Engine) -> None:
    address = "/transactions?q=since:2026-03-01T14:00 until:2026-03-02T14:00%2B02:00"
    found = offered(signed_in("viewer").get(address).content.decode())
    after, before = "2026-03-01T14:00:00+00:00", "2026-03-02T14:00:00+02:00"
    assert shlex.split(found["txnctl"])[3:] == [
        *("transactions", "list", "--opened-after", after, "--opened-before", before)
    ]
    asked = parse_qs(urlsplit(shlex.split(found["curl"])[-1]).query)
    assert (asked["opened_after"], asked["opened_before"]) == ([after], [before])


def test_tokens_are_asked_for_as_the_page_has_them(db: None, engine: Engine) -> None:
    admin = signed_in("admin")
    for query, more, ended in (
        ("?user=eve", ["--user", "eve"], "ended=false"),
        ("?ended=1", ["--ended"], "ended=true"),
    ):
        found = offered(admin.get(f"/settings/tokens{query}").content.decode())
        assert shlex.split(found["txnctl"])[3:] == ["tokens", "list", *more]
        assert ended in found["curl"]


@pytest.mark.parametrize(("query", "more"), [("", []), ("?sort=longest", ["--longest"])])
def test_what_is_held_back_is_asked_in_the_order_of_the_page(
    db: None, engine: Engine, query: str, more: list[str]
) -> None:
    found = offered(signed_in("viewer").get(f"/held-back{query}").content.decode())
    assert shlex.split(found["txnctl"])[3:] == ["partitions", "held-back", *more]
    assert ("order=longest" in found["curl"]) is bool(more)


@pytest.mark.deep
def test_every_page_with_an_answer_over_rest_offers_the_call_and_it_answers(
    orders: Orders, engine: Engine, db: None
) -> None:
    names = {"topic": str(TOPIC), "subscription": "billing", "txn": str(orders.open)}
    admin = signed_in("admin")
    User.objects.create_user("flights-feed")
    secret = issue(User.objects.get(username="a-admin"), [Role.ADMIN])[1]
    program = Client(headers={"Authorization": f"Bearer {secret}"})
    without = set()
    for row in (row for row in PAGES if row.status == 200):
        page = admin.get(row.address.format(**names)).content.decode()
        line = offered(page).get("curl")
        if line is None:
            without.add(row.name)
            continue
        command, *arguments = shlex.split(line)
        assert (command, arguments[2]) == ("curl", f"Authorization: Bearer {TOKEN}"), row.name
        if "-X" not in arguments:  # The others would change something.
            address = urlsplit(arguments[-1])
            answer = program.get(f"{address.path}?{address.query}")
            assert answer.status_code == 200, (row.name, line, answer.content)
    assert without <= _UNANSWERED


def test_lines_run_in_a_shell_and_say_what_the_page_says(
    server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, token = server.topic(), server.token("admin")
    with server.client("admin") as client:
        opened = client.post("/transactions", json={"client": "it's", "timeout_ms": 600_000})
        txn_id: str = opened.json()["txn_id"]
        path = f"/topics/{topic}/partitions/0/messages"
        client.post(path, json={"txn_id": txn_id, "messages": [{"payload": "x"}]})
        client.put(f"/topics/{topic}/subscriptions/s", json={}).raise_for_status()
        run = client.post("/pipeline/runs", json={"kind": "audit", "parameters": {"topics": topic}})
        client.post(f"/pipeline/runs/{run.json()['id']}/cancel", json={}).raise_for_status()
        assert eventually(lambda: client.get("/invariants").json()["checks"] > 0, seconds=120)
    browser = _signed_in(server)
    monkeypatch.setenv("TXNCONSOLE_TOKEN", token)

    def run(address: str, said: str) -> None:
        """Both lines of a page, in a shell."""
        found = offered(browser.get(address).text)
        if shutil.which("curl"):
            line = found["curl"].replace(WHY, "a test of the line")
            ran = subprocess.run(["sh", "-ec", line], capture_output=True, text=True, check=True)
            assert said in ran.stdout, address
        arguments = shlex.split(found["txnctl"].replace(WHY, "a test of the line"))
        monkeypatch.setattr(sys, "argv", ["txnctl", "-o", "json", *arguments[1:]])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr()
        assert (exited.value.code, said in printed.out) == (0, True), (address, printed)

    for address, said in (
        (f"/transactions/{txn_id}", txn_id),
        (f"/transactions?q=topic:{topic} age:>0s&sort=oldest", txn_id),
        (f"/transactions?q=topic:{topic} since:1h until:2999-01-01", txn_id),
        (f"/topics/{topic}", '"ongoing_txns"'),
        (f"/topics/{topic}/partitions/0", txn_id),
        (f"/topics/{topic}/partitions/0/log", txn_id),
        (f"/explain?partition={topic}:0&message=0&subscription=s", txn_id),
        (f"/subscriptions/{topic}/s", topic),
        ("/coordinators", "low_water_mark"),
        ("/coordinators/0", "low_water_mark"),
        ("/invariants", "stable_position"),
        (f"/topics/{topic}/partitions/0/aborted", "[]"),
        (f"/topics/{topic}/partitions/0/snapshots?rehearse=1", "entries"),
        ("/pipeline?kind=audit", topic),
        (f"/topics/{topic}/partitions/0/operate/snapshot", "position"),
    ):
        run(address, said)


def _signed_in(server: Served) -> httpx.Client:
    browser = httpx.Client(base_url=server.url, follow_redirects=True, timeout=60)
    form = login_form(browser.get("/login").text, server.user, server.password)
    browser.post("/login", data=form).raise_for_status()
    return browser
