"""The demo's command line: ``python -m txnconsole.demo [all|replay|consume]``."""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from txnconsole import logs
from txnconsole.client import Client, RetryPolicy, TransportOptions, TxnConsoleError
from txnconsole.demo import topics
from txnconsole.demo.consume import DelayMonitor
from txnconsole.demo.flights import Flights
from txnconsole.demo.lock import Held, held
from txnconsole.demo.pacing import Stop, Stopped
from txnconsole.demo.replay import Replay, ReplayOptions
from txnconsole.demo.schedule import PRODUCERS
from txnconsole.demo.tally import log


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped, or until the limit; returns the exit code."""
    options = _parser().parse_args(arguments)
    logs.configure(level="INFO", human=sys.stderr.isatty())
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.request())
    try:
        with _client(options, stop) as client:
            topics.prepare(client, options.topics)
            return _run(client, options, stop)
    except Stopped:
        return 0
    except (TxnConsoleError, topics.WrongPartitions, Held) as error:
        log.error("demo.failed", error=type(error).__name__, reason=str(error))
        return 1


def _run(client: Client, options: argparse.Namespace, stop: Stop) -> int:
    consume = DelayMonitor(client, options.topics, seed=options.seed, stop=stop).run
    if options.program == "consume":
        return _together([consume], stop)
    with held(options.data / "demo-replay.lock"):
        flights = Flights.load()
        replay = ReplayOptions(
            topics=options.topics,
            seed=options.seed,
            rate=None if options.max_speed else options.rate,
            limit=options.limit,
            hang_timeout=options.hang_timeout,
            long_hang_timeout=options.long_hang_timeout,
        )
        programs: list[Callable[[], None]] = [
            Replay(client, flights, replay, producer=producer, stop=stop).run
            for producer in dict.fromkeys(PRODUCERS)
        ]
        if options.program == "all":
            programs.append(consume)
        return _together(programs, stop)


def _together(programs: Sequence[Callable[[], None]], stop: Stop) -> int:
    """Run programs in threads; the first that fails stops the others."""
    with ThreadPoolExecutor(len(programs)) as threads:
        futures = [threads.submit(program) for program in programs]
        wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.done() and future.exception() for future in futures):
            stop.request()
    failures = [
        error for each in futures if (error := each.exception()) and not isinstance(error, Stopped)
    ]
    for failure in failures:
        log.error("demo.failed", exc_info=failure)
    return 1 if failures else 0


def _client(options: argparse.Namespace, stop: Stop) -> Client:
    """A client that asks until it is answered: the demo outlives every restart of the server."""
    retry = RetryPolicy(deadline=math.inf, max_delay=5.0)
    return Client(options.url, options.token, TransportOptions(retry=retry, sleep=stop.sleep))


def _parser() -> argparse.ArgumentParser:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="python -m txnconsole.demo", description=__doc__)
    parser.add_argument("program", nargs="?", choices=["all", "replay", "consume"], default="all")
    parser.add_argument("--rate", type=_positive, default=60.0, help="flights a second (60)")
    parser.add_argument("--max-speed", action="store_true", help="as fast as the server takes them")
    parser.add_argument("--limit", type=int, help="end after the first so many flights")
    parser.add_argument("--seed", type=int, default=2013, help="of the plan (2013)")
    parser.add_argument(
        "--namespace",
        dest="topics",
        type=topics.Topics,
        default=topics.Topics(),
        help=f"tenant/namespace of the topics ({topics.NAMESPACE})",
    )
    parser.add_argument("--hang-timeout", type=_positive, default=20.0, metavar="SECONDS")
    parser.add_argument("--long-hang-timeout", type=_positive, default=600.0, metavar="SECONDS")
    default_url = f"http://127.0.0.1:{environment.get('PORT', '8000')}"
    parser.add_argument("--url", default=environment.get("TXNCONSOLE_URL", default_url))
    # The token's place is the environment; as an argument every user of the machine could read it.
    parser.set_defaults(token=environment.get("TXNCONSOLE_TOKEN", ""))
    data = Path(environment.get("TXNCONSOLE_DATA") or ".data")
    parser.add_argument("--data", type=Path, default=data, help="directory of the lock file")
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0.")
    return number


if __name__ == "__main__":
    sys.exit(main())
