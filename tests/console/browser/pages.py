"""Every page of the console, with what it may cost. A new page adds its row here, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes over the wire, cold (design/console.md §7).
WITHOUT_CHARTS, WITH_CHARTS, DOCUMENT = 150_000, 600_000, 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """A page as an administrator sees it while one transaction holds a partition back.

    Attributes:
        address: with ``{topic}`` (``tenant/namespace/topic`` of one partition), ``{txn}`` and
            ``{subscription}`` where the page's own names go.
        ready: a selector that is visible when the page has drawn everything.
        charts: whether the page loads plotly.
        elements: how many elements it may have.
        status: how it is answered; the browser itself says on its console that it is no 200.
    """

    name: str
    address: str
    ready: str = "h1"
    charts: bool = False
    elements: int = 1_000
    status: int = 200

    @property
    def transfer(self) -> int:
        """Bytes that a cold visit may take."""
        return WITH_CHARTS if self.charts else WITHOUT_CHARTS


PAGES = (
    PageRow(name="overview", address="/", ready="#throughput .main-svg", charts=True),
    PageRow(name="held-back", address="/held-back?sort=longest", ready="#h-held"),
    PageRow(
        name="transactions", address="/transactions?q=state:open", ready=".viewlist .n:not(:empty)"
    ),
    PageRow(name="transactions-query", address="/transactions?q=stat:open", status=400),
    PageRow(
        name="transaction",
        address="/transactions/{txn}",
        ready="#timeline .main-svg",
        charts=True,
    ),
    PageRow(name="bulk-abort", address="/transactions/bulk/new?id={txn}", ready="#dialog-title"),
    PageRow(name="bulk-aborts", address="/transactions/bulk"),
    PageRow(name="hanging", address="/transactions/hanging?late=1"),
    PageRow(name="timeouts", address="/transactions/timeouts"),
    PageRow(name="transaction-document", address="/transactions/document"),
    PageRow(name="abort", address="/transactions/{txn}/abort", ready="#dialog-title"),
    PageRow(name="topics", address="/topics"),
    PageRow(name="topic", address="/topics/{topic}"),
    PageRow(
        name="log",
        address="/topics/{topic}/partitions/0/log",
        ready="#spans .main-svg",
        charts=True,
        elements=1_500,
    ),
    PageRow(
        name="test-message",
        address="/topics/{topic}/partitions/0/log/send",
        ready="#dialog-title",
    ),
    PageRow(name="partition", address="/topics/{topic}/partitions/0"),
    PageRow(
        name="history",
        address="/topics/{topic}/partitions/0/history",
        ready="#history .main-svg",
        charts=True,
    ),
    PageRow(name="aborted", address="/topics/{topic}/partitions/0/aborted?start=0&end=9&verify=0"),
    PageRow(name="snapshots-of", address="/topics/{topic}/partitions/0/snapshots?rehearse=1"),
    PageRow(name="subscriptions-of", address="/topics/{topic}/partitions/0/subscriptions"),
    PageRow(name="models", address="/topics/{topic}/partitions/0/models"),
    PageRow(
        name="truncate",
        address="/topics/{topic}/partitions/0/operate/truncate",
        ready="#dialog-title",
    ),
    PageRow(name="snapshots", address="/snapshots"),
    PageRow(name="explain", address="/explain?partition={topic}:0&message=0"),
    PageRow(name="invariants", address="/invariants"),
    PageRow(name="create-topic", address="/topics/new", ready="#dialog-title"),
    PageRow(name="delete-topic", address="/topics/{topic}/delete", ready="#dialog-title"),
    PageRow(
        name="seek",
        address="/subscriptions/{topic}/{subscription}/seek",
        ready="#dialog-title",
    ),
    PageRow(name="subscriptions", address="/subscriptions"),
    PageRow(name="subscription", address="/subscriptions/{topic}/{subscription}"),
    PageRow(name="coordinators", address="/coordinators"),
    PageRow(name="coordinator", address="/coordinators/0"),
    PageRow(name="pipeline", address="/pipeline"),
    PageRow(
        name="figures",
        address="/pipeline/figures?by=topic",
        ready="#charts .main-svg, .empty",  # Without figures there is nothing to draw.
        charts=True,
    ),
    PageRow(name="run-audit", address="/pipeline/start/audit"),
    PageRow(name="alerts", address="/alerts"),
    PageRow(name="alert-history", address="/alerts/history"),
    PageRow(name="alert-silences", address="/alerts/silences"),
    PageRow(name="alert-silence", address="/alerts/silence", ready="#dialog-title"),
    PageRow(name="alert-rules", address="/alerts/rules"),
    PageRow(name="alert-rule", address="/alerts/rules/new?kind=held_back"),
    PageRow(name="alert-channels", address="/alerts/channels"),
    PageRow(name="alert-channel", address="/alerts/channels/new?kind=webhook"),
    PageRow(name="audit", address="/audit"),
    PageRow(name="settings-profile", address="/settings/profile"),
    PageRow(name="settings-tokens", address="/settings/tokens"),
    PageRow(name="settings-users", address="/settings/users"),
    PageRow(name="settings-user", address="/settings/users/flights-feed"),
    PageRow(name="settings-masking", address="/settings/masking"),
    PageRow(name="settings-limits", address="/settings/limits"),
    PageRow(name="search", address="/search"),
    PageRow(name="not-found", address="/transactions/0:999999999", status=404),
)

#: Of jobs, ``{run}`` and ``{job}``, which are only where somebody has started some.
PAGES_OF_JOBS = (
    PageRow(name="run", address="/pipeline/{run}"),
    PageRow(name="bulk-job", address="/transactions/bulk/{job}"),
)

#: What the scripts of pages ask for.
PARTS = {
    "overview, now": "/?part=now",
    "overview, rest": "/?part=rest",
    "overview, a week": "/trends?range=7d",
    "transactions, views": "/transactions/views",
    "transaction, timeline": "/transactions/{txn}/timeline",
    "transaction, participants": "/transactions/{txn}/participants",
    "transaction, lineage": "/transactions/{txn}/lineage",
    "transaction, messages": "/transactions/{txn}/messages",
    "log, window": "/topics/{topic}/partitions/0/log/window",
    "log, blocker": "/topics/{topic}/partitions/0/log/blocker",
    "history, points": "/topics/{topic}/partitions/0/history/points",
}
