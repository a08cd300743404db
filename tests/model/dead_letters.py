"""Rules: messages that were given back too often go to the dead-letter topic, each once.

In which order the letters of several partitions arrive is the engine's choice: the reference
follows what has come, and then holds it against everything that had to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis.stateful import precondition, rule

from engine.model import dispatch
from engine.model.topic_name import PartitionName, SubscriptionName
from tests.engine.support import sql
from tests.model import looking
from tests.model.subscriptions import Cursor, Letter
from tests.model.world import DEAD_LETTERS, World


@dataclass(frozen=True, eq=False)
class Sender:
    """A subscription in one partition, with letters to send."""

    name: SubscriptionName
    number: int
    cursor: Cursor
    producer: str

    def text(self, letter: Letter) -> str | None:
        """None: the message is not there any more, so that nothing is left to be moved."""
        message = self.cursor.partition.log.get(letter.offset)
        return None if message is None else message.text


class DeadLetters(World):
    """Dying, and what a sweep finds waiting."""

    @precondition(lambda self: self.senders)
    @rule()
    def sweep_dead_letters(self) -> None:
        """What could not be moved when it died, because a partition was offline."""
        before = self.engine.log.status(DEAD_LETTERS).last_offset
        moved = self.engine.move_dead_letters()
        looking.same(moved, self.follow(self.senders), f"dead letters moved, from {before} on")
        self.seen["sweep", "moved" if moved else "nothing"] += 1

    @property
    def senders(self) -> list[Sender]:
        """All with letters that wait."""
        return [
            self.sender(SubscriptionName(name, subscription), number)
            for name, topic in self.reference.topics.items()
            for subscription, found in topic.subscriptions.items()
            for number, cursor in found.cursors.items()
            if cursor.letters
        ]

    def sender(self, name: SubscriptionName, number: int) -> Sender:
        subscription = self.reference.subscription(name)
        return Sender(
            name,
            number,
            subscription.cursors[number],
            f"dead-letters/{name.topic}:{number}/{name.name}/{subscription.serial}",
        )

    def follow(self, senders: Sequence[Sender]) -> int:
        """Let the letters arrive that can, in the order in which they did; answers how many."""
        target, reachable = self.reference.partition(DEAD_LETTERS), self._reachable
        arriving = {sender: self._arriving(sender) for sender in senders}
        known = {sender: target.known(None, sender.producer) for sender in senders}
        new = {
            (looking.producer(sender.producer), letter.sequence): (sender, letter)
            for sender, letters in arriving.items()
            for letter in letters
            if sender.text(letter) is not None and letter.sequence > max(known[sender], default=-1)
        }
        if reachable:
            for message in self.engine.log.browse(DEAD_LETTERS, target.end, 1000).messages:
                key = looking.producer(message.producer_name), message.sequence_id
                assert key in new, f"{key} has arrived at {DEAD_LETTERS}, and was not to come"
                sender, letter = new.pop(key)
                text = sender.text(letter)
                looking.same(message.payload.decode(), text, f"dead letter {key}")
                target.append([str(text)], None, sender.producer, letter.sequence)
        looking.same([*new], [], f"dead letters that have not arrived at {DEAD_LETTERS}")
        for sender, letters in arriving.items():
            if sender.cursor.partition.online:
                sender.cursor.arrive(letters)
        return sum(map(len, arriving.values()))

    def was_visited(self, sender: Sender) -> bool:
        """Whether a call that was full before it had anything of a partition has been there all the
        same: then what was overdue is not in flight any more, or something has died."""
        cursor = sender.cursor
        if not cursor.in_flight and not cursor.again:
            return False
        location = self.engine.log.locate(PartitionName(sender.name.topic, sender.number))
        [row] = sql(
            location.database,
            "SELECT c.dead_letters, d.state FROM broker.cursor c"
            " JOIN broker.subscription s USING (subscription_id)"
            " JOIN broker.dispatch d USING (subscription_id, partition_id)"
            " WHERE (s.topic, s.name, c.partition_id) = (%s, %s, %s)",
            str(sender.name.topic),
            sender.name.name,
            location.partition_id,
        )
        state = dispatch.decode(row.state, -1)
        return row.dead_letters != cursor.died or {*state.in_flight()} != cursor.in_flight.keys()

    @property
    def _reachable(self) -> bool:
        return self.reference.serves(DEAD_LETTERS)

    def _arriving(self, sender: Sender) -> list[Letter]:
        """Those that get there now: in their order, the first that cannot keeps back the rest."""
        reachable = self._reachable
        found = []
        for letter in sender.cursor.letters:
            if not reachable and sender.text(letter) is not None:
                break
            found.append(letter)
        return found
