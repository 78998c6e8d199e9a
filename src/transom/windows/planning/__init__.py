"""From settings and a host's state to a plan: what is wanted, and the difference to what is: steps, each with its reason.

`plan` is total: what was not read counts as not there, and its `reads` say what has to be read first. After the edits and the
restarts of a plan the next plan is empty; a host that is as it should be gets no write.
"""

from functools import lru_cache

import msgspec

from transom.proxy.objects import WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate
from transom.windows import ledger
from transom.windows.host import DesiredState, ObservedState, Preparation, ServiceState, Step
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.ledger import PARTS, SETTINGS, Ledger, Manager
from transom.windows.parts import installation
from transom.windows.parts.adopted import Adopted
from transom.windows.parts.installation import Install, InstallDecision
from transom.windows.parts.installed import INSTALLED, Installed, Prepared
from transom.windows.parts.plan_builder import PlanBuilder, When
from transom.windows.registry import Registry
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, listed, within


def desired_settings(egress: Egress) -> DesiredState:
    """The registry values that the settings ask for, part by part: what is ours, and nothing else."""
    return _desired(egress.http_proxy, egress.https_proxy, egress.no_proxy, egress.trust, egress.windows)


# a thousand hosts have the same few settings
@lru_cache(maxsize=32)
def _desired(
    http_proxy: Secret | None,
    https_proxy: Secret | None,
    no_proxy: str,
    trust: tuple[Certificate, ...],
    windows: WindowsSettings,
) -> DesiredState:
    egress = Egress(http_proxy, https_proxy, no_proxy, trust, windows)
    return DesiredState(Registry().apply(edit for part in SETTINGS.values() for edit in part.wish(egress)))


class Plan(msgspec.Struct, frozen=True):
    """What has to be done on a host, in order: one import of `edits`, then `stop`, then `install`, then `start`.

    Every service of `stop` has a note in the ledger, which `edits` write: a REG_SZ of `…\\Transom\\Restarts`, named as the
    service. `running` says that the service ran, and must run at the end. `check` is for a dependant whose state is not known.
    If it runs, its note becomes `running` before it is stopped; if not, its note is cleared and it stays stopped. A note is
    cleared when its service was seen running.

    With `prepare`, Windows itself comes first. The plan then holds nothing else but the ledger's lines about that, which are
    imported afterwards: `prepared`, or `pending` where the host has to boot.
    """

    steps: tuple[Step, ...] = ()
    edits: tuple[Edit, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    forget: bool = False
    """Whether the ledger's key goes after the last note."""
    warnings: tuple[str, ...] = ()
    """For people: what the plan leaves as it is although the settings ask for more."""
    faults: tuple[str, ...] = ()
    """What cannot be done before a person has corrected it; the plan is the rest."""
    install: Install = Install()
    prepare: Preparation | None = None
    prepared: tuple[Edit, ...] = ()
    pending: tuple[Edit, ...] = ()
    boot_pending: bool = False
    """Whether nothing can be done before the host has booted."""
    reads: Queries = Queries()
    """What has to be known before the plan can be relied on."""

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

    `restarts` that are put off are noted in the ledger: until the next boot (`boot`), or until somebody says so (`manual`).
    `taken` is what another operator left that had the host before: it becomes Transom's. `manager` is who plans.

    Raises LedgerError where the ledger cannot be understood, OtherManager where it names another manager. Such a host is not
    touched.
    """
    old = ledger.read(actual.registry)
    manager.check(old.manager)
    known = msgspec.structs.replace(old, salt=old.salt or salt, manager=manager.name or old.manager)
    # a pass that does not know the payload, and finds nothing to do, is no other state
    stays = desired.payload is None and bool(old.installed)
    wish = _with_services_of_payload(desired, old) if stays else desired
    draft = PlanBuilder(wish, actual, known.salt, when=restarts, taken=taken, begun=bool(old.state_hash))
    decision = installation.decide(old.installed, draft)
    if decision.boot_pending:
        return Plan(boot_pending=True, reads=_reads(old, draft))
    if decision.prepare is not None:
        prepared, pending = (_prepared(known, actual, decision.prepare, boot) for boot in (None, actual.boot))
        return Plan(tuple(draft.steps), prepare=decision.prepare, prepared=prepared, pending=pending, reads=_reads(old, draft))
    entries = {name: part.plan(getattr(old, name), draft) for name, part in PARTS.items()}
    same = stays and not draft.steps and not draft.edits
    state_hash = old.state_hash if same else desired.digest(known.salt)
    lines = _Lines(actual.registry, msgspec.structs.replace(known, state_hash=state_hash, installed=decision.before, **entries))
    install = _install(draft, decision, lines)
    if lines.changed and not draft.steps:
        draft.steps.append(Step("ledger", "ledger", "replace", "keeps the ledger in step with the settings"))
    edits = [edit for edit in draft.edits if not installation.speaks_of(edit, install)]
    return Plan(
        steps=tuple(draft.steps),
        # a line enters the ledger before what it speaks of is changed, and leaves it after
        edits=(*(e for e in lines.changed if not _takes(e)), *edits, *(e for e in lines.changed if _takes(e))),
        stop=draft.stop,
        start=draft.start,
        forget=not lines.leave(decision.after) and bool(draft.stop or install),
        warnings=tuple(draft.warnings),
        faults=tuple(draft.faults),
        install=_reversible(install, draft, old, lines) if installation.ran(draft.stop, draft.start) else install,
        reads=_reads(old, draft),
    )


def _reads(old: Ledger, draft: PlanBuilder) -> Queries:
    parts = (part.more(getattr(old, name), draft) for name, part in PARTS.items())
    return Queries.of((*parts, Queries(dependants=bool(draft.stop))))


def _prepared(known: Ledger, actual: ObservedState, preparation: Preparation, boot: int | None) -> tuple[Edit, ...]:
    """What notes that Windows was prepared; `boot`: in which boot, where only the next one completes it."""
    done = msgspec.structs.replace(known.installed, prepared=Prepared(preparation, boot))
    return ledger.edits(actual.registry, msgspec.structs.replace(known, installed=done))


def _with_services_of_payload(desired: DesiredState, old: Ledger) -> DesiredState:
    """The wish with the services that a payload gives the proxy to: they get what the others get, or lose it as those do."""
    named = desired.registry.children(SERVICES)
    theirs = [n for n in old.environment.services if old.installed.service(n) is not None and not listed(n, named)]
    values = (key.get("Environment") for key in desired.registry.below(SERVICES))
    given = next((value for value in values if value is not None), None)
    paths = [rf"{SERVICES}\{name}" for name in theirs]
    edits = [CreateKey(path) if given is None else SetValue(path, "Environment", given) for path in paths]
    return msgspec.structs.replace(desired, registry=desired.registry.apply(edits))


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
        return tuple(edit for edit in edits if within(edit.path, INSTALLED))

    def leave(self, installed: Installed) -> bool:
        """Whether something on the host is ours once nobody owes a restart and the ledger says `installed`."""
        downtime = msgspec.structs.replace(self._wanted.downtime, restarts={})
        return bool(msgspec.structs.replace(self._wanted, downtime=downtime, installed=installed))


def _install(draft: PlanBuilder, decision: InstallDecision, lines: _Lines) -> Install:
    """The installation with what is imported after it: services' values, then the ledger's lines that go."""
    decided = decision.install
    services = [edit for made in (*decided.create, *decided.configure) for edit in made.edits()]
    own = [edit for edit in draft.edits if installation.speaks_of(edit, decided)]
    return msgspec.structs.replace(decided, edits=(*services, *own), lines=lines.after(decision.after))


def _reversible(install: Install, draft: PlanBuilder, old: Ledger, lines: _Lines) -> Install:
    """The installation with what takes it back, where another version of ours was there as a whole."""
    former, version = old.installed.payload, draft.desired.payload
    if not former and draft.desired.takes and version:
        # what another operator had there runs
        former = version
    if not former or not version or not (install.place or install.configure):
        return install
    made = installation.reversal(install, former, version, draft.found, draft.actual.registry.apply(draft.edits))
    back = lines.after(old.installed.settled(draft.found.files))
    return msgspec.structs.replace(install, reversal=msgspec.structs.replace(made, lines=back))


def _takes(edit: Edit) -> bool:
    return isinstance(edit, DeleteValue | DeleteKey)


def after(actual: ObservedState, planned: Plan) -> ObservedState:
    """What a gather should find once `planned` was carried out."""
    actual = installation.after(actual, planned.install)
    registry = actual.registry.apply(planned.edits).apply((*planned.install.edits, *planned.install.lines, *planned.prepared))
    restarts = registry.key(RESTARTS)
    for named in list((restarts.values or {}).values()) if restarts else []:
        registry = registry.apply([DeleteValue(RESTARTS, named.name)])
    if planned.forget:
        registry = registry.apply([DeleteKey(LEDGER)])
    running = FoldedDict.of(planned.start)
    services = tuple(
        msgspec.structs.replace(s, state=ServiceState.RUNNING) if s.name in running else s for s in actual.services
    )
    return msgspec.structs.replace(actual, registry=registry, services=services)
