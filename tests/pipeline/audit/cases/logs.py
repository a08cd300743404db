"""Cases of logs in which all is in the partition, and of the coordinators' records."""

from __future__ import annotations

from tests.pipeline.audit.cases.case import CHUNK, Case, Found, bits, no_txn


def of_retention(case: Case) -> Found:
    """The beginning of one transaction is dropped, of another all but its marker; of a third,
    all."""
    case.log(end=20, log_start=10)
    cut, gone = case.txn(told=(5, 12, 4)), case.txn("ABORTED", told=(7, 8, 2))
    case.marker(gone, 10, "A")
    case.data(cut, 11, 12)
    case.marker(cut, 13)
    case.index(gone, 7, 10, 5, aborted=True)
    case.index(cut, 5, 13, 14)
    case.fence(gone, 10, 7, 8, aborted=True)
    case.fence(cut, 13, 5, 12)
    case.index(case.txn(), 2, 9, 3)
    case.ended(14, 15, 16)
    case.plain(17, 19)
    return set()


def of_retention_in_several_logs(case: Case) -> Found:
    """Of one transaction, which had begun elsewhere in each of them."""
    txn = case.txn()
    case.tables["participants"].clear()
    for first, (number, broker) in enumerate(((0, "broker-1"), (1, "broker-1"), (0, "broker-2"))):
        case.turn_to(number, broker)
        case.log(end=14, log_start=10)
        case.plain(10)
        case.committed(txn, first, 12, 13)
        case.tables["entries"][-2]["first_offset"] = 11
    return set()


def of_an_index_row_of_another_where_the_beginning_is_dropped(case: Case) -> Found:
    case.log(end=11, log_start=10)
    txn, other = case.ended(7, 8, 10), case.txn()
    case.tables["entries"].pop(0)
    case.tables["index"][-1]["sequence"] = other
    return {("index_row_wrong", "", txn), ("index_row_unfounded", "", other)}


def of_transactions_that_overlap(case: Case) -> Found:
    """Each begins before the one that ends before it; two that are open; one without messages."""
    case.log(end=11, first_ongoing_offset=6)
    for first, marker, stable in ((0, 5, 6), (1, 4, 0), (2, 3, 0), (8, 9, 6)):
        case.ended(first, first, marker)
        case.tables["index"][-1]["last_stable_offset"] = stable
    case.ongoing(6, 6)
    case.ongoing(7, 7)
    empty = case.txn()
    case.tables["participants"][-1]["messages"] = 0
    case.marker(empty, 10)
    case.fence(empty, 10, None, None)
    return set()


def of_an_empty_log_that_is_held(case: Case) -> Found:
    case.log(end=4, log_start=4, first_ongoing_offset=2)
    return {("stable_position", "", None)}


def of_the_first_message_kept(case: Case) -> Found:
    case.log(end=13, log_start=10)
    txn = case.ended(10, 11, 12)
    case.tables["participants"][-1]["messages"] = 3
    return {("participant", "", txn)}


def of_the_first_entry_lost(case: Case) -> Found:
    case.log(end=13, log_start=9)
    case.ended(10, 11, 12)
    return {("gap", "", None)}


def of_a_head_that_starts_later(case: Case) -> Found:
    """Nobody gets the first message."""
    case.log(end=2, head_start=1)
    case.plain(0, 0)
    case.plain(1, 1)
    return {("log_end", "", None)}


def of_ends_under_way(case: Case) -> Found:
    case.log(end=6)
    case.ended(0, 1, 2, status="COMMITTING")
    case.ended(3, 4, 5, "A", status="ABORTING")
    return set()


def of_ends_under_way_the_other_way(case: Case) -> Found:
    case.log(end=6)
    txns = case.ended(0, 1, 2, status="ABORTING"), case.ended(3, 4, 5, "A", status="COMMITTING")
    return {("decision", "", txn) for txn in txns}


def of_a_fence_under_way(case: Case) -> Found:
    """A fence without a marker: of an end that is carried out, the right way and the other."""
    case.log(end=1)
    case.plain(0)
    right, wrong = case.txn("COMMITTING"), case.txn("COMMITTING")
    case.add("fence", sequence=right, aborted=False)
    case.add("fence", sequence=wrong, aborted=True)
    return {("decision", "", wrong)}


def of_a_fence_without_a_marker_where_others_have_one(case: Case) -> Found:
    """Another transaction, another coordinator's of the same number, itself on another broker."""
    case.log(end=6)
    wrong, _ = case.txn("COMMITTING"), case.ended(0, 1, 2)
    case.add("fence", sequence=wrong, aborted=True)
    case.turn_to(0, "broker-2")
    case.log(end=3)
    case.committed(wrong, 0, 1, 2)
    case.turn_to(0)
    case.let_be_of(case.another)
    assert case.ended(3, 4, 5) == wrong
    return {("decision", "", wrong)}


def of_archived_transactions(case: Case) -> Found:
    """At the edges of bytes and chunks of the archive; the last of each kind ended the other way,
    and one is in no chunk."""
    committed = [0, 7, 8, CHUNK - 1, CHUNK, CHUNK + 9]
    aborted = [1, 6, 9, CHUNK - 2, CHUNK + 1, CHUNK + 8]
    never = CHUNK + 2
    for number, txn in enumerate((*committed, *aborted, never)):
        case.data(txn, 2 * number, 2 * number)
        case.marker(txn, 2 * number + 1, "A" if txn in aborted else "C")
        case.index(txn, 2 * number, 2 * number + 1, 2 * number + 2, aborted=txn in aborted)
        case.fence(txn, 2 * number + 1, 2 * number, 2 * number, aborted=txn in aborted)
    case.log(end=26)
    other_way = {committed[-1], aborted[-1]}
    case.archive([*committed, *aborted], sorted({*aborted} ^ other_way))
    return {("unknown_transaction", "", never)} | {("decision", "", txn) for txn in other_way}


def of_a_marker_missing_of_an_archived_transaction(case: Case) -> Found:
    """Of another, which got there while the logs were copied, it may come yet."""
    case.log(end=2, first_ongoing_offset=0)
    lost, coming = case.ongoing(0, 0), case.ongoing(1, 1)
    case.archive([lost, coming], [])
    case.tables["archived_before"][-1]["ended"] = bits([lost], 0)
    return {("missing_marker", "", lost)}


def of_low_water_marks(case: Case) -> Found:
    """A mark covers its own transaction, and not the next; another partition's is lower."""
    case.log(end=9)
    first, covered, next_one = case.ended(0, 1, 2), case.ended(3, 4, 5), case.ended(6, 7, 8)
    case.tables["fence"].clear()
    case.add("marks", low_water_mark=covered)
    case.turn_to(1)
    case.log(end=1)
    case.plain(0)
    case.add("marks", low_water_mark=first)
    return {("fence", "", next_one)}


def of_what_the_fence_remembers(case: Case) -> Found:
    """Another marker, another beginning, another end, another number of messages, none at all."""
    case.log(end=18)
    txns = [case.ended(3 * number, 3 * number + 1, 3 * number + 2) for number in range(6)]
    marker, first, last, messages, none = case.tables["fence"][:5]
    marker["marker_offset"] += 1
    first["first_offset"] -= 1
    last["last_offset"] -= 1
    messages["messages"] += 1
    none |= {"first_offset": None, "last_offset": None, "messages": 0}
    return {("fence", "", txn) for txn in txns[:5]}


def without_any_mark(case: Case) -> Found:
    case.log(end=3)
    txn = case.ended(0, 1, 2, "A")
    case.tables["fence"].clear()
    return {("fence", "", txn)}


def of_a_marker_missing_by_the_fence_alone(case: Case) -> Found:
    """Its coordinator carries out the end, which by the fence is done."""
    case.log(end=3, first_ongoing_offset=0)
    txn = case.ongoing(0, 1, status="COMMITTING")
    case.plain(2)
    case.add("fence", sequence=txn, aborted=False)
    return {("missing_marker", "", txn)}


def of_markers_missing_while_offline(case: Case) -> Found:
    """Bringing the partition online writes it, but for one that the fence knows to be written."""
    case.log(end=4, first_ongoing_offset=0, online=False)
    case.ongoing(0, 1, status="COMMITTED")
    written = case.ongoing(2, 3, status="COMMITTED")
    case.add("fence", sequence=written, aborted=False)
    return {("missing_marker", "", written)}


def of_an_end_that_is_too_recent_to_judge(case: Case) -> Found:
    """Its coordinator was read after the log."""
    case.log(end=2, first_ongoing_offset=0)
    case.ongoing(0, 1)
    case.tables["headers"][-1] |= {"status": "COMMITTED", "ended_before": False}
    return set()


def of_ongoing_rows(case: Case) -> Found:
    """One begins elsewhere, one ends elsewhere, one has another count, one is not in the log."""
    case.log(end=8, first_ongoing_offset=0)
    case.ongoing(0, 0)
    first, last, count = case.ongoing(1, 2), case.ongoing(3, 4), case.ongoing(5, 6)
    case.plain(7)
    case.tables["ongoing"][1]["first_offset"] += 1
    case.tables["ongoing"][2]["last_offset"] += 1
    case.tables["ongoing"][3]["messages"] -= 1
    nowhere = case.txn("OPEN")
    case.add("ongoing", sequence=nowhere, first_offset=7, last_offset=7, messages=1)
    return {("ongoing_row", "", txn) for txn in (first, last, count, nowhere)}


def of_duplicates(case: Case) -> Found:
    """A batch three times. One in two transactions is two; without a sequence id nobody knows."""
    case.log(end=7, first_ongoing_offset=4)
    for at in (0, 1, 2):
        case.plain(at, producer_name="p", sequence_id=1)
    case.plain(3, producer_name="p")
    for at in (4, 5):
        case.ongoing(at, at)
        case.tables["entries"][-1] |= {"producer_name": "p", "sequence_id": 2}
    case.plain(6, producer_name="p")
    return {("duplicate", "", None)}


def without_deduplication(case: Case) -> Found:
    case.log(end=2, deduplication=False)
    case.plain(0, producer_name="p", sequence_id=1)
    case.plain(1, producer_name="p", sequence_id=1)
    return set()


def of_opposite_markers_in_one_log(case: Case) -> Found:
    case.log(end=7)
    txn, _ = case.ended(0, 1, 2), case.ended(4, 5, 6)
    case.marker(txn, 3, "A")
    return {("opposite_markers", "", txn)}


def of_three_markers(case: Case) -> Found:
    case.log(end=5)
    txn = case.ended(0, 1, 2)
    case.marker(txn, 3)
    case.marker(txn, 4)
    return {("two_markers", "", txn)}


def of_two_damages(case: Case) -> Found:
    """A transaction's marker is lost, the one before it has a second: neither hides the other."""
    case.log(end=7)
    twice, lost = case.ended(0, 1, 2), case.ended(3, 4, 5)
    [marker] = [row for row in case.tables["entries"] if row["first_offset"] == 5]
    marker |= no_txn() | {"kind": "D"}
    case.marker(twice, 6)
    found = {("missing_marker", "", lost), ("index_row_unfounded", "", lost)}
    return {("two_markers", "", twice), ("stable_position", "", None), *found} | {
        ("ongoing_row", "", lost)
    }


def of_a_second_partition_alone(case: Case) -> Found:
    """Each partition has the same transaction; the second has lost what the first has."""
    case.log(end=3)
    txn = case.ended(0, 1, 2)
    case.turn_to(1)
    case.log(end=3)
    told = {"first_offset": 0, "last_offset": 1, "messages": 2}
    case.add("participants", sequence=txn, home_id=case.place["log_id"], **told)
    case.data(txn, 0, 1)
    case.marker(txn, 2)
    return {("fence", ":1", txn), ("index_row_missing", ":1", txn)}


def of_opposite_ends_of_two_partitions(case: Case) -> Found:
    """In the first by its marker; in the second, where it has none, by the fence."""
    case.log(end=3)
    txn = case.ended(0, 1, 2)
    case.turn_to(1)
    case.log(end=1)
    case.plain(0)
    case.add("fence", sequence=txn, aborted=True)
    return {("decision", ":1", txn)}


def of_an_end_that_has_reached_one_partition_of_three(case: Case) -> Found:
    """Another coordinator's transaction of the same number is open beside it."""
    txn = case.txn("COMMITTING")
    case.tables["participants"].clear()
    case.turn_to(1)
    case.log(end=3)
    case.committed(txn, 0, 1, 2)
    case.turn_to(2)
    case.log(end=5, first_ongoing_offset=2)
    case.plain(0, 1)
    case.still_open(txn, 2, 4)
    case.turn_to(0)
    case.log(end=3, first_ongoing_offset=0)
    case.still_open(txn, 0, 1)
    case.let_be_of(case.another)
    assert case.ongoing(2, 2) == txn
    return set()


def of_index_rows_of_others(case: Case) -> Found:
    """One names another transaction; one stands where the log starts, and nothing with it."""
    case.log(end=13, log_start=9)
    case.plain(9)
    txn = case.ended(10, 11, 12)
    other = case.txn()
    case.tables["index"][-1]["sequence"] = other
    case.index(txn, 8, 9, 10)
    wrong = {("index_row_wrong", "", txn), ("index_row_unfounded", "", other)}
    return wrong | {("index_row_unfounded", "", txn)}


def of_one_index_row_of_two(case: Case) -> Found:
    case.log(end=6)
    lost, _ = case.ended(0, 1, 2), case.ended(3, 4, 5)
    case.tables["index"].pop(0)
    return {("index_row_missing", "", lost)}


def of_an_index_row_of_a_marker_without_messages(case: Case) -> Found:
    """A sidecar log has such."""
    case.log(end=1)
    txn = case.txn()
    case.marker(txn, 0)
    case.fence(txn, 0, None, None)
    case.index(txn, 0, 0, 1)
    case.tables["participants"].clear()
    return {(rule, "", txn) for rule in ("index_row_unfounded", "participant")}


def of_an_index_row_for_another_coordinators_transaction(case: Case) -> Found:
    """Of the same number; in another partition and on another broker it would be right there."""
    txn = case.txn()
    case.tables["participants"].clear()
    for number, broker in ((1, "broker-1"), (0, "broker-2")):
        case.turn_to(number, broker)
        case.log(end=3)
        case.committed(txn, 0, 1, 2)
    case.turn_to(0)
    case.log(end=3)
    case.let_be_of(case.another)
    assert case.ended(0, 1, 2) == txn
    case.tables["index"][-1]["tc_id"] = case.own
    return {(rule, "", txn) for rule in ("index_row_wrong", "index_row_unfounded")}


def of_several_that_are_open(case: Case) -> Found:
    """The mark covers the lowest of them."""
    case.log(end=2, first_ongoing_offset=0)
    lowest = case.ongoing(0, 0)
    case.ongoing(1, 1)
    case.add("marks", low_water_mark=lowest)
    return {("low_water_mark", "", lowest)}


def of_entries_of_no_kind(case: Case) -> Found:
    """A marker of no transaction, half of an id, a message that counts as a sidecar's."""
    case.log(end=4, first_ongoing_offset=3)
    case.plain(0, kind="C")
    case.plain(1, sequence=case.txn())
    case.plain(2, txn_messages=1)
    held = case.ongoing(3, 3)
    case.tables["entries"][-1]["txn_messages"] = 1
    return {("entry_misplaced", "", txn) for txn in (None, held)}


def of_the_same_log_on_another_broker(case: Case) -> Found:
    """What there is on the first, the second has lost; neither is taken for the other's."""
    case.log(end=5, first_ongoing_offset=3)
    final, ended, hanging = case.txn(), case.ended(0, 1, 2), case.ongoing(3, 4)
    holder = case.txn("COMMITTING")
    case.subscribed(mark_delete=0)
    case.subscribed(mark_delete=0, subscription="other")
    case.step(final, "COMMIT", 1, 2)
    case.add("acked", subscription="s", lower=1, upper=2)
    case.ended_ack(final, aborted=False)
    covered = {"topic": case.topic, "subscription": "s", "low_water_mark": final}
    case.add("ack_marks", **covered)
    case.holds(holder, 3, 4)
    case.turn_to(0, "broker-2")
    case.log(end=5, first_ongoing_offset=3)
    case.data(ended, 0, 1)
    case.marker(ended, 2)
    case.data(hanging, 3, 4)
    case.subscribed(mark_delete=0)
    case.add("subscriptions", subscription="other")
    case.step(final, "COMMIT", 1, 2)
    held = {"ack_type": "INDIVIDUAL", "lower": 3, "upper": 4}
    case.add("pending_acks", sequence=holder, subscription="s", **held)
    lost = {
        ended: ("fence", "index_row_missing", "participant"),
        hanging: ("ongoing_row", "participant"),
        final: ("ack_undone", "ack_fence"),
        holder: ("pending_ack_log", "ack_participant"),
        None: ("cursor_missing",),
    }
    return {(rule, "@broker-2", txn) for txn, rules in lost.items() for rule in rules}


def of_long_batches(case: Case) -> Found:
    case.log(end=200_004)
    for first, last in ((0, 65_535), (65_536, 65_536), (65_537, 200_000), (200_001, 200_003)):
        case.plain(first, last)
    return set()


def of_a_gap_behind_long_batches(case: Case) -> Found:
    case.log(end=131_073)
    for first, last in ((0, 0), (1, 65_535), (65_537, 131_071), (131_072, 131_072)):
        case.plain(first, last)
    return {("gap", "", None)}


def of_a_transaction_that_was_told_of_nothing(case: Case) -> Found:
    """An end that has not come back to its coordinator yet, and one that told another beginning."""
    case.log(end=6)
    case.ended(0, 1, 2, status="COMMITTING")
    case.tables["participants"][-1] |= {"first_offset": None, "last_offset": None, "messages": None}
    wrong = case.ended(3, 4, 5)
    case.tables["participants"][-1]["first_offset"] = 2
    return {("participant", "", wrong)}
