"""Which databases belong together, and whether each address leads to the one that is meant.

Brokers are named by the order of their addresses (docs/operations.md, ``BROKER_DATABASE_URLS``). An
address that is put before another gives that one's name to a database of other partitions, and a
mistyped one leads to an empty database, or to another installation's. On each of them the next
creation of a topic would make its partitions anew, empty. So each broker's database carries the id
of its cluster and its own name, as Kafka's brokers do in ``meta.properties``, and the coordinators'
database knows which brokers have been part.

A crash between the two steps of :func:`join` leaves a broker that says what it is and that the
coordinators do not know yet; the next call finishes it.
"""

from __future__ import annotations

from uuid import UUID

from engine.postgres.database import Database
from engine.postgres.session import Session


def join(catalog: Database, broker: Database, *, anew: bool) -> bool:
    """Make a broker's database a member of the cluster, unless the broker is one already: then its
    database is another one, and :func:`stranger` tells.

    Args:
        anew: let it begin again with a database that has never been a broker's.

    Returns:
        Whether its database has become a member now.

    Raises:
        CoordinatorUnavailable, PartitionUnavailable: one of the two cannot be reached.
    """
    with catalog.session() as session:
        cluster_id = known_cluster(session)
        known = session.one("broker_known", name=broker.name) is not None
    if known and not anew:
        return False
    with broker.as_it_is(), broker.session() as session:
        joined = session.run("become_member", cluster_id=cluster_id, broker=broker.name) > 0
        if stranger(session, broker.name, cluster_id) is not None:
            return False
    with catalog.session() as session:
        session.run("know_broker", name=broker.name)
    return joined


def known_cluster(catalog: Session) -> UUID:
    """The id of the cluster, as its coordinators have it."""
    [row] = catalog.all("cluster_id")
    cluster_id: UUID = row.cluster_id
    return cluster_id


def stranger(session: Session, name: str, cluster_id: UUID | None) -> str | None:
    """What is wrong with the database at a broker's address, None when it is the broker's.

    Args:
        name: the broker's.
        cluster_id: None where the coordinators could not be asked.
    """
    member = session.one("membership")
    if member is None:
        return (
            f"{name} is not at its address: the database there has never been a broker's. If"
            f" {name}'s own is lost for good, run manage.py migrate_engine --anew {name}."
        )
    if cluster_id is not None and member.cluster_id != cluster_id:
        return (
            f"{name} is not at its address: a broker of other coordinators is. Mend"
            " BROKER_DATABASE_URLS or DATABASE_URL; coordinators that are lost come from a copy."
        )
    if member.broker != name:
        return (
            f"{name} is not at its address: {member.broker} is."
            " BROKER_DATABASE_URLS must stay in their order."
        )
    return None
