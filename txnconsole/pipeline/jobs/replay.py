"""Produce a range of a topic again, filtered or transformed, into another topic, exactly once.

Run it with ``python -m txnconsole.pipeline.jobs.replay``; ``--help`` lists its options. A replay
has a name, under which each of its batches is decided once (txnconsole.pipeline.sink): a run that
was killed is started again with the same options and goes on, and what has been written stays. What
it does is fixed when it first starts, in a plan beside its progress; another replay needs another
name.

Messages of one source partition are written by one task of a batch, in their order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from txnconsole.client import TopicNotFound
from txnconsole.pipeline import same_log
from txnconsole.pipeline.data_loss import dropped
from txnconsole.pipeline.expressions import check_expression, column
from txnconsole.pipeline.jobs import environment
from txnconsole.pipeline.jobs.run import (
    DONE,
    Run,
    WrongOptions,
    brief,
    run_job,
    spark_for,
    whole_number,
)
from txnconsole.pipeline.messages import MESSAGE_SCHEMA, check_writable
from txnconsole.pipeline.offsets import (
    EARLIEST,
    LATEST,
    MADE,
    Offsets,
    Place,
    Position,
    PositionLost,
    advance,
    between,
    from_json,
    parse_offsets,
    require_ordered,
    to_json,
    to_json_text,
)
from txnconsole.pipeline.options import Connection
from txnconsole.pipeline.reader import TopicRead
from txnconsole.pipeline.sink import Sink, abort_leftovers, is_committed

JOB = "replay"
_BATCH_MESSAGES = 50_000
_NAME = re.compile(r"(?!\.{1,2}$)[\w.-]{1,100}", re.ASCII)  # It is a directory's name too.
_TIMEOUT_SECONDS = 300.0
#: Fields of a plan that do not change what is written.
_ABOUT = ("asked", "logs")
#: Fields whose options have another name.
_OPTIONS = {"keep_partitions": "keep-partitions", "batch_messages": "batch-messages"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a replay does; it never changes. Offsets are the next to read, by partition as
    in JSON."""

    source: str
    target: str
    where: str
    payload: str
    key: str
    keep_partitions: bool
    start: dict[str, int]
    end: dict[str, int]
    batch_messages: int
    #: How the range was asked for: the ends of ``latest`` move, and what was asked for does not.
    asked: dict[str, str]
    #: Which logs the offsets are of, as txnconsole.pipeline.same_log notes it.
    logs: dict[str, Any] = field(default_factory=dict)

    @property
    def guard(self) -> str:
        """Differs whenever anything that is written would differ, so that two replays never share a
        name."""
        does = {name: value for name, value in asdict(self).items() if name not in _ABOUT}
        return hashlib.sha256(json.dumps(does, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def count(self) -> int:
        """How many batches there are: all but the last are full."""
        offsets = sum(self.end.values()) - sum(self.start.values())
        return -(-offsets // self.batch_messages)

    def batches(self) -> Iterator[tuple[Offsets, Offsets]]:
        """The ranges that are decided one by one; the same at every call."""
        start = from_json(self.start, self.source)
        end = from_json(self.end, self.source)
        while start != end:
            reached = advance(start, end, self.batch_messages)
            yield start, reached
            start = reached


@dataclass(frozen=True)
class Progress:
    """Where a replay's plan and progress are kept. Exactly-once does not depend on it, since a
    batch that is written again turns out to be decided. Without it a replay begins from the start,
    and its name is refused if the range now ends elsewhere."""

    directory: Path

    @property
    def kept(self) -> Plan | None:
        """The plan, when there is one already.

        Raises:
            WrongOptions: it is damaged, as a machine that loses its power may leave it.
        """
        if not self._plan_file.exists():
            return None
        try:
            return Plan(**json.loads(self._plan_file.read_text()))
        except (ValueError, TypeError) as error:
            raise WrongOptions(
                f"{self._plan_file} is damaged ({error}). Delete it, and run this again: batches"
                " that are decided are found to be, and another range than before is refused."
            ) from error

    @property
    def _plan_file(self) -> Path:
        return self.directory / "plan.json"

    def plan(self, wanted: Plan) -> Plan:
        """The plan as it was first made; ``wanted`` when there is none yet.

        Raises:
            WrongOptions: the name belongs to a replay that does something else.
        """
        kept = self.kept
        if kept is None:
            self._done_file.unlink(missing_ok=True)  # It would be that of a plan that was lost.
            self._write(self._plan_file, json.dumps(asdict(wanted), indent=2))
            return wanted
        for name, value in asdict(wanted).items():
            if name in ("start", "end", *_ABOUT) or getattr(kept, name) == value:
                continue
            raise self._another(_OPTIONS.get(name, name), getattr(kept, name))
        for option, name in (("start", "start"), ("to", "end")):
            same = kept.asked[option] == wanted.asked[option]
            if not same and getattr(kept, name) != getattr(wanted, name):
                raise self._another(option, kept.asked[option])
        return kept

    def _another(self, option: str, value: object) -> WrongOptions:
        return WrongOptions(
            f"{self.directory.name} is the name of another replay, whose {option} is {value!r}:"
            " give the same to go on with it, or this one another --name."
        )

    @property
    def done(self) -> int:
        text = self._done_file.read_bytes() if self._done_file.exists() else b""
        return int(text) if text.isdigit() else 0  # Damaged, it is as good as lost.

    def note(self, batches: int) -> None:
        self._write(self._done_file, str(batches))

    @property
    def _done_file(self) -> Path:
        return self.directory / "done"

    def _write(self, file: Path, text: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(file)


def replayed(messages: DataFrame, plan: Plan) -> DataFrame:
    """The messages to be written; the pure core of the job."""
    spark = messages.sparkSession
    if plan.where:
        messages = messages.where(column(spark, plan.where))
    columns = {
        "key": column(spark, plan.key).cast("string") if plan.key else sf.col("key"),
        "payload": column(spark, plan.payload) if plan.payload else sf.col("payload"),
    }
    shown = ["key", "payload", "properties", "event_time"]
    ordered = messages.repartition("partition").sortWithinPartitions("partition", "offset")
    if plan.keep_partitions:
        shown.append("partition")
    return ordered.withColumns(columns).select(*shown)


class Replay:
    """A replay on one server."""

    def __init__(self, connection: Connection, name: str, plan: Plan, progress: Progress) -> None:
        self._server = {"url": connection.url, "token": connection.token}
        self._source = TopicRead.of(self._server | {"topic": plan.source}, fails=True)
        self._client = connection.client()
        self._name = f"replay-{name}"
        self._plan = plan
        self._progress = progress

    def run(self, spark: SparkSession, run: Run) -> int:
        """Do all batches that are not done yet; returns how many offsets this run has read.

        Raises:
            WrongOptions: the source was created again, or cut, meanwhile; or retention was faster.
        """
        sink = Sink(self._name, self._plan.target, _TIMEOUT_SECONDS)
        abort_leftovers(self._client, sink)
        count = self._plan.count
        read = 0
        for number, (start, end) in enumerate(self._plan.batches()):
            run.stage("replay", number, count)
            if number < self._progress.done:
                continue
            positions = self._check_source()
            try:
                self._check_kept(positions, start, end)
            except WrongOptions:
                # A run that died before it could note the batch may have written all of it.
                if not is_committed(self._client, sink, str(number)):
                    raise
            else:
                self._batch(spark, number, start, end)
                read += sum(end.values()) - sum(start.values())
            self._progress.note(number + 1)
            run.figures(rows_in=read)
        self._check_source()
        run.stage("replay", count, count)
        return read

    def _check_source(self) -> Mapping[Place, Position]:
        positions = self._source.access.positions()
        _check_same(self._source, self._plan, positions)
        return positions

    def _check_kept(
        self, positions: Mapping[Place, Position], start: Offsets, end: Offsets
    ) -> None:
        """Refuse a batch of which retention has dropped something; what the read would say of it
        has an advice that a replay cannot take.

        Raises:
            WrongOptions: it has; the text tells how to replay what is left.
        """
        begins = {place: position.start for place, position in positions.items()}
        if dropped(between(start, end), begins):
            left = {place: max(at, begins.get(place, at)) for place, at in start.items()}
            raise WrongOptions(
                "Retention has dropped what was to be replayed next. To go on with what is left,"
                f" give another --name and --start={json.dumps(to_json(left, self._plan.source))}."
            )

    def _batch(self, spark: SparkSession, number: int, start: Offsets, end: Offsets) -> None:
        messages = (
            spark.read.format("txnconsole")
            .options(**self._server, topic=self._plan.source)
            .option("startingOffsets", json.dumps(to_json(start, self._plan.source)))
            .option("endingOffsets", json.dumps(to_json(end, self._plan.source)))
            .load()
        )
        (
            replayed(messages, self._plan)
            .write.format("txnconsole")
            .options(**self._server, topic=self._plan.target)
            .options(sink=self._name, batch=str(number), guard=self._plan.guard)
            .mode("append")
            .save()
        )


def _plan(
    options: argparse.Namespace, connection: Connection, kept: Plan | None
) -> tuple[Plan, dict[str, int]]:
    """What is asked for, with the present stable ends of the source's partitions (exclusive).

    A replay that goes on with its plan may have read what retention has deleted since.

    Raises:
        TopicNotFound: there is no such source, or no such target.
        WrongOptions: the range is not there as a whole, or is not what it was; the target lacks
            partitions.
    """
    given = {"topic": options.source, "startingOffsets": options.start, "endingOffsets": options.to}
    server = {"url": connection.url, "token": connection.token}
    read = TopicRead.of(server | given, fails=True)
    positions = read.access.positions()
    if kept is not None and kept.source == options.source:
        _check_same(read, kept, positions)
    _check_target(options, connection, len(positions))
    stable = {place: position.end for place, position in positions.items()}
    start = parse_offsets("--start", read.starting, read.topic, positions)
    end = parse_offsets("--to", read.ending, read.topic, positions)
    for option, offsets in (("--start", start), ("--to", end)):
        if beyond := [place for place in offsets if offsets[place] > stable[place]]:
            raise WrongOptions(
                f"{option} is above the stable end of {to_json_text(stable, beyond)}."
            )
    begins = {place: position.start for place, position in positions.items()}
    if kept is None and (gone := [place for place in start if start[place] < begins[place]]):
        raise WrongOptions(
            f"--start is below what is kept of {to_json_text(begins, gone)}:"
            " begin there, or with earliest."
        )
    require_ordered(read.starting, start, end)
    start = {place: min(offset, end[place]) for place, offset in start.items()}
    plan = Plan(
        source=options.source,
        target=options.target,
        where=check_expression(options.where),
        payload=check_expression(options.payload),
        key=check_expression(options.key),
        keep_partitions=options.keep_partitions == "yes",
        start=to_json(start, read.topic),
        end=to_json(end, read.topic),
        batch_messages=options.batch_messages,
        asked={"start": options.start, "to": options.to},
        logs=same_log.note(read.access, read.topic, end, positions, {}).get(MADE, {}),
    )
    return plan, to_json(stable, read.topic)


def _check_target(options: argparse.Namespace, connection: Connection, partitions: int) -> None:
    """Refuse a target that would fail the first batch, when the plan and its name are fixed.

    Args:
        partitions: how many the source has.

    Raises:
        TopicNotFound: it does not exist.
        WrongOptions: it lacks partitions.
    """
    found = connection.client().topic(options.target).partitions
    if options.keep_partitions == "yes" and found < partitions:
        raise WrongOptions(
            f"--keep-partitions: {options.target} has {found} partitions, fewer than"
            f" {options.source}."
        )


def _check_same(read: TopicRead, plan: Plan, positions: Mapping[Place, Position]) -> None:
    """Refuse to go on with a source that was created again, or cut, since the replay began.

    Raises:
        WrongOptions: it was.
    """
    try:
        noted = {MADE: plan.logs} | plan.end
        instead = "Give the replay another --name"
        same_log.require_same(read.access, read.topic, noted, positions, instead=instead)
    except PositionLost as error:
        raise WrongOptions(str(error)) from error


def _check_columns(spark: SparkSession, plan: Plan) -> None:
    """Have Spark check an expression before anything is written.

    Raises:
        WrongOptions: it names a column that messages do not have, or has a type that cannot be
            written.
    """
    try:
        check_writable(replayed(spark.createDataFrame([], MESSAGE_SCHEMA), plan).schema)
    except (AnalysisException, ParseException, ValueError) as error:
        raise WrongOptions(brief(error)) from error


def _work(options: argparse.Namespace, run: Run) -> int:
    if not _NAME.fullmatch(options.name):
        raise WrongOptions("--name is of letters, digits, dots and dashes, a hundred at most.")
    if options.source == options.target:
        raise WrongOptions("A replay into its own source would not end: name another --target.")
    try:
        connection = environment.server(options)
        progress = Progress(options.progress / options.name)
        wanted, stable = _plan(options, connection, progress.kept)
    except (ValueError, TopicNotFound) as error:
        raise WrongOptions(str(error)) from error
    with spark_for(JOB) as spark:
        _check_columns(spark, wanted)
        plan = progress.plan(wanted)
        run.figures(
            offsets={
                f"{plan.source}:{number}": {
                    "from": plan.start[number],
                    "to": plan.end[number],
                    "stable": stable[number] - 1,
                }
                for number in plan.end
            }
        )
        read = Replay(connection, options.name, plan, progress).run(spark, run)
    run.result({"target": plan.target, "rows_in": read, "start": plan.start, "end": plan.end})
    return DONE


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m txnconsole.pipeline.jobs.replay",
        description="Produce a range of a topic again into another topic, exactly once.",
    )
    data = Path(os.environ.get("TXNCONSOLE_DATA") or ".data")
    offsets = 'earliest, latest or JSON such as {"0": 120}'
    environment.add_server(parser)
    parser.add_argument("--name", required=True, help="this replay's own; the same goes on")
    parser.add_argument("--source", required=True, help="the topic to read")
    parser.add_argument("--target", required=True, help="the topic to write; it must exist")
    parser.add_argument("--start", default=EARLIEST, help=f"{offsets} (%(default)s)")
    parser.add_argument("--to", default=LATEST, help=f"{offsets}, exclusive (%(default)s)")
    parser.add_argument("--where", default="", help="which messages: Spark SQL over their columns")
    parser.add_argument("--payload", default="", help="Spark SQL that makes the new payload")
    parser.add_argument("--key", default="", help="Spark SQL that makes the new key")
    parser.add_argument(
        "--keep-partitions",
        choices=("yes", "no"),
        default="no",
        help="into the partitions of the same numbers, not by key (%(default)s)",
    )
    parser.add_argument(
        "--batch-messages",
        type=whole_number("--batch-messages"),
        default=_BATCH_MESSAGES,
        help="offsets that are decided at once (%(default)s)",
    )
    parser.add_argument(
        "--progress",
        type=Path,
        default=data / "pipeline" / "replay",
        help="directory of plans and progress (%(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    options = _parse(arguments)
    return run_job(JOB, lambda run: _work(options, run))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
