from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client

from engine import Engine
from engine.model.txn_status import TxnAction
from tests.console.conftest import fault_beside, signed_in
from txnconsole.audit.models import AuditEntry
from txnconsole.jobs.work import JobState
from txnconsole.preferences.models import Preferences
from txnconsole.queue import heartbeat
from txnconsole.runs.disclosing import WITHHELD
from txnconsole.runs.models import Figure, PipelineRun

pytestmark = pytest.mark.usefixtures("valkey_url")


def _run(**columns: object) -> PipelineRun:
    given = {"kind": "audit", "parameters": {}, "who": "ann", "origin": "console"} | columns
    return PipelineRun.objects.create(**given)


def test_parameters_have_names_for_people_and_say_first_what_they_are(
    engine: Engine, db: None
) -> None:
    """Not what may be written: a first letter is made a capital, and would be refused."""
    page = signed_in("admin").get("/pipeline/start/replay").content.decode()
    assert 'for="id_keep_partitions">Keep partitions<' in page
    assert "Where it begins: earliest, latest or JSON" in page
    assert "Into the partitions of the same numbers: yes or no" in page


def test_a_run_that_goes_on_tells_how_fresh_it_is(engine: Engine, viewer: Client) -> None:
    began = Now() - timedelta(minutes=5)
    told = {"started_at": began, "heartbeat_at": Now() - timedelta(seconds=42)}
    running = _run(state=JobState.RUNNING, **told)
    page = viewer.get(f"/pipeline/{running.pk}").content.decode()
    assert re.search(r"heard of 4[2-9] s ago", page)
    assert "data-always" in page
    ended = _run(state=JobState.DONE, ended_at=Now(), **told)
    page = viewer.get(f"/pipeline/{ended.pk}").content.decode()
    assert "heard of" not in page
    assert "data-always" not in page


def test_an_operator_starts_a_run_and_cancels_it(engine: Engine, operator: Client) -> None:
    page = operator.get("/pipeline").content.decode()
    assert "No worker has been heard of" in page
    assert "No audit has been done yet" in page
    assert 'href="/pipeline/start/audit"' in page

    refused = operator.post("/pipeline/start/audit", {"topics": "no spaces please"})
    assert refused.status_code == 422
    assert "It is not of the form that is needed here" in refused.content.decode()
    assert 'value="no spaces please"' in refused.content.decode()

    answer = operator.post("/pipeline/start/audit", {"topics": "public/*", "reason": "monthly"})
    run = PipelineRun.objects.get()
    assert answer.headers["Location"] == f"/pipeline/{run.pk}"
    assert (run.parameters, run.who, run.origin) == (
        {"topics": "public/*"},
        "a-operator",
        "console",
    )
    shown = operator.get(f"/pipeline/{run.pk}").content.decode()
    assert "Waiting" in shown
    assert "monthly" in shown

    cancel = f"/pipeline/{run.pk}/cancel"
    assert "It has not begun" in operator.get(cancel).content.decode()
    unasked = operator.post(cancel)
    assert unasked.status_code == 422
    assert "Give a reason" in unasked.content.decode()
    operator.post(cancel, {"reason": "wrong topics"})
    run.refresh_from_db()
    assert run.state == JobState.CANCELLED
    operator.post(f"/pipeline/{run.pk}/repeat")
    assert PipelineRun.objects.order_by("-id")[0].repeats == run.pk
    actions = [entry.action for entry in AuditEntry.objects.order_by("sequence")]
    assert actions == ["run.start", "run.start", "run.cancel", "run.repeat"]
    assert AuditEntry.objects.get(action="run.cancel").reason == "wrong topics"


def test_what_workers_do_again_and_again_has_its_last_run_and_what_waits(
    engine: Engine, viewer: Client
) -> None:
    engine.coordinator.open(owner="alice", tc_id=3, timeout_ms=1_000)
    ended = engine.coordinator.open(owner="alice", tc_id=3).txn_id
    engine.coordinator.end(ended, TxnAction.ABORT)
    heartbeat.carried_out("expire")
    page = viewer.get("/pipeline").content.decode()
    rows = dict(re.findall(r'<tr id="task-(\w+)">(.*?)</tr>', page, re.DOTALL))
    assert list(rows) == ["expire", "sweep", "take_snapshots"]
    assert " ago<" in rows["expire"]
    assert "not known" in rows["sweep"]
    assert '<td class="right num">1</td>' in rows["sweep"]
    assert '<td class="right num">0</td>' in rows["take_snapshots"]


def test_a_schedule_that_cannot_be_kept_says_which_part_and_why(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = {"sudoku": timedelta(hours=1), "audit": timedelta(days=1)}
    monkeypatch.setattr(settings, "PIPELINE_SCHEDULE", schedule)
    page = html.unescape(viewer.get("/pipeline").content.decode())
    assert "“sudoku” in the schedule cannot be started</b>kind is one of audit," in page
    assert "“audit” in the schedule" not in page
    assert "every 1 d" in page


def test_what_cannot_be_kept_is_refused_with_what_was_filled_in(
    engine: Engine, operator: Client
) -> None:
    for filled, said in (
        ({"reason": "be\0cause"}, "Null characters are not allowed."),
        ({"reason": "r" * 501}, "Ensure this value has at most 500 characters"),
        ({"topics": "a/\0"}, "Null characters are not allowed."),
        ({"topics": "t" * 2001}, "It has more than 2000 characters."),
    ):
        given = {"topics": "a/b/*", "reason": "to be sure"} | filled
        refused = operator.post("/pipeline/start/audit", given)
        assert refused.status_code == 422
        page = html.unescape(refused.content.decode())
        assert said in page
        assert all(f'value="{text}"' in page for text in given.values())
        assert re.search(rf'name="{next(iter(filled))}"[^>]* aria-invalid="true"', page)
        assert page.count(said) == 1
    assert not PipelineRun.objects.exists()


def test_who_may_not_write_messages_is_told_so_before_a_job_that_does(
    engine: Engine, operator: Client
) -> None:
    page = operator.get("/pipeline").content.decode()
    assert 'href="/pipeline/start/audit"' in page
    assert "/pipeline/start/replay" not in page
    assert 'needs <span class="mono">message.produce</span>' in page
    asked = operator.get("/pipeline/start/replay")
    assert asked.status_code == 403
    assert "message.produce" in asked.content.decode()
    run = _run(kind="replay", state=JobState.DONE, ended_at=Now())
    assert f"/pipeline/{run.pk}/repeat" not in operator.get(f"/pipeline/{run.pk}").content.decode()


def test_each_parameter_that_is_refused_says_so_beside_itself(engine: Engine, db: None) -> None:
    given = {"name": "a b", "source": "public/default/orders", "start": "soon"}
    answer = signed_in("admin").post("/pipeline/start/replay", given)
    assert answer.status_code == 422
    assert fault_beside(answer, "name").startswith("It is not of the form that is needed here:")
    assert fault_beside(answer, "target") == "It is required."
    assert fault_beside(answer, "start").startswith("It is not of the form that is needed here:")
    assert "id_source_error" not in answer.content.decode()


def test_a_form_of_a_run_begins_with_what_its_address_says(
    engine: Engine, operator: Client
) -> None:
    page = operator.get("/pipeline/start/audit?topics=a/b/*&reason=again").content.decode()
    assert 'value="a/b/*"' in page
    assert 'value="again"' in page


def test_a_viewer_sees_runs_and_starts_none(engine: Engine, viewer: Client) -> None:
    run = _run(state=JobState.DONE, ended_at=Now())
    page = viewer.get("/pipeline").content.decode()
    assert "/pipeline/start/" not in page
    assert "job.start" in page
    shown = viewer.get(f"/pipeline/{run.pk}").content.decode()
    assert f"/pipeline/{run.pk}/repeat" not in shown
    assert '<button class="btn" type="button" disabled>Run again</button>' in shown
    assert viewer.get("/pipeline/start/audit").status_code == 403
    for action in ("repeat", "cancel"):
        assert viewer.post(f"/pipeline/{run.pk}/{action}").status_code == 403
    assert PipelineRun.objects.count() == 1


def test_what_a_job_said_is_shown_to_those_who_may_read_payloads(
    engine: Engine, viewer: Client, operator: Client
) -> None:
    run = _run(state=JobState.FAILED, exit_code=1, error="The value 4111", log_tail="value 4111")
    assert operator.get(f"/pipeline/{run.pk}").content.count(b"4111") == 2
    page = viewer.get(f"/pipeline/{run.pk}").content.decode()
    assert "4111" not in page
    assert WITHHELD in page


def test_a_run_tells_each_figure_once_in_words_and_parameters_as_they_were_sent(
    engine: Engine, viewer: Client
) -> None:
    run = _run(
        parameters={"topics": "public/*", "verify": True},
        figures={"rows_in": 12345, "rows_out": 7, "unaudited": 23456, "since": "2026-11-01"},
    )
    page = viewer.get(f"/pipeline/{run.pk}").content.decode()
    assert page.count("12,345") == 1
    assert "12345" not in page
    assert "rows_" not in page
    assert re.search(r"<dt>Unaudited</dt><dd[^>]*>23,456</dd>", page)
    assert re.search(r"<dt>Since</dt><dd[^>]*>2026-11-01</dd>", page)
    assert re.search(r"<dt>verify</dt><dd[^>]*>true</dd>", page)
    assert re.search(r"<dt>topics</dt><dd[^>]*>public/\*</dd>", page)


def test_a_run_that_cannot_be_repeated_is_no_page_that_could_not_be_read(
    engine: Engine, operator: Client
) -> None:
    run = _run(state=JobState.DONE, parameters={"of": "an earlier version"})
    page = operator.post(f"/pipeline/{run.pk}/repeat").content.decode()
    assert "<h1>That did not work</h1>" in page
    assert "is not a parameter of this job" in page


def test_an_audit_with_findings_is_shown_with_its_evidence(engine: Engine, viewer: Client) -> None:
    finding = {
        "rule": "gap",
        "topic": "public/default/orders",
        "partition": 3,
        "log": "marker",
        "offset": 17,
        "txn_id": "3:42",
        "evidence": {"begins_at": 17, "previous_ends_at": 15},
    }
    result = {"holds": False, "found": {"gap": 1}, "rules": {"gap": "An entry that <b>"}}
    run = _run(
        state=JobState.DONE,
        found=True,
        ended_at=Now(),
        figures={
            "rows_in": 12345,
            "rows_out": 1,
            "offsets": {"public/default/orders:3": {"from": 5, "to": 90, "stable": 89}},
        },
        result=result | {"findings": [finding]},
    )
    page = viewer.get(f"/pipeline/{run.pk}").content.decode()
    assert "Findings" in page
    assert 'href="/transactions/3:42"' in page
    assert "&quot;previous_ends_at&quot;: 15" in page
    assert "An entry that &lt;b&gt;" in page
    assert "12,345" in page
    assert '<td class="right num">89</td>' in page
    overview = viewer.get("/pipeline").content.decode()
    assert '<b class="num">1</b> contradiction to what the engine says' in overview


def test_an_audit_of_some_topics_says_so_and_hides_no_finding_of_one_of_all(
    engine: Engine, viewer: Client
) -> None:
    done = {"state": JobState.DONE, "ended_at": Now()}
    _run(**done, figures={"rows_in": 1})
    found = _run(**done, found=True, figures={"rows_in": 900, "rows_out": 2, "unaudited": 3})
    some = {"rows_in": 7, "rows_out": 0, "unaudited": 0}
    limited = _run(**done, parameters={"topics": "public/default/a*"}, figures=some)

    def told() -> list[str]:
        page = viewer.get("/pipeline").content.decode()
        panel = page[page.index(">Trust<") : page.index('id="h-jobs"')]
        texts = [re.sub(r"<[^>]+>", "", each) for each in panel.split("<p>")[1:]]
        return [" ".join(text.split()) for text in texts]

    newest, of_all = told()
    assert f"Audit {limited.pk} recomputed 7 entries of public/default/a* from" in newest
    assert newest.endswith("the engine says the same.")
    assert f"Audit {found.pk} recomputed 900 entries from" in of_all
    assert "2 contradictions to what the engine says. Logs that recover and were" in of_all
    assert "not looked at: 3." in of_all

    again = _run(**done, figures={"rows_in": 901})
    [only] = told()
    assert f"Audit {again.pk} recomputed 901 entries from" in only


def test_a_run_s_partitions_and_findings_are_told_a_page_at_a_time(
    engine: Engine, viewer: Client
) -> None:
    place = {"rule": "gap", "topic": "public/default/orders", "partition": 3, "log": "marker"}
    findings = [place | {"offset": n, "txn_id": None, "evidence": {"is": n}} for n in range(70)]
    read = {"from": 0, "to": 1, "stable": 1}
    run = _run(
        state=JobState.DONE,
        ended_at=Now(),
        figures={"offsets": {f"public/default/orders:{n}": read for n in range(40)}},
        result={"found": {"gap": 70}, "findings": findings},
    )

    def shown(query: str) -> tuple[list[int], list[int], str]:
        page = html.unescape(viewer.get(f"/pipeline/{run.pk}{query}").content.decode())
        partitions = [int(n) for n in re.findall(r">public/default/orders:(\d+)</th>", page)]
        return partitions, [int(n) for n in re.findall(r'"is": (\d+)', page)], page

    partitions, found, page = shown("")
    assert (partitions, found) == (list(range(30)), list(range(30)))
    assert "1–30 of 70 findings" in page
    assert 'href="?offsets=30#h-offsets"' in page
    partitions, found, page = shown("?offsets=30&findings=60")
    assert (partitions, found) == (list(range(30, 40)), list(range(60, 70)))
    assert 'href="?offsets=30&findings=30#h-findings"' in page
    assert f'hx-get="/pipeline/{run.pk}?offsets=30&findings=60"' in page


def test_runs_are_filtered_and_paged(engine: Engine, viewer: Client) -> None:
    runs = [_run() for _ in range(32)]
    _run(state=JobState.FAILED, error="the disk is full", ended_at=Now())
    page = viewer.get("/pipeline?state=queued").content.decode()
    assert page.count('id="run-') == 30
    assert f"before={runs[2].pk}" in page
    older = viewer.get(f"/pipeline?state=queued&before={runs[2].pk}").content.decode()
    assert older.count('id="run-') == 2
    assert viewer.get("/pipeline?state=failed").content.decode().count('id="run-') == 1
    assert viewer.get("/pipeline/999999").status_code == 404


def test_runs_that_come_while_one_reads_wait_behind_a_count(engine: Engine, viewer: Client) -> None:
    first = _run()
    page = viewer.get("/pipeline?kind=audit").content.decode()
    assert "new since this page was read" not in page
    [again] = re.findall(r'id="region"[^>]*hx-get="([^"]*)"', page)
    later = [_run(), _run(), _run(kind="metrics")]
    region = viewer.get(html.unescape(again), headers={"HX-Request": "true"}).content.decode()
    assert re.findall(r'id="run-(\d+)"', region) == [str(first.pk)]
    assert "<b>2</b> new since this page was read" in region
    assert 'href="/pipeline?kind=audit"' in region
    shown = viewer.get("/pipeline?kind=audit").content.decode()
    assert re.findall(r'id="run-(\d+)"', shown) == [
        str(one.pk) for one in (later[1], later[0], first)
    ]


def test_figures_are_shown_by_what_they_are_about(engine: Engine, viewer: Client) -> None:
    empty = viewer.get("/pipeline/figures").content.decode()
    assert "No figures" in empty
    assert "js/shell.js" in empty  # Theme, search and palette are there without figures too.
    sums = {"messages": 0, "batches": 0, "bytes": 0, "committed": 3, "aborted": 1}
    for name, held in (("ann", 61_000), ("<b>eve", 1_000)):
        given = {"dimension": "owner", "name": name, "held_ms": held, "resolution": "hour"}
        Figure.objects.create(at=datetime(2026, 1, 31, 12, tzinfo=UTC), **sums, **given)
    page = viewer.get("/pipeline/figures?by=owner&per=hour").content.decode()
    assert "&lt;b&gt;eve" in page
    assert "1 min 01 s" in page
    assert "Hour (UTC)" in page
    Preferences.objects.update_or_create(
        user=User.objects.get(username="a-viewer"), defaults={"zone": "Asia/Kolkata"}
    )
    elsewhere = viewer.get("/pipeline/figures?by=owner&per=hour").content.decode()
    assert "Hour (Asia/Kolkata)" in elsewhere
    assert ">2026-01-31 17:30:00<" in elsewhere
    assert "25.0 %" in page
    assert 'value="100"' in page
    assert "ann" not in viewer.get("/pipeline/figures?by=owner&name=eve").content.decode()
    assert viewer.get("/pipeline/figures?by=nonsense&per=x").status_code == 200


def test_older_figures_are_a_page_away(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.figures.PAGE_ROWS", 3)
    sums = {"messages": 1, "batches": 1, "bytes": 1, "committed": 3, "aborted": 1, "held_ms": 0}
    for hour in (12, 13):
        at = datetime(2026, 1, 31, hour, tzinfo=UTC)
        for name in ("a/b/c", "a/b/d:x", "a/b/e"):
            Figure.objects.create(at=at, dimension="topic", resolution="hour", name=name, **sums)
            Figure.objects.create(at=at, dimension="owner", resolution="hour", name=name, **sums)

    def shown(address: str) -> tuple[list[str], list[str]]:
        page = html.unescape(viewer.get(address).content.decode())
        rows = re.findall(r">2026-01-31 (\d\d):00:00<.*?>(a/b/\S+)<", page)
        return [f"{hour} {name}" for hour, name in rows], re.findall(
            r'rel="next" href="(.*?)"', page
        )

    first = "/pipeline/figures?by=topic&per=hour"
    rows, older = shown(first)
    assert rows == ["13 a/b/c", "13 a/b/d:x", "13 a/b/e"]
    monkeypatch.setattr("txnconsole.console.figures.PAGE_ROWS", 2)
    rows, older = shown(first)
    assert rows == ["13 a/b/c", "13 a/b/d:x"]
    rows, older = shown(f"/pipeline/figures{older[0]}")
    assert rows == ["13 a/b/e", "12 a/b/c"]
    rows, older = shown(f"/pipeline/figures{older[0]}")
    assert (rows, older) == (["12 a/b/d:x", "12 a/b/e"], [])
    end = viewer.get(f"{first}&before=0:a").content.decode()
    assert "No older figures" in end
    assert "js/shell.js" in end
    for nonsense in ("x", "-1:a", "99999999999999:a", "²:a"):
        assert shown(f"{first}&before={nonsense}")[0] == ["13 a/b/c", "13 a/b/d:x"]


def test_the_charts_sum_amounts_over_names_and_take_percentiles_of_the_slowest(
    engine: Engine, viewer: Client
) -> None:
    def charts(query: str) -> dict[str, Any]:
        answer: dict[str, Any] = viewer.get(f"/pipeline/figures/charts?{query}").json()
        return answer

    assert charts("by=client")["at"] == []
    sums = {"messages": 0, "batches": 0, "bytes": 0, "held_ms": 0}
    for hour, name, ends, p99 in ((9, "a", (3, 1), 20), (9, "b", (5, 0), 70), (11, "b", (7, 2), 9)):
        Figure.objects.create(
            **sums,
            at=datetime(2026, 1, 31, hour, tzinfo=UTC),
            dimension="client",
            resolution="hour",
            name=name,
            committed=ends[0],
            aborted=ends[1],
            begin_commit_p99=p99,
        )
    drawn = charts("by=client&per=hour")
    first = int(datetime(2026, 1, 31, 9, tzinfo=UTC).timestamp() * 1000)
    # The last point only says where the newest hour ends.
    assert drawn["at"] == [first + hour * 3_600_000 for hour in range(4)]
    assert drawn["committed"] == [8, 0, 7, 0]
    assert drawn["aborted"] == [1, 0, 2, 0]
    assert drawn["begin_commit_p99"] == [70, None, 9, None]
    assert [trace["meta"] for trace in drawn["figures"]["amount"]["data"]] == drawn["amounts"]
    assert charts("by=client&per=hour&name=a")["begin_commit_p99"] == [20, None]
    assert charts("by=topic")["amounts"] == ["messages"]
    page = viewer.get("/pipeline/figures?by=client&name=b").content.decode()
    assert 'data-charts="/pipeline/figures/charts?by=client&amp;per=hour&amp;name=b"' in page
    assert "figures.js" in page
    assert "plotly" not in viewer.get("/pipeline/figures?by=topic").content.decode()
