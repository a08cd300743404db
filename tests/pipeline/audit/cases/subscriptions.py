"""Cases of subscriptions, of what is in flight and of dead letters."""

from __future__ import annotations

from tests.pipeline.audit.cases.case import Case, Found


def of_cursors_at_the_end(case: Case) -> Found:
    case.log(end=3)
    case.plain(0, 2)
    case.subscribed(mark_delete=2)
    return set()


def of_a_cursor_behind_the_end(case: Case) -> Found:
    case.log(end=3)
    case.plain(0, 2)
    case.subscribed(mark_delete=3)
    return {("cursor_end", "", None)}


def of_acknowledgements_in_an_empty_log(case: Case) -> Found:
    case.log(end=4, log_start=4)
    case.subscribed(mark_delete=3)
    case.holds(case.txn("OPEN"), 4, 5)
    return {("cursor_end", "", None)}


def of_one_cursor_of_two(case: Case) -> Found:
    case.log(end=1)
    case.plain(0)
    case.subscribed()
    case.add("subscriptions", subscription="other")
    return {("cursor_missing", "", None)}


def of_two_subscriptions(case: Case) -> Found:
    """Each has its own of the same messages."""
    case.log(end=4)
    case.plain(0, 3)
    case.subscribed(mark_delete=0)
    case.subscribed(mark_delete=1, subscription="other")
    case.holds(case.txn("OPEN"), 2, 4)
    case.holds(case.txn("OPEN"), 2, 3, "other")
    case.add("acked", subscription="other", lower=3, upper=4)
    case.add("in_flight", subscription="s", consumer="c", lower=1, upper=2)
    return set()


def of_what_is_acknowledged_up_to_a_cursor(case: Case) -> Found:
    """One transaction holds the last message below it, another the first above."""
    case.log(end=6)
    case.plain(0, 5)
    case.subscribed(mark_delete=3)
    taken, free = case.txn("OPEN"), case.txn("OPEN")
    case.holds(free, 4, 5)
    case.holds(taken, 3, 4)
    case.add("in_flight", subscription="s", consumer="c", lower=5, upper=6)
    return {("pending_ack_twice", "", taken), ("pending_ack_log", "", taken)}


def of_what_two_transactions_hold(case: Case) -> Found:
    case.log(end=4)
    case.plain(0, 3)
    case.subscribed()
    first, second = case.txn("OPEN"), case.txn("OPEN")
    case.holds(first, 0, 3)
    case.holds(second, 1, 2)
    return {("pending_ack_twice", "", second)}


def of_an_end_that_the_subscriptions_fence_alone_knows(case: Case) -> Found:
    case.log(end=1)
    case.plain(0)
    case.subscribed()
    txn = case.txn("COMMITTING")
    case.holds(txn, 0, 1)
    case.ended_ack(txn, aborted=False)
    return {("pending_ack_ended", "", txn)}


def of_what_is_held_without_a_record(case: Case) -> Found:
    """By a transaction that has ended, and that nothing else names."""
    case.log(end=1)
    case.plain(0)
    case.subscribed()
    txn = case.txn()
    case.holds(txn, 0, 1)
    case.tables["ack_steps"].pop()
    return {("pending_ack_ended", "", txn), ("pending_ack_log", "", txn)}


def of_acknowledgements_under_way(case: Case) -> Found:
    """Each of two subscriptions' fences is right by a decision that is being carried out."""
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed()
    for status, aborted in (("COMMITTING", False), ("ABORTING", True)):
        case.ended_ack(case.txn(status), aborted=aborted)
    wrong = case.txn("ABORTING")
    case.ended_ack(wrong, aborted=False)
    return {("ack_decision", "", wrong)}


def of_what_was_given_back(case: Case) -> Found:
    """By an abort, which is right; by a commit of what a call over several brokers has claimed,
    which is too, of other messages than the transaction had, or had there; or before it had
    them."""
    case.log(end=8)
    case.plain(0, 7)
    case.subscribed()
    aborted, several, others = case.txn("ABORTED"), case.txn(), case.txn("COMMITTING")
    case.step(aborted, "ACK", 0, 2)
    case.step(aborted, "ABORT", 0, 2)
    case.step(several, "ACK", 2, 3, call_id=7)
    case.step(several, "ABORT", 2, 3)
    case.step(others, "ACK", 4, 5)
    case.step(others, "ABORT", 3, 4)
    case.step(others, "ABORT", 5, 6)
    case.step(others, "COMMIT", 4, 5)
    case.add("acked", subscription="s", lower=4, upper=5)
    case.step(others, "ACK", 6, 7, subscription="other")
    case.step(others, "ABORT", 6, 7)
    again = case.txn()
    case.step(again, "ABORT", 7, 8)
    case.step(again, "ACK", 7, 8)
    case.step(again, "COMMIT", 7, 8)
    case.add("acked", subscription="s", lower=7, upper=8)
    for txn in (aborted, several, others, again):
        case.ended_ack(txn, aborted=txn == aborted)
    return set()


def of_what_was_given_back_where_others_had_it(case: Case) -> Found:
    """By a commit, which had nothing there: another transaction had, another coordinator's of the
    same number, itself in another partition and on another broker."""
    final, another = case.txn("COMMITTING"), case.txn("ABORTED")
    for number, broker in ((1, "broker-1"), (0, "broker-2"), (0, "broker-1")):
        case.turn_to(number, broker)
        case.log(end=1)
        case.plain(0)
        case.subscribed()
        case.ended_ack(final, aborted=False)
        if case.place != {"broker": "broker-1", "log_id": f"{case.topic}:0"}:
            case.step(final, "ACK", 0, 1)
            case.step(final, "COMMIT", 0, 1)
            case.add("acked", subscription="s", lower=0, upper=1)
    case.given_back(another)
    case.let_be_of(case.another)
    case.given_back(case.txn("ABORTED"))
    case.tc_id = case.own
    case.step(final, "ABORT", 0, 1)
    return set()


def of_what_was_given_back_while_open(case: Case) -> Found:
    """Its coordinator has decided nothing."""
    case.log(end=1)
    case.plain(0)
    case.subscribed()
    txn = case.txn("OPEN")
    case.step(txn, "ACK", 0, 1)
    case.step(txn, "ABORT", 0, 1)
    return {("ack_decision", "", txn), ("ack_fence", "", txn)}


def of_a_message_given_back_by_a_commit(case: Case) -> Found:
    """The last of those that the transaction had."""
    case.log(end=4)
    case.plain(0, 3)
    case.subscribed()
    txn = case.txn("COMMITTING")
    case.step(txn, "ACK", 0, 3)
    case.step(txn, "ABORT", 2, 4)
    case.step(txn, "COMMIT", 0, 2)
    case.add("acked", subscription="s", lower=0, upper=2)
    case.ended_ack(txn, aborted=False)
    return {("ack_decision", "", txn)}


def of_acknowledgements_undone(case: Case) -> Found:
    """What a commit has acknowledged is there by the cursor, by a range, and by both; of another's
    one message is not."""
    case.log(end=12)
    case.plain(0, 11)
    case.subscribed(mark_delete=2)
    case.subscribed(subscription="other")
    case.add("acked", subscription="s", lower=4, upper=8)
    case.add("acked", subscription="other", lower=9, upper=10)
    whole, undone = case.txn(), case.txn()
    case.step(whole, "COMMIT", 0, 3)
    case.step(whole, "COMMIT", 4, 6)
    case.step(undone, "COMMIT", 6, 9)
    for txn in (whole, undone):
        case.ended_ack(txn, aborted=False)
    return {("ack_undone", "", undone)}


def of_a_subscriptions_marks(case: Case) -> Found:
    case.log(end=4)
    case.plain(0, 3)
    case.subscribed(mark_delete=3)
    covered, forgotten, several = case.txn(), case.txn(), case.txn("ABORTED")
    case.step(covered, "COMMIT", 0, 1)
    case.step(forgotten, "COMMIT", 1, 2)
    case.step(several, "ABORT", 2, 3, call_id=7)
    mark = {"topic": case.topic, "subscription": "s", "low_water_mark": covered}
    case.add("ack_marks", **mark)
    return {("ack_fence", "", forgotten)}


def of_an_end_that_others_fences_know(case: Case) -> Found:
    """Of another topic's subscription of the same name; here of another transaction, and of
    another coordinator's of the same number."""
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed(mark_delete=1)
    forgotten, fenced, another = (case.txn() for _ in range(3))
    elsewhere = {"subscription": "s", "topic": f"{case.topic}-elsewhere"}
    for at, txn in enumerate((forgotten, fenced)):
        case.step(txn, "COMMIT", at, at + 1)
        case.ended_ack(another, aborted=False)
    case.add("ack_marks", **elsewhere, low_water_mark=forgotten)
    case.add("ended_acks", **elsewhere, sequence=fenced, aborted=False, messages=1)
    case.let_be_of(case.another)
    for txn in (case.txn(), case.txn()):
        case.ended_ack(txn, aborted=False)
    return {("ack_fence", "", txn) for txn in (forgotten, fenced)}


def of_a_subscription_without_marks(case: Case) -> Found:
    case.log(end=1)
    case.plain(0)
    case.subscribed(mark_delete=0)
    txn = case.txn()
    case.step(txn, "COMMIT", 0, 1)
    return {("ack_fence", "", txn)}


def of_another_holder(case: Case) -> Found:
    """What one transaction holds, another does by the log; of a third the kind differs."""
    case.log(end=3)
    case.plain(0, 2)
    case.subscribed()
    found, told, kind = (case.txn("OPEN") for _ in range(3))
    case.holds(found, 0, 1)
    case.tables["ack_steps"][-1]["sequence"] = told
    case.holds(kind, 1, 2)
    case.tables["ack_steps"][-1]["ack_type"] = "CUMULATIVE"
    return {("pending_ack_log", "", txn) for txn in (found, told, kind)}


def of_what_is_held_elsewhere_too(case: Case) -> Found:
    """In another partition, on another broker, of another subscription; and another coordinator's
    transactions of the same numbers hold it here."""
    found, told = case.txn("OPEN"), case.txn("OPEN")

    def hold(subscription: str = "s") -> None:
        for at, txn in enumerate((found, told)):
            case.holds(txn, at, at + 1, subscription)

    for number, broker in ((1, "broker-1"), (0, "broker-2"), (0, "broker-1")):
        case.turn_to(number, broker)
        case.log(end=2)
        case.plain(0, 1)
        case.subscribed()
        hold()
    case.tables["ack_steps"][-2:] = case.tables["ack_steps"][-1:]
    case.tables["pending_acks"].pop()
    case.subscribed(subscription="other")
    hold("other")
    case.let_be_of(case.another)
    assert (case.txn("OPEN"), case.txn("OPEN")) == (found, told)
    hold()
    return {("pending_ack_log", "", txn) for txn in (found, told)} | {
        ("pending_ack_twice", "", found)
    }


def of_transactions_that_were_never_issued(case: Case) -> Found:
    """One has written, one holds a message; another of each kind is known."""
    case.log(end=4, first_ongoing_offset=0)
    written, holder = case.ongoing(0, 0), case.txn("OPEN")
    case.tables["headers"].clear()
    case.tables["participants"].clear()
    case.ended(1, 2, 3)
    case.tables["index"][-1]["last_stable_offset"] = 0
    case.subscribed()
    case.holds(holder, 0, 1)
    case.holds(case.txn("OPEN"), 1, 2)
    return {("unknown_transaction", "", txn) for txn in (written, holder)}


def of_an_end_that_another_subscriptions_fence_knows(case: Case) -> Found:
    """It holds nothing there any more, nor of another topic's; here it still may. Of another the
    coordinator knows."""
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed()
    other, ended = case.txn("COMMITTING"), case.txn()
    case.holds(other, 0, 1)
    case.ended_ack(other, aborted=False)
    case.tables["ended_acks"][-1]["subscription"] = "other"
    case.ended_ack(other, aborted=False)
    case.tables["ended_acks"][-1]["topic"] = "public/default/of-duplicates"
    case.holds(ended, 1, 2)
    return {("pending_ack_ended", "", ended)}


def of_what_is_in_flight_beside_what_is_taken(case: Case) -> Found:
    """The first above the cursor, and between a transaction's and two dead letters."""
    case.log(end=6)
    case.plain(0, 5)
    case.subscribed(mark_delete=0)
    case.holds(case.txn("OPEN"), 2, 3)
    for number, at in enumerate((4, 5)):
        case.add("dead_letters", subscription="s", sequence_id=number, message_offset=at)
    for at in (1, 3):
        case.add("in_flight", subscription="s", consumer="c", lower=at, upper=at + 1)
    return set()


def of_what_is_in_flight_up_to_the_cursor(case: Case) -> Found:
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed(mark_delete=0)
    case.add("in_flight", subscription="s", consumer="c", lower=0, upper=2)
    return {("in_flight_taken", "", None)}


def of_a_dead_letter_in_flight(case: Case) -> Found:
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed()
    case.add("in_flight", subscription="s", consumer="c", lower=0, upper=2)
    case.add("dead_letters", subscription="s", sequence_id=0, message_offset=1)
    return {("in_flight_taken", "", None)}


def of_a_dead_letter_held_first(case: Case) -> Found:
    """Another transaction holds the message before, another the one behind."""
    case.log(end=4)
    case.plain(0, 3)
    case.subscribed()
    before, held, behind = (case.txn("OPEN") for _ in range(3))
    for at, txn in ((0, before), (2, held), (3, behind)):
        case.holds(txn, at, at + 1)
    for number, at in enumerate((1, 2)):
        case.add("dead_letters", subscription="s", sequence_id=number, message_offset=at)
    return {("dead_letter_held", "", held)}


def of_dead_letters(case: Case, dead: str = "") -> Found:
    """Of six the first and the fourth have arrived, the fifth is on its way; one came meanwhile."""
    case.log(end=3)
    producer = f"dead-letters/{case.place['log_id']}/s/1"
    about = {"subscription": "s", "producer": producer, "dead_letter_topic": dead or case.topic}
    case.add("letters_before", **about, issued=6, waiting=[4])
    for at, number in enumerate((0, 3, 6)):
        case.plain(at, producer_name=producer, sequence_id=number)
    return set() if dead else {("dead_letter_lost", "", None)}


def of_dead_letters_that_were_parked(case: Case) -> Found:
    """One of each subscription; the name of one's producer is the beginning of the other's."""
    case.log(end=4)
    producer = f"dead-letters/{case.place['log_id']}/s/1"
    at = 0
    for name, sender in (("s", producer), ("other", f"{producer}.2")):
        about = {"subscription": name, "producer": sender, "dead_letter_topic": case.topic}
        case.add("letters_before", **about, issued=2, waiting=[])
        for number, sent_by in enumerate((sender, f"{sender}/1")):
            case.plain(at, producer_name=sent_by, sequence_id=number)
            at += 1
    return set()


def of_dead_letters_twice_where_that_is_no_error(case: Case) -> Found:
    """Their topic keeps no producers, though it does on another broker."""
    of_dead_letters(case)
    case.tables["logs"][-1]["deduplication"] = False
    producer = case.tables["letters_before"][-1]["producer"]
    case.tables["letters_before"][-1] |= {"issued": 1, "waiting": []}
    case.turn_to(1)
    case.log(end=1, deduplication=False)
    case.plain(0, producer_name=producer, sequence_id=0)
    for number in (0, 1):
        case.turn_to(number, "broker-2")
        case.log(end=1)
        case.plain(0)
    case.turn_to(2)
    case.log(end=1)
    case.plain(0)
    return set()


def of_dead_letters_whose_topic_is_not_audited(case: Case) -> Found:
    return of_dead_letters(case, "public/default/elsewhere")


def of_an_end_that_only_another_subscription_knows(case: Case) -> Found:
    """By its fence of one transaction, by its low water mark of another."""
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed(mark_delete=1)
    covered, fenced = case.txn(), case.txn()
    other = {"topic": case.topic, "subscription": "other"}
    for at, txn in enumerate((covered, fenced)):
        case.step(txn, "COMMIT", at, at + 1)
    case.add("ack_marks", **other, low_water_mark=covered)
    case.add("ended_acks", **other, sequence=fenced, aborted=False, messages=1)
    return {("ack_fence", "", txn) for txn in (covered, fenced)}


def of_what_a_coordinator_was_told_of_each_subscription(case: Case) -> Found:
    """Two transactions have another number of messages of each, and of one of another topic; of a
    third it lists others alone. Of a fourth it has no header any more, of which is told already."""
    case.log(end=2)
    case.plain(0, 1)
    case.subscribed()
    for messages in (2, 4):
        txn = case.txn()
        for more, subscription in enumerate(("s", "other")):
            about = {"topic": case.topic, "subscription": subscription, "sequence": txn}
            case.add("ended_acks", **about, aborted=False, messages=messages + more)
            case.add("acknowledgers", **about, acked_messages=messages + more)
            elsewhere = about | {"topic": f"{case.topic}-elsewhere"}
            case.add("acknowledgers", **elsewhere, acked_messages=messages + more + 1)
    unlisted, archived = case.txn("OPEN"), case.txn()
    case.holds(unlisted, 0, 1)
    listed = case.tables["acknowledgers"].pop()
    case.tables["acknowledgers"] += [
        listed | other
        for other in (
            {"subscription": "other"},
            {"topic": f"{case.topic}-elsewhere"},
            {"tc_id": case.another},
        )
    ]
    case.archive([archived], [])
    case.holds(archived, 1, 2)
    case.tables["acknowledgers"].pop()
    case.let_be_of(case.another)
    for _ in range(archived + 1):
        case.txn()
    return {("ack_participant", "", unlisted), ("pending_ack_ended", "", archived)}


def of_a_subscription_on_two_brokers(case: Case) -> Found:
    """A transaction has another number of messages on each. Of a second the coordinator lists one
    broker alone; a third has ended on one, and is about to on the other; a fourth has given back on
    one what it has made final on the other."""
    both, unlisted, coming, final = case.txn(), *(case.txn("COMMITTING") for _ in range(3))
    for number, broker in enumerate(("broker-1", "broker-2")):
        case.turn_to(number, broker)
        case.log(end=4)
        case.plain(0, 3)
        case.subscribed()
        case.ended_ack(both, aborted=False, messages=1 + number)
        told = {"topic": case.topic, "subscription": "s", "acked_messages": 1 + number}
        case.add("acknowledgers", sequence=both, **told)
        case.holds(unlisted, 0, 1)
    case.tables["acknowledgers"].pop()
    case.holds(coming, 1, 2)
    case.step(final, "ACK", 2, 3)
    case.step(final, "COMMIT", 2, 3)
    case.add("acked", subscription="s", lower=2, upper=3)
    case.ended_ack(final, aborted=False)
    case.turn_to(0)
    case.ended_ack(coming, aborted=False)
    case.step(final, "ABORT", 2, 3)
    case.ended_ack(final, aborted=False)
    return {("ack_participant", "@broker-2:1", unlisted)}
