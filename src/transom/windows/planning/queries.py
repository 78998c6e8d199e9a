"""Which questions a gather has to ask: those that the settings pose, then those that the answers pose."""

import msgspec

from transom.windows.host.queries import ENVIRONMENT, SERVICES, STORES, Queries
from transom.windows.host.state import DesiredState, ObservedState
from transom.windows.ledger import ledger
from transom.windows.parts import certificates, winhttp
from transom.windows.planning.plan import Plan
from transom.windows.registry.names import each_once, without

_TRUST = (certificates.ROOT, certificates.CA)


PROCESSES = 4
"""What a gather may start on a host beside those for the services."""


def first(desired: DesiredState, *, change_expected: bool = False, boot: bool = False) -> Queries:
    """What must be read to see whether a host is as `desired`, where the ledger holds nothing else.

    Where a change is expected, who depends on whom is asked at once, which spares a second gather, as long as that needs no
    more processes than a gather may start. `boot` asks for BootId where restarts are put off until then.
    """
    machine = desired.registry.key(ENVIRONMENT) is not None
    # where services have an environment of their own as well, no boot is waited for
    alone = machine and not any(key.get("Environment") for key in desired.registry.below(SERVICES))
    trust = tuple(certificates.store(name) for name in _TRUST if desired.registry.below(certificates.store(name)))
    stores = (*trust, certificates.store(certificates.DISALLOWED)) if trust else ()
    asked = Queries(
        services=desired.registry.children(SERVICES),
        environment=machine,
        boot=boot or alone or (machine and change_expected),
        stores=stores,
        keys=(winhttp.KEY,) if desired.registry.key(winhttp.KEY) is not None else (),
    )
    # `walk` costs more bytes on the host than it spares: it is for where there is more to ask than four questions
    return _within(msgspec.structs.replace(asked, dependants=change_expected and asked.processes < PROCESSES))


def _within(asked: Queries) -> Queries:
    return msgspec.structs.replace(asked, walk=asked.processes > PROCESSES) if not asked.walk else asked


def everything(services: tuple[str, ...]) -> Queries:
    """What `facts` shows of a host."""
    return _within(Queries(services=services, environment=True, boot=True, stores=tuple(map(certificates.store, _TRUST))))


def more(desired: DesiredState, asked: Queries, actual: ObservedState, planned: Plan) -> Queries | None:
    """What a plan needs beyond what was asked; None where `planned` can be carried out. Raises LedgerError.

    All at once, so that a host is gathered twice at most.
    """
    recorded = ledger.read(actual.registry)
    masked = any(entry.mask is not None for service in recorded.services.values() for entry in service.variables.values())
    masked = masked or any(entry.gone is not None for entry in recorded.machine.values())
    machine = bool(recorded.machine) or masked
    undone = machine and desired.registry.key(ENVIRONMENT) is None
    touched = any(edit.path.casefold() == ENVIRONMENT.casefold() for edit in planned.edits)
    boot = masked or undone or touched or bool(recorded.deferred)
    stores = [certificates.store(name) for name, entries in recorded.certificates.items() if entries]
    keys = [winhttp.KEY] if recorded.win_http is not None else []
    for name in _TRUST:
        store = certificates.store(name)
        entries = recorded.certificates.get(name, {})
        for key in desired.registry.below(store):
            sha1 = key.path.rsplit("\\", 1)[1].upper()
            entry = entries.get(sha1)
            present = actual.registry.key(key.path)
            if present is not None and (entry is None or entry.policy):
                keys.append(key.path)
            elif present is None:
                stores += [certificates.policy_store(name)]
                if actual.registry.key(store) is None:
                    stores.append(rf"{STORES}\{name}")
    wider = Queries(
        services=each_once((*asked.services, *recorded.services, *recorded.deferred)),
        environment=asked.environment or machine,
        boot=asked.boot or boot,
        stores=each_once((*asked.stores, *stores, *(key for key in recorded.keys if not desired.registry.below(key)))),
        keys=each_once((*asked.keys, *keys)),
        dependants=asked.dependants or bool(planned.stop),
    )
    return None if wider == msgspec.structs.replace(asked, walk=False) else wider


def again(asked: Queries, actual: ObservedState, *, dependants: bool = False) -> Queries:
    """What is read once more after a change: who depends on whom, and policies that hold nothing, are as they were.

    With `dependants` they are named all the same, so that a script that is there serves again: it leaves them out by itself.
    """
    gone = [store for store in map(certificates.policy_store, _TRUST) if not actual.registry.below(store)]
    stores = tuple(store for store in asked.stores if store not in gone)
    return _within(msgspec.structs.replace(asked, stores=stores, dependants=dependants, walk=False))


def combined(*questions: Queries) -> Queries:
    """All of them in one gather."""
    total = Queries()
    for asked in questions:
        total = msgspec.structs.replace(
            total,
            services=each_once((*total.services, *asked.services)),
            environment=total.environment or asked.environment,
            boot=total.boot or asked.boot,
            stores=each_once((*total.stores, *asked.stores)),
            keys=each_once((*total.keys, *asked.keys)),
            dependants=total.dependants or asked.dependants,
        )
    return _within(total)


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
