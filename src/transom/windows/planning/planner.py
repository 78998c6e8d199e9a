"""From settings and a host's state to a plan: what is wanted, and the difference to what is: steps, each with its reason.

`plan` is total: what was not read counts as not there, and its `reads` say what has to be read first. After the edits and the
restarts of a plan the next plan is empty; a host that is as it should be gets no write.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from transom.proxy.objects import WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate
from transom.windows import ledger
from transom.windows.host.host_state import DesiredState, FileWrite, ObservedState, Preparation, ServiceState, Step
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.ledger import PARTS, SETTINGS, Ledger, Manager
from transom.windows.parts import installation, powershell
from transom.windows.parts.adopted import AdoptedState
from transom.windows.parts.installation import Install, InstallDecision
from transom.windows.parts.installed import INSTALLED, InstalledPayload, PreparedWindows
from transom.windows.parts.plan_builder import PlanBuilder, When
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, is_listed, is_within
from transom.windows.registry.registry import Registry


def build_desired_settings(egress: Egress) -> DesiredState:
    """Build what the settings require, part by part, and nothing else."""
    return _build_desired(egress.http_proxy, egress.https_proxy, egress.no_proxy, egress.trust, egress.windows)


# a thousand hosts have the same few settings
@lru_cache(maxsize=32)
def _build_desired(
    http_proxy: Secret | None,
    https_proxy: Secret | None,
    no_proxy: str,
    trust: tuple[Certificate, ...],
    windows: WindowsSettings,
) -> DesiredState:
    egress = Egress(http_proxy, https_proxy, no_proxy, trust, windows)
    registry = Registry().apply_edits(edit for part in SETTINGS.values() for edit in part.iter_desired_edits(egress))
    return DesiredState(registry, profile=powershell.build_desired_block(egress))


class Plan(msgspec.Struct, frozen=True):
    r"""The changes of a host, in order: one import of `edits`, `writes`, then `stop`, then `install`, then `start`.

    Every service of `stop` has a note in the ledger, which `edits` write: a REG_SZ of `…\Transom\Restarts`, named after the
    service. `running` means that the service ran, and must run at the end. `check` is for a dependant whose state is not
    known. If it runs, its note becomes `running` before it is stopped; if not, its note is cleared and it stays stopped. A
    note is cleared when its service was observed running.

    With `prepare`, Windows itself comes first. The plan then holds nothing else but the ledger's lines about that, which
    are imported afterwards: `prepared`, or `pending` if the host has to reboot.
    """

    steps: tuple[Step, ...] = ()
    edits: tuple[Edit, ...] = ()
    writes: tuple[FileWrite, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    forget: bool = False
    """Whether the ledger's key goes after the last note, or the last write."""
    warnings: tuple[str, ...] = ()
    """For users: what the plan leaves unchanged although the settings require more."""
    faults: tuple[str, ...] = ()
    """What cannot be done before a person has corrected it; the plan is the rest."""
    profile_fault: str = ""
    """Why the profile of Windows PowerShell is left unchanged; empty: it is not."""
    disabled: tuple[str, ...] = ()
    """Services that owe a restart and are not stopped: they are disabled, and Windows would not start them again."""
    install: Install = Install()
    prepare: Preparation | None = None
    prepared: tuple[Edit, ...] = ()
    pending: tuple[Edit, ...] = ()
    boot_pending: bool = False
    """Whether nothing can be done before the host has booted."""
    reads: Queries = Queries()
    """What has to be known before the plan can be relied on."""

    def __bool__(self) -> bool:
        """Return True if there is anything to do."""
        return bool(self.edits or self.writes or self.stop or self.start or self.forget or self.install or self.prepare)


def plan(
    desired: DesiredState,
    actual: ObservedState,
    salt: bytes,
    restarts: When = "now",
    *,
    taken: AdoptedState | None = None,
    manager: Manager = Manager(),  # noqa: B008  # frozen
) -> Plan:
    """Plan the steps from `actual` to `desired`; `salt` (16 random bytes) is for a ledger that has none.

    `restarts` that are deferred are noted in the ledger: until the next reboot (`boot`), or until a person requests them
    (`manual`). `taken` is what another operator of the host left: it becomes Transom's. `manager` is the planning manager.

    Raises LedgerError if the ledger cannot be parsed, OtherManager if it names another manager. Such a host is not changed.
    """
    old = ledger.read(actual.registry)
    manager.require_same_manager(old.manager)
    known = msgspec.structs.replace(old, salt=old.salt or salt, manager=manager.name or old.manager)
    # a pass that does not know the payload, and finds nothing to do, is no other state
    stays = desired.payload is None and bool(old.installed)
    wish = _with_services_of_payload(desired, old) if stays else desired
    draft = PlanBuilder(wish, actual, known.salt, when=restarts, taken=taken, was_changed_before=bool(old.state_hash))
    decision = installation.plan_installation(old.installed, draft)
    if decision.boot_pending:
        return Plan(boot_pending=True, reads=_build_queries(old, draft))
    if decision.prepare is not None:
        prepared, pending = (_build_prepared_edits(known, actual, decision.prepare, boot) for boot in (None, actual.boot))
        return Plan(
            tuple(draft.steps), prepare=decision.prepare, prepared=prepared, pending=pending, reads=_build_queries(old, draft)
        )
    entries = {name: part.plan(getattr(old, name), draft) for name, part in PARTS.items()}
    same = stays and not draft.steps and not draft.edits
    state_hash = old.state_hash if same else desired.compute_digest(known.salt)
    lines = _LedgerEdits(
        actual.registry, msgspec.structs.replace(known, state_hash=state_hash, installed=decision.before, **entries)
    )
    install = _complete_install(draft, decision, lines)
    if lines.changed and not draft.steps:
        draft.steps.append(Step("ledger", "ledger", "replace", "keeps the ledger in step with the settings"))
    edits = [edit for edit in draft.edits if not installation.is_install_edit(edit, install)]
    return Plan(
        steps=tuple(draft.steps),
        # a line enters the ledger before what it speaks of is changed, and leaves it after
        edits=(*(e for e in lines.changed if not _is_removal(e)), *edits, *(e for e in lines.changed if _is_removal(e))),
        writes=tuple(draft.writes),
        stop=draft.stop,
        start=draft.start,
        forget=_is_ledger_deleted_last(draft, install, lines.has_remaining(decision.after, draft.writes)),
        warnings=tuple(draft.warnings),
        faults=tuple(draft.faults),
        profile_fault=draft.profile_fault,
        disabled=draft.disabled,
        install=_add_reversal(install, draft, old, lines)
        if installation.list_restarted_services(draft.stop, draft.start)
        else install,
        reads=_build_queries(old, draft),
    )


def _is_ledger_deleted_last(draft: PlanBuilder, install: Install, has_remaining: bool) -> bool:
    """Return True if the ledger is deleted after the restarts and the writes; without them the import deletes it."""
    is_undone = any(write.ledger_line for write in draft.writes)
    return not has_remaining and bool(draft.stop or draft.start or install or is_undone) and not draft.disabled


def _build_queries(old: Ledger, draft: PlanBuilder) -> Queries:
    parts = (part.build_follow_up_queries(getattr(old, name), draft) for name, part in PARTS.items())
    return Queries.merge((*parts, Queries(dependants=bool(draft.stop))))


def _build_prepared_edits(known: Ledger, actual: ObservedState, preparation: Preparation, boot: int | None) -> tuple[Edit, ...]:
    """Build the edits that record that Windows was prepared; `boot` is set if only the next reboot completes it."""
    done = msgspec.structs.replace(known.installed, prepared=PreparedWindows(preparation, boot))
    return ledger.build_edits(actual.registry, msgspec.structs.replace(known, installed=done))


def _with_services_of_payload(desired: DesiredState, old: Ledger) -> DesiredState:
    """Return the desired state with the payload's proxied services: they get or lose the proxy like the others."""
    named = desired.registry.list_children(SERVICES)
    theirs = [n for n in old.environment.services if old.installed.find_service(n) is not None and not is_listed(n, named)]
    values = (key.get("Environment") for key in desired.registry.list_keys_below(SERVICES))
    environment = next((value for value in values if value is not None), None)
    paths = [rf"{SERVICES}\{name}" for name in theirs]
    edits = [CreateKey(path) if environment is None else SetValue(path, "Environment", environment) for path in paths]
    return msgspec.structs.replace(desired, registry=desired.registry.apply_edits(edits))


class _LedgerEdits:
    """The way of the ledger from the actual to the desired state: at once, or after an installation."""

    def __init__(self, before: Registry, wanted: Ledger) -> None:
        self._before, self._wanted = before, wanted
        self.changed = ledger.build_edits(before, wanted)

    def build_final_edits(self, installed: InstalledPayload) -> tuple[Edit, ...]:
        """Build the edits that record `installed` in the ledger once `changed` was imported."""
        if installed == self._wanted.installed:
            return ()
        edits = ledger.build_edits(
            self._before.apply_edits(self.changed), msgspec.structs.replace(self._wanted, installed=installed)
        )
        return tuple(edit for edit in edits if is_within(edit.path, INSTALLED))

    def has_remaining(self, installed: InstalledPayload, writes: Sequence[FileWrite]) -> bool:
        """Return True if the ledger is still needed with `installed`, after the writes and without owed restarts."""
        downtime = msgspec.structs.replace(self._wanted.downtime, restarts={})
        is_undone = any(write.ledger_line == powershell.LINE for write in writes)
        block = None if is_undone else self._wanted.powershell
        return bool(msgspec.structs.replace(self._wanted, downtime=downtime, installed=installed, powershell=block))


def _complete_install(draft: PlanBuilder, decision: InstallDecision, lines: _LedgerEdits) -> Install:
    """Complete the installation with the later imports: services' values, then the removed lines of the ledger."""
    decided = decision.install
    services = [edit for made in (*decided.create, *decided.configure) for edit in made.to_edits()]
    own = [edit for edit in draft.edits if installation.is_install_edit(edit, decided)]
    return msgspec.structs.replace(decided, edits=(*services, *own), lines=lines.build_final_edits(decision.after))


def _add_reversal(install: Install, draft: PlanBuilder, old: Ledger, lines: _LedgerEdits) -> Install:
    """Add the reversal to an installation if another complete version from Transom is installed."""
    former, version = old.installed.payload, draft.desired.payload
    if not former and draft.desired.takes and version:
        # what another operator had there runs
        former = version
    if not former or not version or not (install.place or install.configure):
        return install
    made = installation.build_reversal(install, former, version, draft.observed, draft.actual.registry.apply_edits(draft.edits))
    back = lines.build_final_edits(old.installed.with_present_files(draft.observed.files))
    return msgspec.structs.replace(install, reversal=msgspec.structs.replace(made, lines=back))


def _is_removal(edit: Edit) -> bool:
    return isinstance(edit, DeleteValue | DeleteKey)


def predict_state(actual: ObservedState, planned: Plan) -> ObservedState:
    """Predict what a gather reads after the plan was applied."""
    actual = installation.predict_install(actual, planned.install)
    registry = actual.registry.apply_edits(planned.edits).apply_edits(
        (*planned.install.edits, *planned.install.lines, *planned.prepared)
    )
    restarts = registry.find_key(RESTARTS)
    restarted = FoldedDict.from_names((*planned.stop, *planned.start))
    for named in [value for value in (restarts.values or {}).values() if value.name in restarted] if restarts else []:
        registry = registry.apply_edits([DeleteValue(RESTARTS, named.name)])
    registry = registry.apply_edits(DeleteValue(LEDGER, write.ledger_line) for write in planned.writes if write.ledger_line)
    if planned.forget:
        registry = registry.apply_edits([DeleteKey(LEDGER)])
    running = FoldedDict.from_names(planned.start)
    services = tuple(
        msgspec.structs.replace(s, state=ServiceState.RUNNING) if s.name in running else s for s in actual.services
    )
    written: dict[str, bytes | None] = {write.path: write.content for write in planned.writes if write.content is not None}
    deleted = {write.path for write in planned.writes if write.content is None}
    contents = {path: content for path, content in actual.contents.items() if path not in deleted} | written
    return msgspec.structs.replace(actual, registry=registry, services=services, contents=contents)
