"""Messages: producing and fetching, the hot calls (design/api.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rest_framework.exceptions import PermissionDenied

from engine.model.message import Isolation
from engine.model.partition import Fetched
from engine.model.read_position import ReadPosition
from engine.model.txn_id import TxnID
from txnconsole.access.payloads import sight_of
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import named
from txnconsole.api.endpoint import PackingEndpoint, PartitionEndpoint
from txnconsole.api.limits import PRODUCE_BODY_BYTES
from txnconsole.api.long_poll import still_wanted, wait_until
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.structs.batches import PackedProduce, Produce, Produced, new_messages
from txnconsole.api.structs.fields import Answer
from txnconsole.api.structs.messages import (
    FetchedMessages,
    FetchQuery,
    PackedFetchedMessages,
    fetched,
)
from txnconsole.enginedb.wiring import engine
from txnconsole.request_log import about


class Messages(PackingEndpoint, PartitionEndpoint):
    @operation(
        "produceMessages",
        Permission.MESSAGE_PRODUCE,
        Shape(
            keyed=lambda body: body.sequence_id is None,
            body=Produce,
            packed_body=PackedProduce,
            body_limit=PRODUCE_BODY_BYTES,
            answer=Produced,
            packed_answer=Produced,
            statuses=(200, 201),
        ),
        summary="Produce a batch of messages",
    )
    def post(self, call: Call[Produce | PackedProduce, NoQuery]) -> Reply:
        """Appends all of the messages or none, at contiguous offsets; in a transaction when
        `txn_id` is given.

        With `producer_name` and `sequence_id` it appends exactly once: repeated with the same
        pair, it answers 200 with `duplicate: true` and the first positions, and appends nothing.
        Without them, a batch that is sent again under its `Idempotency-Key` gets its first answer
        again; it is stored twice only when the server died, or lost its database, between storing
        and answering (5xx). With them the key is ignored.

        In a transaction on a topic with `buffer: sidecar`, the offsets and message ids are those in
        the partition's sidecar log. A message gets its place in the partition, and the id by which
        it is fetched, received and acknowledged, when its transaction commits.
        """
        if self.topic.is_system:
            raise PermissionDenied(f"{self.topic} is the engine's own; it can only be read.")
        body = call.body
        txn_id = None if body.txn_id is None else named("txn_id", TxnID.parse, body.txn_id)
        about(txn_id)
        appended = engine().produce(
            self.partition,
            new_messages(body.messages),
            txn_id=txn_id,
            owner=call.principal.name,
            producer_name=body.producer_name,
            sequence_id=body.sequence_id,
        )
        return Reply(Produced.of(self.partition, appended), 200 if appended.duplicate else 201)

    @operation(
        "fetchMessages",
        Permission.MESSAGE_READ,
        Shape(query=FetchQuery, answer=FetchedMessages, packed_answer=PackedFetchedMessages),
        summary="Fetch messages from an offset on",
    )
    def get(self, call: Call[None, FetchQuery]) -> Answer:
        """Messages, aborted transactions and positions are all as of one moment.

        A caller without the permission `payload.read` (a viewer) gets messages with empty payloads
        and `payload_masked: true`, except of topics that the setting `TXNCONSOLE_VIEWER_PAYLOADS`
        opens to viewers. Masking rules, which an administrator keeps in the console, remove parts
        of payloads, keys and properties for such a caller.

        With `wait_ms` the call waits until there are messages to answer; when there are none, the
        answer tells how far the log has been read without finding any. Go on with `cursor` set to
        the answer's `next_cursor`; or with `from_offset` set to its `next_offset`, which does not
        notice that an operator has truncated the log below it: a `last_offset` below
        `from_offset` - 1 tells as long as the log has not grown again. With the cursor the call is
        then refused (409 `LogTruncated`): what was read at `truncated_to` and above is no longer in
        the log, and the problem's `next_cursor` goes on with what has taken its place.

        `view=log` shows every entry of the log, including markers, and goes on at `next_offset`.

        `order=committed` returns each transaction whole, at the place of its commit marker, and
        skips those that are still open. A reader that follows the end of the log by its cursors
        gets every committed message exactly once. Only the cursor can continue inside a transaction
        that is larger than a fetch: with `next_offset` that transaction would begin again, for
        ever.

        `filter=client` leaves aborted messages in. To drop them, go through batches and `markers`
        by offset. Before each, put all `aborted_transactions` that begin up to its last offset into
        a set; at an abort marker, take its transaction out of the set; drop the messages of
        transactions in the set.

        On a topic with `buffer: sidecar`, messages of open and aborted transactions are not in the
        partition. So `read_uncommitted` gives the same messages as `read_committed`, and with
        `view=log` the messages of a transaction are at the place of its commit marker.
        """
        query = call.query
        query.check()
        start = query.start(self.partition)
        answer = wait_until(
            partial(query.is_answered_by, start),
            lambda: self._fetch(query, start),
            wait_ms=query.wait_ms,
            stirred=lambda seen, seconds: engine().arrivals.in_partition(
                self.partition, seen, committed=query.until_stable, seconds=seconds
            ),
            still_wanted=lambda: still_wanted(call.request),
        )
        return fetched(
            answer,
            packed=call.packed,
            view_log=query.view == "log",
            sight=sight_of(call.principal, self.topic),
        )

    def _fetch(self, query: FetchQuery, start: ReadPosition) -> Fetched:
        log = engine().log
        limits = (query.max_messages, query.max_bytes)
        if query.view == "log":
            found = log.browse(self.partition, start.offset, *limits)
            committed = query.engine_isolation is Isolation.READ_COMMITTED
            return found if committed else replace(found, aborted_transactions=None)
        if query.order == "committed":
            return log.fetch_in_committed_order(self.partition, start, *limits)
        return log.fetch(
            self.partition,
            start.offset,
            *limits,
            query.engine_isolation,
            keep_aborted=query.filter == "client",
            ledger_id=start.ledger_id,
        )
