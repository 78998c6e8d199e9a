"""The difference between what a host should be and what it is: steps, each with its reason.

`plan` is total: what was not read counts as not there, and `gathering.more` says what to read first. After the edits and the
restarts of a plan the next plan is empty; a host that is as it should be gets no write.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from transom.windows import certificates, installation, ledger, reg, reversal, winhttp
from transom.windows.environment import NAMES, UNMASKED, Change, Wish, merge_machine, merge_service
from transom.windows.gathering import ENVIRONMENT, LEDGER, RESTARTS, SERVICES
from transom.windows.installation import Install
from transom.windows.ledger import INSTALLED, Deferred, Held, Installed, Ledger, Note, Prepared, ServiceEnvironment, Trusted
from transom.windows.registry import (
    CreateKey,
    DeleteKey,
    DeleteValue,
    Edit,
    NamedValue,
    Registry,
    SetValue,
    Value,
    ValueType,
)
from transom.windows.restarts import dependants, start_order, stop_order
from transom.windows.state import HostState, Preparation, ServiceState
from transom.windows.steps import Kind, Step
from transom.windows.taken import Taken, is_known_already, variable

When = Literal["now", "boot", "held"]
_WAITS: Final[dict[When, str]] = {
    "boot": "its restart waits for the next boot (spec.windows.restart: OnNextBoot)",
    "held": "its restart waits for annotation transom.dev/restart on the WindowsInstance (spec.windows.restart: Manual)",
}
_TAKEN: Final = "of the operator that had the host before: Transom's from now on"


class Plan(msgspec.Struct, frozen=True):
    """What has to be done on a host, in order: one import of `edits`, then `stop`, then `install`, then `start`.

    Every service of `stop` has a note in the ledger (`…\\Transom\\Restarts`, value named as the service, REG_SZ), written by
    `edits`: `running` (it was running: it must run at the end) or `check` (a dependant whose state is not known: when it is
    running, its note becomes `running` before it is stopped; when it is stopped, its note is cleared and it stays stopped).
    A note is cleared when its service was seen running. With `forget` the ledger's key goes after the last note.
    `warnings` are for people: what the plan leaves as it is although the settings ask for more.
    With `prepare`, Windows itself comes first, and the plan holds nothing else but the ledger's lines of it, imported
    afterwards: `prepared`, or `pending` where the host has to boot. With `boot_pending` nothing can be done before it has.
    """

    steps: tuple[Step, ...] = ()
    edits: tuple[Edit, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    forget: bool = False
    warnings: tuple[str, ...] = ()
    install: Install = Install()
    prepare: Preparation | None = None
    prepared: tuple[Edit, ...] = ()
    pending: tuple[Edit, ...] = ()
    boot_pending: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.edits or self.stop or self.start or self.forget or self.install or self.prepare)


def plan(desired: HostState, actual: HostState, salt: bytes, restarts: When = "now", *, taken: Taken | None = None) -> Plan:
    """The steps from `actual` to `desired`; `salt` (16 random bytes) is for a ledger that has none.

    `restarts` that are put off (`boot`: until the next boot, `held`: until somebody says so) are noted in the ledger.

    `taken` is what the operator left from which the host is taken over: that becomes Transom's.

    Raises ledger.LedgerError and environment.RegistryTypeError: such a host is not touched.
    """
    return _Planner(desired, actual, salt, restarts, taken).plan()


class _Planner:
    """The parts of one plan as they are found; the ledger is copied, changed, and compared at the end."""

    def __init__(self, desired: HostState, actual: HostState, salt: bytes, when: When, taken: Taken | None) -> None:
        self.desired, self.when = desired, when
        self.old = ledger.read(actual.registry)
        # once: what comes to be there later is somebody else's again
        self.taken = taken if not self.old.state_hash else None
        self.decision = installation.decide(desired, actual, self.old.installed, self.old.salt or salt)
        self.found, self.actual = actual, self.decision.actual
        self.ledger = msgspec.structs.replace(
            self.old,
            installed=self.decision.before,
            salt=self.old.salt or salt,
            machine=dict(self.old.machine),
            services=dict(self.old.services),
            certificates={name: dict(held) for name, held in self.old.certificates.items()},
        )
        self.keys = list(self.old.keys)
        self.steps: list[Step] = list(self.decision.steps)
        self.edits: list[Edit] = []
        self.restarts: dict[str, str] = dict(self.decision.restarts)
        self.warnings: list[str] = list(self.decision.warnings)

    def plan(self) -> Plan:
        if self.decision.boot_pending:
            return Plan(boot_pending=True)
        if self.decision.prepare is not None:
            prepared, pending = (self._prepared(self.decision.prepare, boot) for boot in (None, self.actual.boot))
            return Plan(tuple(self.steps), prepare=self.decision.prepare, prepared=prepared, pending=pending)
        masks = self._machine_environment()
        self._service_environments(masks)
        self._certificates()
        self._win_http()
        stop, notes = self._restarts()
        self._created_keys()
        text = reg.render(_as_edits(self.desired.registry)).hex() + "".join(map(" ".join, sorted(self.desired.files.items())))
        digest = ledger.digest(self.ledger.salt, "StateHash", text)
        wanted = msgspec.structs.replace(self.ledger, state_hash=digest, keys=tuple(self.keys), restarts=notes)
        ours = bool(msgspec.structs.replace(wanted, restarts={}, installed=self.decision.after))
        changed = ledger.edits(self.actual.registry, wanted)
        install = self._install(wanted, changed)
        if changed and not self.steps:
            self.steps.append(Step("ledger", "ledger", "replace", "keeps the ledger in step with the settings"))
        edits = [edit for edit in self.edits if not installation.speaks_of(edit, install)]
        stop = self._stop(stop)
        start = self._start(stop)
        return Plan(
            steps=tuple(self.steps),
            # a line enters the ledger before what it speaks of is changed, and leaves it after
            edits=(*(e for e in changed if not _takes(e)), *edits, *(e for e in changed if _takes(e))),
            stop=stop,
            start=start,
            forget=not ours and bool(stop or install),
            warnings=tuple(self.warnings),
            install=self._reversible(install, wanted, changed) if reversal.ran(stop, start) else install,
        )

    def _reversible(self, install: Install, wanted: Ledger, changed: tuple[Edit, ...]) -> Install:
        """The installation with what takes it back, where another version of ours was there as a whole."""
        former, version = self.old.installed.payload, self.desired.payload
        if not former or not version or not (install.place or install.configure):
            return install
        made = reversal.reversal(install, former, version, self.found, self.actual.registry.apply(self.edits))
        lines = self._lines(wanted, changed, self.old.installed.settled(self.found.files))
        return msgspec.structs.replace(install, reversal=msgspec.structs.replace(made, lines=lines))

    def _prepared(self, preparation: Preparation, boot: int | None) -> tuple[Edit, ...]:
        done = msgspec.structs.replace(self.old.installed, prepared=Prepared(preparation, boot))
        return ledger.edits(self.actual.registry, msgspec.structs.replace(self.ledger, installed=done))

    def _install(self, wanted: Ledger, changed: tuple[Edit, ...]) -> Install:
        """The installation with what is imported after it: services' values, then the ledger's lines that go."""
        decided = self.decision.install
        services = [edit for made in (*decided.create, *decided.configure) for edit in made.edits()]
        own = [edit for edit in self.edits if installation.speaks_of(edit, decided)]
        lines = self._lines(wanted, changed, self.decision.after)
        return msgspec.structs.replace(decided, edits=(*services, *own), lines=lines)

    def _lines(self, wanted: Ledger, changed: tuple[Edit, ...], installed: Installed) -> tuple[Edit, ...]:
        """What makes the ledger say `installed` once `changed` was imported."""
        if installed == wanted.installed:
            return ()
        edits = ledger.edits(self.actual.registry.apply(changed), msgspec.structs.replace(wanted, installed=installed))
        return tuple(edit for edit in edits if (edit.path + "\\").casefold().startswith(INSTALLED.casefold() + "\\"))

    def _stop(self, restarted: tuple[str, ...]) -> tuple[str, ...]:
        """What is restarted, and what is removed and runs: nobody owes that a start."""
        services = [self.found.service(name) for name in self.decision.install.delete]
        going = tuple(s.name for s in services if s is not None and s.state != ServiceState.STOPPED)
        if not going:
            return restarted
        stranded = [name for name in self._stranded() if not _listed(name, restarted)]
        self.warnings += [f"{name} depends on a service that is removed: it is stopped, and cannot start" for name in stranded]
        return stop_order((*restarted, *going, *stranded), _dependencies(self.found) | self._dependencies())

    def _stranded(self) -> tuple[str, ...]:
        """Services of others that depend on one that is removed, as far as they are not known to be stopped."""
        found = []
        for name in dependants(self.decision.install.delete, _dependencies(self.found)):
            held = self.found.service(name)
            if held is None or held.state != ServiceState.STOPPED:
                found.append(name)
        return tuple(found)

    def _start(self, stop: tuple[str, ...]) -> tuple[str, ...]:
        """What was stopped and stays, and what has to run; in the order that dependencies and the payload ask for."""
        gone = self.decision.install.delete
        again = [name for name in reversed(stop) if not _listed(name, (*gone, *self._stranded()))]
        names = _each_once((*self.decision.start, *again))
        if not self.decision.start:
            return tuple(again)
        return start_order(names, self._dependencies())

    def _machine_environment(self) -> dict[str, Wish]:
        """Sets and undoes the machine's variables; gives what has been booted with and must be hidden from services."""
        wanted, held = self.desired.registry.key(ENVIRONMENT), self.actual.registry.key(ENVIRONMENT)
        hidden: dict[str, Wish] = {}
        for name in NAMES:
            wish = wanted.get(name) if wanted else None
            named = (held.values or {}).get(name.casefold()) if held else None
            entry = self.old.machine.get(name) or (variable(name, named, self.ledger) if self.taken else None)
            text = named.value.text() if named and named.value.type == ValueType.SZ else None
            if entry is not None and name not in self.old.machine:
                self.steps.append(Step("ledger", f"machine: {name}", "add", _TAKEN))
            if wish is None and entry is not None and entry.peer and text == self._given(name):
                self.ledger.machine[name] = entry
                continue
            merged = merge_machine(
                name, named, wish.text() if wish else None, entry=entry, ledger=self.ledger, boot=self.actual.boot
            )
            self._value_edits(ENVIRONMENT, named, NamedValue(merged.name, merged.value) if merged.value else None)
            if merged.entry is None:
                self.ledger.machine.pop(name, None)
            else:
                self.ledger.machine[name] = merged.entry
            if merged.change is not None:
                self._changed("machine-environment", f"machine: {name}", merged.change)
            booted_with = entry is not None and entry.boot != self.actual.boot
            if self.actual.boot is not None and merged.entry is None and (booted_with or self._masked(name)):
                back = merged.value
                hidden[name] = Wish(back.text() if back and back.type == ValueType.SZ else "", self.actual.boot)
        return hidden

    def _given(self, name: str) -> str | None:
        """The value that the managed services are given of a variable."""
        for key in self.desired.registry.below(SERVICES):
            own = key.get("Environment")
            for item in own.texts() if own else ():
                if item.startswith(f"{name}="):
                    return item.partition("=")[2]
        return None

    def _masked(self, name: str) -> bool:
        """Whether a service hides the machine's variable since this very boot."""
        entries = (environment.variables.get(name) for environment in self.old.services.values())
        return any(entry is not None and entry.mask is not None and entry.mask == self.actual.boot for entry in entries)

    def _service_environments(self, masks: dict[str, Wish]) -> None:
        managed = self.desired.registry.children(SERVICES)
        for service in _each_once((*managed, *self.old.services)):
            entry = next((e for name, e in self.old.services.items() if name.casefold() == service.casefold()), None)
            key = self.actual.registry.key(rf"{SERVICES}\{service}")
            if self.actual.service(service) is None or key is None:
                self._drop_service(service, entry)
                continue
            own = self.desired.registry.value(key.path, "Environment")
            # what is managed hides every variable that must go; what no longer is, those that it hides already
            wishes = masks if own is not None or _listed(service, managed) else _still_masked(entry, masks)
            items = own.texts() if own else ()
            wishes = wishes | {name: Wish(value) for name, _, value in (item.partition("=") for item in items)}
            named = (key.values or {}).get("environment")
            merged = merge_service(service, named.value if named else None, entry, wishes, self.ledger)
            self._value_edits(
                key.path, named, NamedValue(named.name if named else "Environment", merged.value) if merged.value else None
            )
            self._drop_service(service, entry)
            if merged.entry is not None:
                self.ledger.services[service] = merged.entry
            for change in merged.changes:
                self._changed("service-environment", f"{service}: {change.name}", change)
            changes = tuple(change for change in merged.changes if change.action and change.reason != UNMASKED)
            given = {name: wish.value for name, wish in wishes.items()}
            if changes and not (self.taken and is_known_already(changes, given, self._machine_values())):
                self.restarts[service] = "its environment changed"

    def _machine_values(self) -> dict[str, str]:
        key = self.actual.registry.key(ENVIRONMENT)
        named = (key.values or {}).values() if key else ()
        return {one.name.upper(): one.value.text() for one in named if one.value.type == ValueType.SZ}

    def _drop_service(self, service: str, entry: ServiceEnvironment | None) -> None:
        if entry is not None:
            self.ledger.services.pop(next(n for n, e in self.ledger.services.items() if n.casefold() == service.casefold()))

    def _certificates(self) -> None:
        for name in (certificates.ROOT, certificates.CA):
            path = certificates.store(name)
            wanted = {_leaf(key.path): key.get("Blob") for key in self.desired.registry.below(path)}
            entries = self.ledger.certificates.setdefault(name, {})
            for sha1, blob in wanted.items():
                if blob is not None:
                    self._trust(name, sha1, blob, entries)
            for sha1 in [sha1 for sha1 in entries if sha1 not in wanted]:
                self._distrust(name, sha1, entries)

    def _trust(self, store: str, sha1: str, blob: Value, entries: dict[str, Trusted]) -> None:
        path = rf"{certificates.store(store)}\{sha1}"
        held, entry = self.actual.registry.key(path), entries.get(sha1)
        der = certificates.certificate(blob) or b""
        # not for those who only know the names of this module: it takes 10 MB
        from cryptography import x509

        subject = entry.subject if entry else x509.load_der_x509_certificate(der).subject.rfc4514_string()
        target = f"{store}: {sha1} {subject}"
        if self.actual.registry.key(rf"{certificates.store(certificates.DISALLOWED)}\{sha1}"):
            self.warnings.append(f"{target}: the host's Disallowed store has it: Windows does not trust it")
        there = held is not None and (held.values is None or certificates.certificate(held.get("Blob")) == der)
        if there:
            if entry is None or entry.policy:
                imported = self.taken is not None and sha1 in self.taken.certificates
                entries[sha1] = Trusted(added=imported, subject=subject)
                reason = _TAKEN if imported else "trusted before: not ours, and it stays on removal"
                self.steps.append(Step("ledger", target, "add", reason))
            return
        if self.actual.registry.key(rf"{certificates.policy_store(store)}\{sha1}"):
            self.warnings.append(f"{target}: group policy already holds it; left to the policy")
            entries[sha1] = Trusted(added=False, subject=subject, policy=True)
            return
        damaged = held.get("Blob") if held else None
        was = entry.was if entry else (Held.of("Blob", damaged) if damaged else None)
        ours = entry is not None and entry.added
        entries[sha1] = Trusted(added=True, subject=subject, was=was)
        self._created(store)
        self.edits.append(SetValue(path, "Blob", blob))
        reason = "drift: somebody else removed or changed it" if ours else "in the trust bundle"
        self.steps.append(Step("certificate", target, "replace" if held else "add", reason))
        self._trust_changed()

    def _distrust(self, store: str, sha1: str, entries: dict[str, Trusted]) -> None:
        entry = entries.pop(sha1)
        key = self.actual.registry.key(rf"{certificates.store(store)}\{sha1}")
        target = f"{store}: {sha1} {entry.subject}".rstrip()
        if not entry.added or key is None:
            self.steps.append(Step("ledger", target, "remove", "no longer in the trust bundle, and not ours to remove"))
            return
        back: Edit = SetValue(key.path, "Blob", entry.was.value()) if entry.was else DeleteKey(key.path)
        self.edits.append(back)
        self.steps.append(Step("certificate", target, "replace" if entry.was else "remove", "no longer in the trust bundle"))
        self._trust_changed()

    def _win_http(self) -> None:
        wanted, key = self.desired.registry.value(winhttp.KEY, winhttp.VALUE), self.actual.registry.key(winhttp.KEY)
        held = (key.values or {}).get(winhttp.VALUE.casefold()) if key else None
        entry, edits, step = winhttp.merge(wanted, held, self.ledger.win_http)
        self.ledger = msgspec.structs.replace(self.ledger, win_http=entry)
        self.edits += edits
        self.steps += [step] if step else []

    def _created(self, store: str) -> None:
        path = certificates.store(store)
        if self.actual.registry.key(path) is None:
            made = (path.rsplit("\\", 1)[0], path)
            self.keys += [key for key in made if self.actual.registry.key(key) is None and not _listed(key, tuple(self.keys))]

    def _created_keys(self) -> None:
        """Keys that Transom made go once nothing is in them, those below first."""
        if not self.keys:
            return
        after = self.actual.registry.apply(self.edits)
        used = [certificates.store(name).casefold() + "\\" for name, held in self.ledger.certificates.items() if held]
        for path in sorted(self.keys, key=len, reverse=True):
            if any(store.startswith(path.casefold() + "\\") for store in used):
                continue
            self.keys.remove(path)
            key = after.key(path)
            if key is not None and not key.values and not after.below(path):
                self.edits.append(DeleteKey(path))
                after = after.apply([DeleteKey(path)])

    def _trust_changed(self) -> None:
        trusting = self.desired.trusting
        for service in self.desired.registry.children(SERVICES) if trusting is None else trusting:
            self.restarts.setdefault(service, "the trusted certificates changed")

    def _restarts(self) -> tuple[tuple[str, ...], dict[str, Note]]:
        """The services to stop, in order, and the notes of what is owed."""
        self._put_off()
        notes: dict[str, Note] = {}
        reasons = dict.fromkeys(self.old.restarts, "a restart that was owed from an earlier change")
        for service, note in self.old.restarts.items():
            if self.actual.service(service) is not None or self._depends(service):
                notes[service] = note
        for service, reason in self.restarts.items():
            held = self.actual.service(service)
            if held is not None and held.state not in (ServiceState.STOPPED, ServiceState.STOP_PENDING):
                notes[service], reasons[service] = "running", reason
        known = self._dependencies()
        for service in dependants(notes, known):
            held = self.actual.service(service)
            if held is None or held.state not in (ServiceState.STOPPED, ServiceState.STOP_PENDING):
                notes.setdefault(service, "running" if held else "check")
                reasons.setdefault(service, "depends on a service that is restarted")
        stop = stop_order(notes, known)
        self.steps.extend(Step("service", service, "restart", reasons[service]) for service in stop)
        return stop, notes

    def _put_off(self) -> None:
        """Restarts that were put off, or are now: they enter the ledger, and do not happen. A boot has made them needless."""
        boot = self.actual.boot
        for service, deferred in self.old.deferred.items():
            if deferred.boot is None or boot is None or deferred.boot == boot:
                self.restarts.setdefault(service, "a restart that was put off")
        waiting = {}
        for service in self.restarts if self.when != "now" else ():
            held = self.actual.service(service)
            if held is not None and held.state not in (ServiceState.STOPPED, ServiceState.STOP_PENDING):
                waiting[service] = Deferred(boot)
                self.warnings.append(f"{service}: {_WAITS[self.when]}")
        for service in waiting:
            del self.restarts[service]
        self.ledger = msgspec.structs.replace(self.ledger, deferred=waiting)

    def _dependencies(self) -> dict[str, tuple[str, ...]]:
        return _dependencies(self.actual)

    def _depends(self, service: str) -> bool:
        return self.actual.dependencies is None or _listed(service, tuple(self.actual.dependencies))

    def _changed(self, kind: Kind, target: str, change: Change) -> None:
        if change.action is None:
            self.steps.append(Step("ledger", target, "remove", change.reason))
        else:
            self.steps.append(Step(kind, target, change.action, change.reason))

    def _value_edits(self, path: str, held: NamedValue | None, wanted: NamedValue | None) -> None:
        if held is not None and wanted is not None and held.value == wanted.value:
            return
        if wanted is not None:
            if held is not None and held.name != wanted.name:
                self.edits.append(DeleteValue(path, held.name))
            self.edits.append(SetValue(path, wanted.name, wanted.value))
        elif held is not None:
            self.edits.append(DeleteValue(path, held.name))


def _dependencies(state: HostState) -> dict[str, tuple[str, ...]]:
    """Who needs whom: of every service where that was read, else of those that were asked for."""
    if state.dependencies is not None:
        return dict(state.dependencies)
    found = {}
    for service in state.services:
        value = state.registry.value(rf"{SERVICES}\{service.name}", "DependOnService")
        found[service.name] = value.texts() if value and value.type == ValueType.MULTI_SZ else ()
    return found


def _takes(edit: Edit) -> bool:
    return isinstance(edit, DeleteValue | DeleteKey)


def _as_edits(registry: Registry) -> Iterator[Edit]:
    for key in registry:
        yield CreateKey(key.path)
        for named in (key.values or {}).values():
            yield SetValue(key.path, named.name, named.value)


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        {name.casefold(): name for name in reversed(names)}[folded] for folded in dict.fromkeys(n.casefold() for n in names)
    )


def _listed(name: str, names: tuple[str, ...]) -> bool:
    return name.casefold() in (other.casefold() for other in names)


def _still_masked(entry: ServiceEnvironment | None, masks: dict[str, Wish]) -> dict[str, Wish]:
    held = entry.variables if entry else {}
    return {name: wish for name, wish in masks.items() if name in held and held[name].mask is not None}


def _leaf(path: str) -> str:
    return path.rsplit("\\", 1)[1].upper()


def after(actual: HostState, planned: Plan) -> HostState:
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
