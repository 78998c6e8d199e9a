"""Which questions a gather has to ask: those that the settings pose, then those that the answers pose."""

import msgspec

from transom.windows.host.host_state import DesiredState, ObservedState
from transom.windows.host.queries import SERVICES, Queries
from transom.windows.ledger import SETTINGS
from transom.windows.parts import certificates, trust
from transom.windows.planning.planner import Plan
from transom.windows.registry.names import without_names

PROCESSES = 4
"""The maximum number of processes of a gather, in addition to those for the services."""


def build_initial_queries(desired: DesiredState, *, change_expected: bool = False, boot: bool = False) -> Queries:
    """Build the queries that show whether a host is as `desired`, if the ledger holds nothing else.

    If a change is expected, dependencies are queried at once, which saves a second gather, as long as this needs no more
    processes than a gather may start. `boot` queries BootId if restarts are deferred until the next reboot.
    """
    parts = (part.build_initial_queries(desired, change_expected=change_expected) for part in SETTINGS.values())
    queries = Queries.merge((Queries(services=desired.registry.list_children(SERVICES), boot=boot), *parts))
    # `walk` costs more bytes on the host than it spares: it is for where there is more to ask than four questions
    return _limit_processes(msgspec.structs.replace(queries, dependants=change_expected and queries.processes < PROCESSES))


def _limit_processes(queries: Queries) -> Queries:
    return msgspec.structs.replace(queries, walk=queries.processes > PROCESSES) if not queries.walk else queries


def build_facts_queries(services: tuple[str, ...]) -> Queries:
    """Build the queries for all that `facts` shows of a host."""
    stores = tuple(map(certificates.get_store_path, trust.MANAGED))
    return _limit_processes(Queries(services=services, environment=True, boot=True, stores=stores))


def build_follow_up_queries(queries: Queries, planned: Plan) -> Queries | None:
    """Build the wider queries that a plan needs; None if `planned` can be applied.

    All queries are sent at once, so a host is gathered at most twice.
    """
    wider = Queries.merge((queries, planned.reads))
    return None if wider == msgspec.structs.replace(queries, walk=False) else wider


def build_requery(queries: Queries, actual: ObservedState, *, dependants: bool = False) -> Queries:
    """Build the queries after a change, without dependencies and empty policies, which do not change.

    With `dependants`, dependencies are queried too, so that a script on the host can be used again: it skips them
    automatically.
    """
    empty_stores = [
        store for store in map(certificates.get_policy_store_path, trust.MANAGED) if not actual.registry.list_keys_below(store)
    ]
    stores = tuple(store for store in queries.stores if store not in empty_stores)
    return _limit_processes(msgspec.structs.replace(queries, stores=stores, dependants=dependants, walk=False))


def merge_queries(*questions: Queries) -> Queries:
    """All of them in one gather."""
    return _limit_processes(Queries.merge(questions))


def subtract_queries(wider: Queries, queries: Queries) -> Queries:
    """Return those of `wider` that are not in `queries`."""
    rest = Queries(
        services=without_names(wider.services, queries.services),
        environment=wider.environment and not queries.environment,
        boot=wider.boot and not queries.boot,
        stores=without_names(wider.stores, queries.stores),
        keys=without_names(wider.keys, queries.keys),
        files=without_names(wider.files, queries.files),
        dependants=wider.dependants and not queries.dependants,
    )
    return merge_queries(rest)
