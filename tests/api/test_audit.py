from __future__ import annotations

from collections.abc import Callable

from tests.api.conftest import Caller


def test_the_audit_log_is_read_newest_first_page_by_page(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    opened = [program.open() for _ in range(5)]
    for txn_id in opened:
        program.post(f"/transactions/{txn_id}/abort", {"reason": f"reason of {txn_id}"})
    operator = as_role("operator")
    seen, cursor = [], ""
    while len(seen) < 5:
        page = operator.get(f"/audit?limit=2&who=program{cursor}").json
        seen += page["items"]
        cursor = f"&cursor={page['next_cursor']}"
    newest = [entry["object"] for entry in seen[:5]]
    assert newest == [f"transaction:{txn_id}" for txn_id in reversed(opened)]
    first = seen[4]
    assert first["reason"] == f"reason of {opened[0]}"
    assert (first["before"]["status"], first["after"]["status"]) == ("OPEN", "ABORTING")
    assert seen[0]["previous_hash"] == seen[1]["hash"]


def test_the_audit_log_is_filtered(program: Caller, as_role: Callable[..., Caller]) -> None:
    txn_id = program.open()
    program.post(f"/transactions/{txn_id}/commit")
    operator = as_role("operator")

    def newest(query: str) -> list[str]:
        return [each["object"] for each in operator.get(f"/audit?{query}").json["items"][:1]]

    assert newest("action=transaction.commit") == [f"transaction:{txn_id}"]
    assert newest(f"object=transaction:{txn_id}&who=program") == [f"transaction:{txn_id}"]
    assert newest("who=nobody") == []
