"""The difference between what a host should be and what it is: steps, each with its reason.

`plan` is total: what was not read counts as not there, and `gathering.more` says what to read first. After the edits and the
restarts of a plan the next plan is empty; a host that is as it should be gets no write.
"""

from collections.abc import Iterator

import msgspec

from transom.windows.host.queries import LEDGER, RESTARTS
from transom.windows.host.state import DesiredState, ObservedState, Preparation, ServiceState
from transom.windows.host.steps import Step
from transom.windows.ledger import ledger
from transom.windows.ledger.installed import Installed, Prepared
from transom.windows.ledger.ledger import INSTALLED, Ledger
from transom.windows.ledger.manager import Manager
from transom.windows.parts import installation, reversal, winhttp
from transom.windows.parts.adopted import Adopted
from transom.windows.parts.downtime import Downtime, When
from transom.windows.parts.environment_plan import plan_environments
from transom.windows.parts.installation import Install
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.trust import plan_created_keys, plan_trust
from transom.windows.registry import reg
from transom.windows.registry.registry import CreateKey, DeleteKey, DeleteValue, Edit, Registry, SetValue


class Plan(msgspec.Struct, frozen=True):
    """What has to be done on a host, in order: one import of `edits`, then `stop`, then `install`, then `start`.

    Every service of `stop` has a note in the ledger (`…\\Transom\\Restarts`, value named as the service, REG_SZ), written by
    `edits`: `running` (it was running: it must run at the end) or `check` (a dependant whose state is not known: when it is
    running, its note becomes `running` before it is stopped; when it is stopped, its note is cleared and it stays stopped).
    A note is cleared when its service was seen running. With `forget` the ledger's key goes after the last note.
    `warnings` are for people: what the plan leaves as it is although the settings ask for more.
    `faults` say what cannot be done before a person has corrected it; the plan is the rest.
    With `prepare`, Windows itself comes first, and the plan holds nothing else but the ledger's lines of it, imported
    afterwards: `prepared`, or `pending` where the host has to boot. With `boot_pending` nothing can be done before it has.
    """

    steps: tuple[Step, ...] = ()
    edits: tuple[Edit, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    forget: bool = False
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    install: Install = Install()
    prepare: Preparation | None = None
    prepared: tuple[Edit, ...] = ()
    pending: tuple[Edit, ...] = ()
    boot_pending: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.edits or self.stop or self.start or self.forget or self.install or self.prepare)


def plan(
    desired: DesiredState,
    actual: ObservedState,
    salt: bytes,
    restarts: When = "now",
    *,
    taken: Adopted | None = None,
    manager: Manager = Manager(),  # noqa: B008  # frozen
) -> Plan:
    """The steps from `actual` to `desired`; `salt` (16 random bytes) is for a ledger that has none.

    `restarts` that are put off (`boot`: until the next boot, `present`: until somebody says so) are noted in the ledger.

    `taken` is what the operator left from which the host is taken over: that becomes Transom's.

    `manager` is who plans. Raises ledger.LedgerError, and manager.OtherManager: such a host is not touched.
    """
    draft = PlanBuilder(desired, actual, salt, taken)
    manager.check(draft.old.manager)
    if manager.name:
        draft.ledger = msgspec.structs.replace(draft.ledger, manager=manager.name)
    if draft.decision.boot_pending:
        return Plan(boot_pending=True)
    if draft.decision.prepare is not None:
        prepared, pending = (_prepared(draft, draft.decision.prepare, boot) for boot in (None, draft.actual.boot))
        return Plan(tuple(draft.steps), prepare=draft.decision.prepare, prepared=prepared, pending=pending)
    plan_environments(draft)
    plan_trust(draft)
    _win_http(draft)
    downtime = Downtime(draft, restarts)
    plan_created_keys(draft)
    # a pass that does not know the payload, and finds nothing to do, is no other state
    same = draft.payload_stays and not draft.steps and not draft.edits
    state_hash = draft.old.state_hash if same else _state_hash(desired, draft.ledger.salt)
    wanted = msgspec.structs.replace(draft.ledger, state_hash=state_hash, keys=tuple(draft.keys), restarts=downtime.notes)
    ours = bool(msgspec.structs.replace(wanted, restarts={}, installed=draft.decision.after))
    lines = _Lines(draft.actual.registry, wanted)
    install = _install(draft, lines)
    if lines.changed and not draft.steps:
        draft.steps.append(Step("ledger", "ledger", "replace", "keeps the ledger in step with the settings"))
    edits = [edit for edit in draft.edits if not installation.speaks_of(edit, install)]
    stop = downtime.stop()
    start = downtime.start(stop)
    return Plan(
        steps=tuple(draft.steps),
        # a line enters the ledger before what it speaks of is changed, and leaves it after
        edits=(*(e for e in lines.changed if not _takes(e)), *edits, *(e for e in lines.changed if _takes(e))),
        stop=stop,
        start=start,
        forget=not ours and bool(stop or install),
        warnings=tuple(draft.warnings),
        faults=tuple(draft.faults),
        install=_reversible(install, draft, lines) if reversal.ran(stop, start) else install,
    )


def _win_http(draft: PlanBuilder) -> None:
    wanted, key = draft.desired.registry.value(winhttp.KEY, winhttp.VALUE), draft.actual.registry.key(winhttp.KEY)
    present = (key.values or {}).get(winhttp.VALUE.casefold()) if key else None
    entry, edits, step = winhttp.merge(wanted, present, draft.ledger.win_http)
    draft.ledger = msgspec.structs.replace(draft.ledger, win_http=entry)
    draft.edits += edits
    draft.steps += [step] if step else []


def _prepared(draft: PlanBuilder, preparation: Preparation, boot: int | None) -> tuple[Edit, ...]:
    """What notes that Windows was prepared; `boot`: in which boot, where only the next one completes it."""
    done = msgspec.structs.replace(draft.old.installed, prepared=Prepared(preparation, boot))
    return ledger.edits(draft.actual.registry, msgspec.structs.replace(draft.ledger, installed=done))


def _state_hash(desired: DesiredState, salt: bytes) -> str:
    text = reg.render(_as_edits(desired.registry)).hex() + "".join(map(" ".join, sorted(desired.files.items())))
    return ledger.digest(salt, "StateHash", text)


class _Lines:
    """How the ledger gets from what is there to what is wanted: at once, or after an installation."""

    def __init__(self, before: Registry, wanted: Ledger) -> None:
        self._before, self._wanted = before, wanted
        self.changed = ledger.edits(before, wanted)

    def after(self, installed: Installed) -> tuple[Edit, ...]:
        """What makes the ledger say `installed` once `changed` was imported."""
        if installed == self._wanted.installed:
            return ()
        edits = ledger.edits(self._before.apply(self.changed), msgspec.structs.replace(self._wanted, installed=installed))
        return tuple(edit for edit in edits if (edit.path + "\\").casefold().startswith(INSTALLED.casefold() + "\\"))


def _install(draft: PlanBuilder, lines: _Lines) -> Install:
    """The installation with what is imported after it: services' values, then the ledger's lines that go."""
    decided = draft.decision.install
    services = [edit for made in (*decided.create, *decided.configure) for edit in made.edits()]
    own = [edit for edit in draft.edits if installation.speaks_of(edit, decided)]
    return msgspec.structs.replace(decided, edits=(*services, *own), lines=lines.after(draft.decision.after))


def _reversible(install: Install, draft: PlanBuilder, lines: _Lines) -> Install:
    """The installation with what takes it back, where another version of ours was there as a whole."""
    former, version = draft.old.installed.payload, draft.desired.payload
    if not former and draft.desired.takes and version:
        # what another operator had there runs
        former = version
    if not former or not version or not (install.place or install.configure):
        return install
    made = reversal.reversal(install, former, version, draft.found, draft.actual.registry.apply(draft.edits))
    back = lines.after(draft.old.installed.settled(draft.found.files))
    return msgspec.structs.replace(install, reversal=msgspec.structs.replace(made, lines=back))


def _takes(edit: Edit) -> bool:
    return isinstance(edit, DeleteValue | DeleteKey)


def _as_edits(registry: Registry) -> Iterator[Edit]:
    for key in registry:
        yield CreateKey(key.path)
        for named in (key.values or {}).values():
            yield SetValue(key.path, named.name, named.value)


def after(actual: ObservedState, planned: Plan) -> ObservedState:
    """What a gather should find once `planned` was carried out."""
    actual = installation.after(actual, planned.install)
    registry = actual.registry.apply(planned.edits).apply((*planned.install.edits, *planned.install.lines, *planned.prepared))
    restarts = registry.key(RESTARTS)
    for named in list((restarts.values or {}).values()) if restarts else []:
        registry = registry.apply([DeleteValue(RESTARTS, named.name)])
    if planned.forget:
        registry = registry.apply([DeleteKey(LEDGER)])
    running = {name.casefold() for name in planned.start}
    services = tuple(
        msgspec.structs.replace(s, state=ServiceState.RUNNING) if s.name.casefold() in running else s for s in actual.services
    )
    return msgspec.structs.replace(actual, registry=registry, services=services)
