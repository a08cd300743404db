"""A producer that replays its flights as transactions, each flight committed exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from txnconsole.client import Batch, Client, InvalidTxnStatus, Producer, Transaction
from txnconsole.demo.flights import Flights
from txnconsole.demo.pacing import Pacer, Stop, Stopped
from txnconsole.demo.recovery import Place, last_committed
from txnconsole.demo.schedule import PRODUCERS, Ending, PlannedTransaction, schedule, within
from txnconsole.demo.tally import Tally, log
from txnconsole.demo.topics import Topics

#: Flights that are sent together; a larger transaction is open while its flights depart.
_BATCH = 50
#: A transaction whose flights depart over longer than this is sent when the last has departed.
_OPEN_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What is replayed and how fast; durations in seconds.

    ``rate`` is flights per second over both producers, None as fast as it goes. With ``limit`` the
    replay ends when the transactions that hold the first so many flights are committed; without
    it a new pass begins after the last flight, for ever.
    """

    topics: Topics = field(default_factory=Topics)
    seed: int = 2013
    rate: float | None = 60.0
    limit: int | None = None
    timeout: float = 60.0
    hang_timeout: float = 20.0
    long_hang_timeout: float = 600.0


class Replay:
    """One producer's part of the replay. ``run`` is for one thread."""

    def __init__(
        self,
        client: Client,
        flights: Flights,
        options: ReplayOptions,
        *,
        producer: str,
        stop: Stop,
    ) -> None:
        self._client = client
        self._flights = flights
        self._options = options
        self._name = producer
        self._stop = stop
        self._pacer = Pacer(options.rate, stop.sleep)
        self._timeouts = {
            Ending.HANG: options.hang_timeout,
            Ending.HANG_LONG: options.long_hang_timeout,
        }
        self.tally = Tally(producer)

    def run(self) -> None:
        """Go on after the last flight that this producer has committed.

        Raises:
            Stopped: a stop was requested; what was open is aborted.
        """
        partitions = [number for number, name in enumerate(PRODUCERS) if name == self._name]
        topic = self._options.topics.flights
        last = last_committed(self._client, topic, partitions, producer=self._name)
        log.info("demo.replay", producer=self._name, **last._asdict())
        with self._client.producer(topic, name=self._name) as producer:
            try:
                for pass_number, planned in self._plan(last):
                    self._carry_out(producer, planned, pass_number)
            finally:
                self.tally.report()

    def _plan(self, last: Place) -> Iterator[tuple[int, PlannedTransaction]]:
        """What is still to be done; of a transaction that another seed cut, what is left of it."""
        pass_number = last.pass_number
        while True:
            plan = schedule(self._options.seed, self._flights.carriers, pass_number=pass_number)
            for planned in within(plan, self._options.limit):
                left = planned.after(last.position if pass_number == last.pass_number else -1)
                if planned.producer == self._name and left.flights:
                    yield pass_number, left
            if self._options.limit is not None:
                return
            pass_number += 1

    def _carry_out(self, producer: Producer, planned: PlannedTransaction, pass_number: int) -> None:
        """Make the planned attempts, and then as many as it takes until one is committed."""
        attempts = iter(planned.attempts)
        while not self._attempt(producer, planned, next(attempts, Ending.COMMIT), pass_number):
            self.tally.add("flights_sent_again", len(planned.flights))
        self.tally.add("transactions_committed")
        self.tally.add("flights_committed", len(planned.flights))

    def _attempt(
        self, producer: Producer, planned: PlannedTransaction, ending: Ending, pass_number: int
    ) -> bool:
        """Send the flights in a transaction of their own; returns whether it is committed."""
        first, last = (self._place(planned.flights[end], pass_number) for end in (0, -1))
        if self._pacer.seconds(last - first) > _OPEN_SECONDS:
            self._pacer.wait_for(last)
        self._pacer.wait_for(first)
        txn = self._client.transaction(
            timeout=self._timeouts.get(ending, self._options.timeout), client=self._name
        )
        try:
            self._send(producer, txn, planned, pass_number)
            return self._end(txn, ending, duplicated=planned.duplicated)
        except InvalidTxnStatus as error:
            # Its deadline or an operator has aborted it: only this producer could have committed.
            log.warning("demo.transaction_lost", txn_id=txn.txn_id, reason=str(error))
            self.tally.add("transactions_lost")
            return False
        except Stopped:
            txn.abort("the producer was stopped")
            raise
        finally:
            producer.discard(txn)

    def _send(
        self, producer: Producer, txn: Transaction, planned: PlannedTransaction, pass_number: int
    ) -> None:
        for start in range(0, len(planned.flights), _BATCH):
            positions = planned.flights[start : start + _BATCH]
            self._pacer.wait_for(self._place(positions[-1], pass_number))
            self._collect(producer, txn, positions, pass_number)
            for batch in producer.seal(txn):
                producer.deliver(batch)
                if planned.duplicated:
                    self._duplicate(producer, batch)

    def _collect(
        self, producer: Producer, txn: Transaction, positions: Sequence[int], pass_number: int
    ) -> None:
        for flight in self._flights.at(positions):
            producer.send(
                flight.payload,
                key=flight.carrier,
                properties=Place(pass_number, flight.position).properties(),
                event_time=flight.departure,
                txn=txn,
            )

    def _duplicate(self, producer: Producer, batch: Batch) -> None:
        """Send a batch again under the same sequence id, as a producer whose answer was lost."""
        recognised = producer.deliver(batch).duplicate
        self.tally.add("duplicates_recognised" if recognised else "duplicates_stored")
        if not recognised:
            log.error("demo.duplicate_stored", producer=self._name, sequence_id=batch.sequence_id)

    def _end(self, txn: Transaction, ending: Ending, *, duplicated: bool) -> bool:
        if ending is Ending.COMMIT:
            txn.commit()
            if duplicated:
                self._client.transactions.commit(txn.txn_id)
            return True
        if ending is Ending.ABORT:
            txn.abort("the demo aborts a share")
            self.tally.add("transactions_aborted")
        else:
            self.tally.add("transactions_left_hanging")
        return False

    def _place(self, position: int, pass_number: int) -> int:
        """A place on the scale of the pacer, which goes on from pass to pass."""
        return (pass_number - 1) * len(self._flights) + position
