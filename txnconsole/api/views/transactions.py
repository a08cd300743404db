"""Transactions: opening, listing, looking at them (design/api.md, Transactions)."""

from __future__ import annotations

from engine.model.page import Page, decode_number
from engine.model.transaction import Transaction as EngineTransaction
from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_status import LIVE, TxnAction
from txnconsole.access.addresses import address_of
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint, TransactionEndpoint
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_of
from txnconsole.api.structs.fields import PageQuery
from txnconsole.api.structs.transactions import (
    Impact,
    ImpactQuery,
    ListTransactions,
    OpenTransaction,
    SlowTransactions,
    Transaction,
    TransactionHeader,
    TransactionLog,
    TransactionLogEntry,
    TransactionOutcome,
    TransactionPage,
)
from txnconsole.documents.structs import TransactionDocument
from txnconsole.documents.transaction import transaction_document
from txnconsole.enginedb.wiring import engine


class Transactions(Endpoint):
    @operation(
        "listTransactions",
        Permission.TRANSACTION_READ,
        Shape(query=ListTransactions, answer=TransactionPage),
        summary="List transactions",
    )
    def get(self, call: Call[None, ListTransactions]) -> TransactionPage:
        """Programs see their own transactions, people everybody's."""
        query = call.query
        page = engine().coordinator.list(
            query.filter(call.principal.owner_filter),
            order=query.engine_order,
            limit=query.limit,
            cursor=query.cursor,
        )
        return _page(page)

    @operation(
        "openTransaction",
        Permission.TRANSACTION_USE,
        Shape(keyed=True, body=OpenTransaction, answer=Transaction, statuses=(201,)),
        summary="Open a transaction",
    )
    def post(self, call: Call[OpenTransaction, NoQuery]) -> Reply:
        """Its owner is the caller. `timeout_ms` defaults to 60000 and has a configured maximum."""
        opened = engine().coordinator.open(
            owner=call.principal.name,
            timeout_ms=call.body.timeout_ms,
            tc_id=call.body.coordinator_id,
            client=call.body.client,
            client_host=address_of(call.request),
            properties=call.body.properties,
        )
        return Reply(Transaction.of(opened), 201)


class DocumentOfTransaction(TransactionEndpoint):
    @operation(
        "getTransactionDocument",
        Permission.TRANSACTION_READ,
        Shape(answer=TransactionDocument),
        summary="Write all that is known of a transaction down",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionDocument:
        """All that is known of it as one document, which any console can show
        (`/transactions/document`). Only callers who may read the audit log get its part."""
        self.visible()
        may_audit = call.principal.may(Permission.AUDIT_READ)
        return transaction_document(self.txn_id, audit=may_audit)


class SlowTransactionsOfAll(Endpoint):
    @operation(
        "listSlowTransactions",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=SlowTransactions, answer=TransactionPage),
        summary="List transactions that take long",
    )
    def get(self, call: Call[None, SlowTransactions]) -> TransactionPage:
        """Transactions that have not ended `min_age_ms` after they were opened, oldest first."""
        page = engine().coordinator.list(
            TransactionFilter(statuses=LIVE, min_age_ms=call.query.min_age_ms),
            order=TransactionOrder.OLDEST,
            limit=call.query.limit,
            cursor=call.query.cursor,
        )
        return _page(page)


class OneTransaction(TransactionEndpoint):
    @operation(
        "getTransaction",
        Permission.TRANSACTION_READ,
        Shape(answer=Transaction),
        summary="Show a transaction",
    )
    def get(self, call: Call[None, NoQuery]) -> Transaction:
        """The transaction with its participants, and what their brokers know of it now."""
        return Transaction.of(self.inspected())


class LogOfTransaction(TransactionEndpoint):
    @operation(
        "getTransactionLog",
        Permission.TRANSACTION_READ,
        Shape(query=PageQuery, answer=TransactionLog),
        summary="Show a transaction's log",
    )
    def get(self, call: Call[None, PageQuery]) -> TransactionLog:
        """What its coordinator recorded about it, in order."""
        cursor, limit = call.query.cursor, call.query.limit
        after = 0 if cursor is None else decode_number(cursor, least=1)
        self.visible()
        found = engine().coordinator.log(self.txn_id, after=after, limit=limit + 1)
        page, next_cursor = page_of(found, limit, lambda each: each.log_id)
        return TransactionLog(
            items=[TransactionLogEntry.of(entry) for entry in page],
            next_cursor=next_cursor,
        )


class OutcomeOfTransaction(TransactionEndpoint):
    @operation(
        "getTransactionOutcome",
        Permission.TRANSACTION_READ,
        Shape(answer=TransactionOutcome),
        summary="Tell a transaction's outcome",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionOutcome:
        """Known for every id ever issued, for ever; a program may ask only about its own
        transactions."""
        if call.principal.owner_filter is not None:
            self.visible()
        outcome = engine().coordinator.outcome(self.txn_id)
        return TransactionOutcome(txn_id=str(self.txn_id), outcome=outcome)


class ImpactOfTransaction(TransactionEndpoint):
    @operation(
        "getTransactionImpact",
        Permission.TRANSACTION_READ,
        Shape(query=ImpactQuery, answer=Impact),
        summary="Tell what ending a transaction would do",
    )
    def get(self, call: Call[None, ImpactQuery]) -> Impact:
        """A dry run that changes nothing. `expire` is what the deadline will do. A broker that does
        not answer is among `unavailable`, and what would happen there is missing.

        409 `InvalidTxnStatus` for an end that the transaction's status does not allow any more.
        """
        self.visible()
        action, inspect = call.query.action, engine().inspect
        if action == "expire":
            return Impact.of(inspect.expiry(self.txn_id), action)
        return Impact.of(inspect.impact(self.txn_id, TxnAction(action.upper())), action)


def _page(page: Page[EngineTransaction]) -> TransactionPage:
    return TransactionPage(
        items=[TransactionHeader.of_header(each) for each in page.items],
        next_cursor=page.next_cursor,
    )
