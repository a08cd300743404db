from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.server import Served
from txnconsole.client import Client
from txnconsole.pipeline.jobs import replay
from txnconsole.pipeline.jobs.replay import Plan, Progress
from txnconsole.pipeline.jobs.run import WRONG_OPTIONS, Run, WrongOptions, outcome
from txnconsole.pipeline.offsets import Place, Position
from txnconsole.pipeline.over_http import HttpAccess

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def _plan(**changes: object) -> Plan:
    given = {
        "source": "a/b/c",
        "target": "a/b/d",
        "where": "",
        "payload": "",
        "key": "",
        "keep_partitions": False,
        "start": {"0": 0, "1": 0},
        "end": {"0": 100, "1": 30},
        "batch_messages": 50,
        "asked": {"start": "earliest", "to": "latest"},
    }
    return Plan(**given | changes)  # type: ignore[arg-type]


def test_the_batches_of_a_plan_cover_its_range_once() -> None:
    batches = list(_plan().batches())
    zero, one = Place("a/b/c", 0), Place("a/b/c", 1)
    assert batches[0][0] == {zero: 0, one: 0}
    assert batches[-1][1] == {zero: 100, one: 30}
    assert [end for _, end in batches[:-1]] == [start for start, _ in batches[1:]]
    assert all(sum(end.values()) - sum(start.values()) <= 50 for start, end in batches)
    assert list(_plan(end={"0": 0, "1": 0}).batches()) == []


@given(
    st.dictionaries(st.sampled_from("0123456"), st.tuples(*[st.integers(0, 60)] * 2), min_size=1),
    st.integers(1, 70),
)
def test_a_plan_tells_how_many_batches_it_has(
    ranges: dict[str, tuple[int, int]], batch_messages: int
) -> None:
    """A replay goes through them one by one: a list of all would have every offset of each."""
    start = {number: min(ends) for number, ends in ranges.items()}
    end = {number: max(ends) for number, ends in ranges.items()}
    plan = _plan(start=start, end=end, batch_messages=batch_messages)
    assert plan.count == len(list(plan.batches()))


def test_a_plan_is_kept_with_its_end_and_another_under_its_name_is_refused(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "again")
    assert progress.plan(_plan()) == _plan()
    moved = _plan(end={"0": 500, "1": 500})
    assert progress.plan(moved) == _plan()
    with pytest.raises(WrongOptions, match="another replay, whose where is ''"):
        progress.plan(_plan(where="offset > 5"))
    with pytest.raises(WrongOptions, match="whose target is 'a/b/d'"):
        progress.plan(_plan(target="a/b/e"))
    assert progress.done == 0
    progress.note(2)
    assert progress.done == 2
    assert _plan().guard != moved.guard


@pytest.mark.parametrize("content", ["", '{"source": "a/b', "[]", '{"from": 0}'])
def test_a_damaged_plan_is_refused_by_its_name_and_progress_that_is_damaged_counts_as_lost(
    tmp_path: Path, content: str
) -> None:
    progress = Progress(tmp_path / "again")
    progress.plan(_plan())
    progress.note(2)
    (tmp_path / "again" / "done").write_text("" if content else "\0\0")
    assert progress.done == 0
    (tmp_path / "again" / "plan.json").write_text(content)
    with pytest.raises(WrongOptions, match=r"again/plan\.json is damaged .* Delete it"):
        progress.plan(_plan())


def test_without_its_plan_a_replay_begins_from_the_start(tmp_path: Path) -> None:
    """The batches of another range are others: those of the same number are not done."""
    progress = Progress(tmp_path / "again")
    progress.plan(_plan())
    progress.note(2)
    (tmp_path / "again" / "plan.json").unlink()
    progress.plan(_plan(end={"0": 500, "1": 500}))
    assert progress.done == 0


@pytest.mark.parametrize("name", [".", "..", "", "a/b", "é", "n" * 101])
def test_a_name_that_is_no_directory_of_its_own_is_refused(name: str) -> None:
    options = replay._parse([f"--name={name}", "--source=a/b/c", "--target=a/b/d"])
    with pytest.raises(WrongOptions, match="--name is of letters"):
        replay._work(options, Run("replay", supervised=False))


def test_another_range_under_a_known_name_is_refused_and_the_same_one_goes_on(
    tmp_path: Path,
) -> None:
    progress = Progress(tmp_path / "again")
    progress.plan(_plan())
    from_two = {"start": '{"0": 2}', "to": "latest"}
    with pytest.raises(WrongOptions, match="whose start is 'earliest': give the same"):
        progress.plan(_plan(start={"0": 2, "1": 30}, asked=from_two))
    to_five = {"start": "earliest", "to": '{"0": 5}'}
    with pytest.raises(WrongOptions, match="whose to is 'latest'"):
        progress.plan(_plan(end={"0": 5, "1": 30}, asked=to_five))
    # The offsets that "latest" was, written out.
    written_out = {"start": "earliest", "to": '{"0": 100, "1": 30}'}
    assert progress.plan(_plan(asked=written_out)) == _plan()


def test_a_target_that_cannot_take_it_is_refused_and_does_not_use_up_the_name(
    credentials: dict[str, str],
    tmp_path: Path,
    new_topic: Callable[[int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TXNCONSOLE_URL", credentials["url"])
    monkeypatch.setenv("TXNCONSOLE_TOKEN", credentials["token"])
    monkeypatch.delattr(replay, "spark_for")  # It is refused before Spark is started.
    asked = [f"--progress={tmp_path}", "--name=typed", f"--source={new_topic(2)}"]
    run = Run("replay", supervised=False)
    with pytest.raises(WrongOptions, match="There is no topic public/default/nowhere"):
        replay._work(replay._parse([*asked, "--target=public/default/nowhere"]), run)
    narrow = [f"--target={new_topic(1)}", "--keep-partitions=yes"]
    with pytest.raises(WrongOptions, match=r"--keep-partitions: .* has 1 partitions"):
        replay._work(replay._parse([*asked, *narrow]), run)
    assert not (tmp_path / "typed").exists()


@pytest.fixture
def command(
    spark: SparkSession,
    credentials: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., int]:
    """The command on the tests' Spark."""

    @contextlib.contextmanager
    def shared(_job: str) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(replay, "spark_for", shared)
    monkeypatch.setenv("TXNCONSOLE_URL", credentials["url"])
    monkeypatch.setenv("TXNCONSOLE_TOKEN", credentials["token"])

    def run(*arguments: str, progress: str = "progress") -> int:
        where = [f"--progress={tmp_path / progress}", "--batch-messages=50"]
        options = replay._parse([*arguments, *where])
        run = Run("replay", supervised=False)
        return outcome(run, lambda run: replay._work(options, run))

    return run


def test_a_range_is_replayed_once_in_its_order_however_often_it_is_run(
    command: Callable[..., int],
    client: Client,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = new_topic(2), new_topic(2)
    produce(source, [b"%d" % n for n in range(60)])
    produce(source, [b"never"] * 5, commit=False)
    produce(source, [b"%d" % n for n in range(100, 130)], partition=1)
    options = (
        "--name=dr",
        f"--source={source}",
        f"--target={target}",
        "--where=cast(cast(payload as string) as int) % 2 = 0",
        "--payload=concat('n', cast(payload as string))",
        "--keep-partitions=yes",
    )
    backwards = ('--start={"0": 9}', '--to={"0": 5}')
    assert command(*options, *backwards) == WRONG_OPTIONS  # and the name is not used up
    # The run dies after its second batch is decided, before that is noted.
    note = Progress.note

    def die(self: Progress, batches: int) -> None:
        if batches == 2:
            raise OSError("the disk is gone")
        note(self, batches)

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "note", die)
        assert command(*options) == 1
    assert command(*options) == 0
    expected = [b"n%d" % n for n in [*range(0, 60, 2), *range(100, 130, 2)]]
    assert committed(target) == expected
    assert not list(client.transactions.list(client="spark:replay-dr", status="OPEN"))


def test_a_replay_does_not_go_on_in_a_source_that_was_made_anew(
    server: Served,
    command: Callable[..., int],
    client: Client,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
) -> None:
    """Its range would hold other messages."""
    source, target = new_topic(1), new_topic(1)
    produce(source, [b"a", b"b"])
    options = ("--name=anew", f"--source={source}", f"--target={target}")
    assert command(*options) == 0
    assert command(*options) == 0
    with server.client("admin") as admin:
        admin.delete(f"/topics/{source}").raise_for_status()
    client.create_topic(source, partitions=1)
    produce(source, [b"%d" % n for n in range(9)])
    with capture_logs() as lines:
        assert command(*options) == WRONG_OPTIONS
    assert "Give the replay another --name" in lines[-1]["error"]
    assert committed(target) == [b"a", b"b"]


@pytest.mark.parametrize(("last", "written"), [(1, 50), (2, 99)])
def test_a_source_that_is_made_anew_during_a_run_is_not_read_on(
    server: Served,
    command: Callable[..., int],
    client: Client,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    last: int,
    written: int,
) -> None:
    """It was compared with the plan at the start only; the last batch may have read it too."""
    source, target = new_topic(1), new_topic(1)
    sent = [b"%d" % n for n in range(99)]  # A marker follows.
    produce(source, sent)
    note = Progress.note

    def make_anew(self: Progress, batches: int) -> None:
        note(self, batches)
        if batches == last:
            with server.client("admin") as admin:
                admin.delete(f"/topics/{source}").raise_for_status()
            client.create_topic(source, partitions=1)
            produce(source, [b"other"] * 150)

    monkeypatch.setattr(Progress, "note", make_anew)
    with capture_logs() as lines:
        options = (f"--name=meanwhile-{last}", f"--source={source}", f"--target={target}")
        assert command(*options) == WRONG_OPTIONS
    assert "made anew" in lines[-1]["error"]
    assert committed(target) == sent[:written]


def test_what_retention_drops_during_a_run_is_told_with_how_to_replay_what_is_left(
    command: Callable[..., int],
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = new_topic(2), new_topic(1)
    sent = [b"%d" % n for n in range(99)]
    produce(source, sent)
    positions = HttpAccess.positions

    def above(self: HttpAccess) -> Mapping[Place, Position]:
        """The source once retention has dropped what lies below offset 70."""
        first = Place(source, 0)
        standing = positions(self)
        return {**standing, first: replace(standing[first], start=70)}

    def drop(self: Progress, batches: int) -> None:
        note(self, batches)
        monkeypatch.setattr(HttpAccess, "positions", above)

    note = Progress.note
    monkeypatch.setattr(Progress, "note", drop)
    options = (f"--source={source}", f"--target={target}")
    with capture_logs() as lines:
        assert command("--name=dropped", *options) == WRONG_OPTIONS
    assert '--start={"0": 70, "1": 0}' in lines[-1]["error"]
    assert committed(target) == sent[:50]
    assert command("--name=left", *options, '--start={"0": 70, "1": 0}') == 0
    assert committed(target) == [*sent[:50], *sent[70:]]


def test_a_last_batch_that_was_decided_and_not_noted_needs_its_source_no_more(
    command: Callable[..., int],
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
    *,
    committed: Callable[[str], list[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it was killed between the two, and retention has dropped some of it since, the advice
    to replay what is left under another name would double that."""
    source, target = new_topic(1), new_topic(1)
    sent = [b"%d" % n for n in range(60)]
    produce(source, sent)
    options = ("--name=killed", f"--source={source}", f"--target={target}")
    assert command(*options) == 0
    positions = HttpAccess.positions

    def above(self: HttpAccess) -> Mapping[Place, Position]:
        return {place: replace(each, start=55) for place, each in positions(self).items()}

    monkeypatch.setattr(HttpAccess, "positions", above)
    Progress(tmp_path / "progress" / "killed").note(1)
    assert command(*options) == 0
    assert committed(target) == sent


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--where=reflect('java.lang.System', 'exit')", "reflect"),
        ("--where=no_such_column = 1", "no_such_column"),
        ("--payload=offset", "payload must be binary or string"),
        ('--to={"0": 99}', "--to is above the stable end"),
        ('--start={"0": 99}', "--start is above the stable end"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    option: str,
    named: str,
    command: Callable[..., int],
    new_topic: Callable[[int], str],
) -> None:
    options = ("--name=wrong", f"--source={new_topic(1)}", f"--target={new_topic(1)}")
    with capture_logs() as lines:
        assert command(*options, option) == WRONG_OPTIONS
    assert named in lines[-1]["error"]
