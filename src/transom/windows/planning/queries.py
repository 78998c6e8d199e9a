"""Which questions a gather has to ask: those that the settings pose, then those that the answers pose."""

import msgspec

from transom.windows.host import DesiredState, ObservedState
from transom.windows.host.queries import SERVICES, Queries
from transom.windows.ledger import SETTINGS
from transom.windows.parts import certificates, trust
from transom.windows.planning import Plan
from transom.windows.registry.names import without

PROCESSES = 4
"""What a gather may start on a host beside those for the services."""


def first(desired: DesiredState, *, change_expected: bool = False, boot: bool = False) -> Queries:
    """What must be read to see whether a host is as `desired`, where the ledger holds nothing else.

    Where a change is expected, who depends on whom is asked at once, which spares a second gather. That is done as long as it
    needs no more processes than a gather may start. `boot` asks for BootId where restarts are put off until then.
    """
    parts = (part.asks(desired, change_expected=change_expected) for part in SETTINGS.values())
    asked = Queries.of((Queries(services=desired.registry.children(SERVICES), boot=boot), *parts))
    # `walk` costs more bytes on the host than it spares: it is for where there is more to ask than four questions
    return _within(msgspec.structs.replace(asked, dependants=change_expected and asked.processes < PROCESSES))


def _within(asked: Queries) -> Queries:
    return msgspec.structs.replace(asked, walk=asked.processes > PROCESSES) if not asked.walk else asked


def everything(services: tuple[str, ...]) -> Queries:
    """What `facts` shows of a host."""
    stores = tuple(map(certificates.store, trust.MANAGED))
    return _within(Queries(services=services, environment=True, boot=True, stores=stores))


def more(asked: Queries, planned: Plan) -> Queries | None:
    """What a plan needs beyond what was asked; None where `planned` can be carried out.

    All at once, so that a host is gathered twice at most.
    """
    wider = Queries.of((asked, planned.reads))
    return None if wider == msgspec.structs.replace(asked, walk=False) else wider


def again(asked: Queries, actual: ObservedState, *, dependants: bool = False) -> Queries:
    """What is read once more after a change: who depends on whom, and policies that hold nothing, are as they were.

    With `dependants` they are named all the same, so that a script that is there serves again: it leaves them out by itself.
    """
    gone = [store for store in map(certificates.policy_store, trust.MANAGED) if not actual.registry.below(store)]
    stores = tuple(store for store in asked.stores if store not in gone)
    return _within(msgspec.structs.replace(asked, stores=stores, dependants=dependants, walk=False))


def combined(*questions: Queries) -> Queries:
    """All of them in one gather."""
    return _within(Queries.of(questions))


def beyond(wider: Queries, asked: Queries) -> Queries:
    """Those of `wider` that are not in `asked`."""
    rest = Queries(
        services=without(wider.services, asked.services),
        environment=wider.environment and not asked.environment,
        boot=wider.boot and not asked.boot,
        stores=without(wider.stores, asked.stores),
        keys=without(wider.keys, asked.keys),
        dependants=wider.dependants and not asked.dependants,
    )
    return combined(rest)
