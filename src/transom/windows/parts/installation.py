"""What of a payload has to be put on a host: directories, files, services. The part of a plan beside registry values.

What was there before is adopted and left: a service of the same name is never reconfigured or removed, a file of somebody
else's is kept beside ours and comes back. What is about to be made stands in the ledger before it is made; what is removed
leaves the ledger after it was seen to be gone.
"""

import hashlib
from collections.abc import Iterable, Mapping, Set
from typing import Final, TypeVar

import msgspec

from transom.windows.host.entries import digest
from transom.windows.host.queries import SERVICES
from transom.windows.host.state import CHANGED, DesiredState, ObservedState, Preparation, Service, ServiceState
from transom.windows.host.steps import Step
from transom.windows.parts import service
from transom.windows.parts.installed import Installed, Output, OwnFile, OwnService, TakenOver, describe
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.service import Configuration
from transom.windows.registry.registry import DeleteKey, Edit, Registry

_GONE: Final = "it is gone"
_DOES_NOT_RUN: Final = "it does not run"
_DIFFERS: Final = "its configuration differs"
_DRIFT: Final = "drift: somebody else changed it"
_TAKEN: Final = "taken over from another operator"
DRIFT: Final[Mapping[str, tuple[str, ...]]] = {"service": (_GONE, _DOES_NOT_RUN, _DIFFERS), "file": (_GONE, _DRIFT)}
"""How the reasons of steps begin, by their kind, where nobody had asked for a change."""


class FilePlace(msgspec.Struct, frozen=True):
    """A file to be put at `path`. `recorded` is the digest that the ledger holds for it, from which its time follows.

    `aside`: what was there at first is somebody else's and is kept beside it, once.
    """

    path: str
    sha256: str
    size: int
    recorded: str
    aside: bool = False

    @property
    def staged(self) -> str:
        """A name of its own until it has its place: files of one content are moved each by itself."""
        return f"s-{hashlib.sha256(f'{self.path.casefold()} {self.sha256}'.encode()).hexdigest()}"


class FileRemoval(msgspec.Struct, frozen=True):
    """A file to be removed; `back`: the file that was kept beside it gets its name again."""

    path: str
    back: bool = False


class Reversal(msgspec.Struct, frozen=True):
    """What puts a host back as it was before an installation, beside what the installation says itself.

    `former` and `version` are those of the payload: the one that ran, and the one that is installed. Services of `configure`
    get the configuration that they had, `edits` their registry values, `lines` of the ledger are imported when all went well.
    """

    former: str
    version: str
    configure: tuple[Configuration, ...] = ()
    edits: tuple[Edit, ...] = ()
    lines: tuple[Edit, ...] = ()


class Install(msgspec.Struct, frozen=True):
    """What is done between the stops and the starts of a plan, and what goes once that is well.

    `directories` are made, parents first; those of `leave` are removed where they are empty. Services of `configure` exist and
    get another configuration. `edits` are imported after services were made, `lines` of the ledger when nothing went wrong.
    With `reversal` a service that ran before and does not run afterwards brings all of it back as it was; what goes
    (`delete`, `remove`, `leave`) does so when the services run.
    """

    directories: tuple[str, ...] = ()
    place: tuple[FilePlace, ...] = ()
    create: tuple[Configuration, ...] = ()
    configure: tuple[Configuration, ...] = ()
    delete: tuple[str, ...] = ()
    remove: tuple[FileRemoval, ...] = ()
    leave: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    """HNS networks that removed services made."""
    clear: tuple[str, ...] = ()
    """Directories that go with all that is in them, once no program runs from there."""
    ports: tuple[int, ...] = ()
    """TCP ports that the firewall lets in no longer."""
    edits: tuple[Edit, ...] = ()
    lines: tuple[Edit, ...] = ()
    reversal: Reversal | None = None
    sweep: tuple[str, ...] = ()
    """Directories in which programs may lie that were in use when they were replaced: gone when nobody uses them any more."""
    closed: tuple[str, ...] = ()
    """Directories of the payload that hold keys: those of them that are made are for SYSTEM and Administrators alone."""
    found: tuple[str, ...] = ()
    """Directories that are there, and that somebody else may have made: they have to be administrators', and no links."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return msgspec.structs.replace(self, sweep=(), closed=(), found=()) != Install()


class FileDecision(msgspec.Struct, frozen=True):
    """What follows from a payload: the ledger before and after, the host as it is once services were made, and why."""

    install: Install
    before: Installed
    after: Installed
    actual: ObservedState
    steps: tuple[Step, ...] = ()
    restarts: Mapping[str, str] = {}
    start: tuple[str, ...] = ()
    prepare: Preparation | None = None
    boot_pending: bool = False
    warnings: tuple[str, ...] = ()

    def enter(self, draft: PlanBuilder) -> None:
        """Enters it into a plan: the parts plan for the host as it will be."""
        draft.actual = self.actual
        draft.steps += self.steps
        draft.restarts |= self.restarts
        draft.removed, draft.needed = self.install.delete, self.start
        draft.warnings += self.warnings


def decide(desired: DesiredState, actual: ObservedState, recorded: Installed, salt: bytes) -> FileDecision:
    """What to do about services, files and directories; nothing where the wish does not speak of a payload.

    `desired.files` has SHA-256; `actual.files` and the ledger have their digests under the host's salt, since a file may hold
    a password. A wish that is just what is there leaves a file as it is.
    """
    if desired.payload is None:
        return FileDecision(Install(), recorded, recorded, actual)
    preparation = desired.preparation
    if preparation is not None and (recorded.prepared is None or recorded.prepared.preparation != preparation):
        step = Step("windows", "Windows", "add", "has to be prepared for containers and for this node")
        return FileDecision(Install(), recorded, recorded, actual, (step,), prepare=preparation)
    if recorded.prepared is not None and recorded.prepared.boot is not None and recorded.prepared.boot == actual.boot:
        return FileDecision(Install(), recorded, recorded, actual, boot_pending=True)
    return _Decider(desired, actual, recorded, salt).decide()


class _Decider:
    def __init__(self, desired: DesiredState, actual: ObservedState, recorded: Installed, salt: bytes) -> None:
        self.desired, self.actual, self.recorded, self.salt = desired, actual, recorded, salt
        self.services = dict(recorded.services)
        self.files = dict(recorded.files)
        self.steps: list[Step] = []
        self.restarts: dict[str, str] = {}
        self.start: list[str] = []
        self.gone_services: list[str] = []
        self.gone_files: list[str] = []
        self.networks: list[str] = []
        self.warnings: list[str] = []

    def decide(self) -> FileDecision:
        directories = self._directories()
        place = self._files()
        clear = self._directories_to_clear()
        remove = self._removals(clear)
        create, configure = self._services()
        delete = self._deletions()
        leave = self._directories_to_leave(clear)
        printed = {name: Output(text, self.actual.boot) for name, text in self.actual.outputs.items()}
        before = msgspec.structs.replace(
            self.recorded,
            services=self.services,
            files=self.files,
            directories=_union(self.recorded.directories, directories),
            owned=_union(self.recorded.owned, tuple(path for path in directories if _listed(path, self.desired.owned))),
            outputs=self.recorded.outputs | printed,
        )
        after = msgspec.structs.replace(
            before,
            payload=self.desired.payload or "",
            prepared=self.recorded.prepared if self.desired.payload else None,
            outputs=before.outputs if self.desired.payload else {},
            services=_without(self.services, self.gone_services),
            files={path: own.settled(own.digest) for path, own in _without(self.files, self.gone_files).items()},
            directories=_remaining(before.directories, leave, clear),
            owned=_remaining(before.owned, leave, clear),
        )
        cleared = _folded(clear)
        sweep = tuple(dict.fromkeys(path.rpartition("\\")[0] for path in self.recorded.files if not _within(path, cleared)))
        install = Install(directories, place, create, configure, delete, remove, leave, sweep=sweep)
        install = msgspec.structs.replace(install, networks=tuple(self.networks), clear=clear, ports=self._ports())
        # who made what lies in a directory of ours is known; the ledger speaks also of one that somebody else was first to make
        found = tuple(
            path
            for path in self.desired.directories
            if not _listed(path, directories)
            and not all(_listed(one, self.recorded.directories) for one in (path, path.rpartition("\\")[0]))
        )
        install = msgspec.structs.replace(install, closed=self.desired.closed, found=found)
        return FileDecision(
            install,
            before if install else after,
            after,
            self._later(create, configure, delete),
            tuple(self.steps),
            self.restarts,
            tuple(self.start),
            warnings=tuple(self.warnings),
        )

    def _directories(self) -> tuple[str, ...]:
        there = _folded(self.actual.directories)
        made = tuple(path for path in self.desired.directories if path.casefold() not in there)
        self.steps += [Step("directory", path, "add", "part of the payload") for path in made]
        return made

    def _files(self) -> tuple[FilePlace, ...]:
        found = []
        for path, sha256 in self.desired.files.items():
            there, own = _get(self.actual.files, path), self.recorded.file(path)
            recorded = digest(self.salt, "File", sha256)
            settled = own.settled(there) if own else None
            if there in (recorded, sha256):
                if settled is not None:
                    self.files = _without(self.files, [path]) | {path: settled}
                continue
            # what belongs to a service that was taken over is ours to replace
            found_sha256 = self.actual.found.get(path, "") if own is None and self.desired.takes else ""
            aside = own.aside if own else there is not None and not found_sha256
            size = self.desired.sizes.get(path, 0)
            found.append(FilePlace(path, sha256, size, recorded, aside=aside))
            former = settled if settled and settled.digest == there else None
            as_found = own.found if own else found_sha256 and digest(self.salt, "File", found_sha256)
            line = OwnFile(recorded, size, aside, former.digest if former else "", former.size if former else 0, as_found)
            self.files = _without(self.files, [path]) | {path: line}
            shown = own.describe(there) if own else there and "a file that is not Transom's"
            reason = _TAKEN if found_sha256 else _file_reason(own, there, recorded)
            self.steps.append(Step("file", path, "replace" if there else "add", reason, shown, describe(recorded, size)))
            for name in self.desired.readers.get(path, ()):
                self.restarts.setdefault(name, f"{path} changes")
        return tuple(found)

    def _ports(self) -> tuple[int, ...]:
        """Those that were opened when Windows was prepared, where nothing of a payload is to be there any more."""
        ports = (
            self.recorded.prepared.preparation.ports if self.recorded.prepared is not None and not self.desired.payload else ()
        )
        self.steps += [Step("windows", f"TCP port {port}", "remove", "no longer let in") for port in ports]
        return ports

    def _removals(self, clear: tuple[str, ...]) -> tuple[FileRemoval, ...]:
        found, cleared = [], _folded(clear)
        for path, own in self.recorded.files.items():
            if _get(self.desired.files, path) is not None:
                continue
            there = _get(self.actual.files, path)
            self.gone_files.append(path)
            if _within(path, cleared):
                self.steps.append(Step("file", path, "remove", "goes with its directory", own.describe(there)))
            elif there is not None and there in (own.digest, own.former):
                found.append(FileRemoval(path, own.aside))
                self.steps.append(Step("file", path, "remove", "no longer in the payload", own.describe(there)))
            elif there is not None:
                self.warnings.append(f"{path} was changed since it was sent: it is left")
                self.steps.append(Step("ledger", path, "remove", "changed by somebody else since it was sent: left as it is"))
            else:
                self.steps.append(Step("ledger", path, "remove", "no longer in the payload, and not there"))
        return tuple(found)

    def _services(self) -> tuple[tuple[Configuration, ...], tuple[Configuration, ...]]:
        create, configure = [], []
        running = {service.name.casefold() for service in self.desired.services if service.state == ServiceState.RUNNING}
        for name in self._wanted():
            key = self.desired.registry.key(rf"{SERVICES}\{name}")
            assert key is not None
            there, own = self.actual.service(name), self.recorded.service(name)
            present = self.actual.registry.key(key.path)
            if own is not None and not own.adopted:
                self.services = _without(self.services, [name]) | {name: self._own(name, own.taken)}
            if there is None or present is None:
                create.append(service.of_key(name, key))
                self.services = _without(self.services, [name]) | {name: self._own(name, own.taken if own else None)}
                self.steps.append(Step("service", name, "add", "part of the payload" if own is None else _GONE))
            elif (own is None or own.adopted) and _listed(name, self.desired.takes):
                configure.append(service.with_items_of(service.of_key(name, key), present))
                taken = service.taken_over(present)
                self.services = _without(self.services, [name]) | {name: self._own(name, taken)}
                self.steps.append(Step("service", name, "replace", _TAKEN, taken.command))
                self.restarts[name] = _TAKEN
            elif own is None:
                self.services[name] = OwnService(adopted=True)
                self.steps.append(Step("ledger", name, "add", "was there before: adopted, and only its environment is ours"))
                continue
            elif own.adopted:
                continue
            elif differing := service.differences(service.of_key(name, key), present):
                configure.append(service.with_items_of(service.of_key(name, key), present))
                self.steps.append(Step("service", name, "replace", f"{_DIFFERS}: {', '.join(differing)}"))
                self.restarts[name] = "its configuration changes"
            if name.casefold() in running and (there is None or there.state in _DOWN):
                self.start.append(name)
                if there is not None:
                    self.steps.append(Step("service", name, "restart", _DOES_NOT_RUN))
        return tuple(create), tuple(configure)

    def _own(self, name: str, taken: TakenOver | None = None) -> OwnService:
        return OwnService(networks=self.desired.networks.get(name, ()), taken=taken)

    def _wanted(self) -> tuple[str, ...]:
        """In the order of start: that of the wish's services, then others."""
        named = tuple(service.name for service in self.desired.services)
        return tuple(
            name
            for name in dict.fromkeys((*named, *self.desired.registry.children(SERVICES)))
            if service.configured(self.desired.registry.key(rf"{SERVICES}\{name}"))
        )

    def _deletions(self) -> tuple[str, ...]:
        wanted, found = _folded(self._wanted()), []
        for name, own in self.recorded.services.items():
            if name.casefold() in wanted:
                continue
            self.gone_services.append(name)
            self.networks += [network for network in own.networks if network not in self.networks]
            self.steps += [Step("windows", f"HNS network {one}", "remove", f"{name} made it") for one in own.networks]
            if own.adopted:
                self.steps.append(Step("ledger", name, "remove", "no longer in the payload, and not ours to remove"))
            elif self.actual.service(name) is not None:
                found.append(name)
                self.restarts[name] = "it is no longer in the payload"
                self.steps.append(Step("service", name, "remove", "no longer in the payload"))
        return tuple(found)

    def _directories_to_clear(self) -> tuple[str, ...]:
        """The payload's own directories, those alone that lie in no other of them, where nothing of it is to be there any more.

        Programs have written there: logs, certificates, images.
        """
        if self.desired.payload:
            return ()
        found: list[str] = []
        covered = set[str]()
        for path in sorted(self.recorded.owned, key=len):
            if not _within(path, covered):
                found.append(path)
                covered.add(path.casefold())
                self.steps.append(Step("directory", path, "remove", "Transom made it, and it goes with all that is in it"))
        return tuple(found)

    def _directories_to_leave(self, clear: tuple[str, ...]) -> tuple[str, ...]:
        """Directories that we made and that nothing of the payload needs: removed where they are empty, and forgotten."""
        wanted, cleared = _folded(self.desired.directories), _folded(clear)
        return tuple(
            path
            for path in sorted(self.recorded.directories, key=len, reverse=True)
            if path.casefold() not in wanted and not _within(path, cleared)
        )

    def _later(
        self, create: tuple[Configuration, ...], configure: tuple[Configuration, ...], delete: tuple[str, ...]
    ) -> ObservedState:
        """The host once services were made and removed, as far as registry values and states go."""
        registry = self.actual.registry.apply(edit for made in (*create, *configure) for edit in made.edits())
        registry = registry.apply(DeleteKey(rf"{SERVICES}\{name}") for name in delete)
        services = [present for present in self.actual.services if not _listed(present.name, delete)]
        services += [Service(made.name, ServiceState.STOPPED) for made in create if self.actual.service(made.name) is None]
        dependencies = self.actual.dependencies
        if dependencies is not None:
            dependencies = _without(dependencies, delete) | {made.name: made.depends for made in (*create, *configure)}
        return msgspec.structs.replace(self.actual, registry=registry, services=tuple(services), dependencies=dependencies)


_DOWN = (ServiceState.STOPPED, ServiceState.STOP_PENDING)


def after(actual: ObservedState, install: Install) -> ObservedState:
    """What a gather should find once `install` was carried out."""
    directories = _remaining((*actual.directories, *install.directories), install.leave, install.clear)
    files, cleared = _without(actual.files, [removal.path for removal in install.remove]), _folded(install.clear)
    files = {path: there for path, there in files.items() if not _within(path, cleared)}
    for removal in install.remove:
        if removal.back:
            files[removal.path] = CHANGED
    for placed in install.place:
        files = _without(files, [placed.path]) | {placed.path: placed.recorded}
    made = (*install.create, *install.configure)
    registry: Registry = actual.registry.apply(edit for one in made for edit in one.edits())
    registry = registry.apply(DeleteKey(rf"{SERVICES}\{name}") for name in install.delete).apply(install.edits)
    services = [present for present in actual.services if not _listed(present.name, install.delete)]
    services += [Service(one.name, ServiceState.STOPPED) for one in install.create if actual.service(one.name) is None]
    return msgspec.structs.replace(actual, registry=registry, services=tuple(services), directories=directories, files=files)


def speaks_of(edit: Edit, install: Install) -> bool:
    """Whether an edit is about a service that `install` makes: it counts only once the service is there."""
    keys = [made.path.casefold() for made in (*install.create, *install.configure)]
    return any(edit.path.casefold() == key or edit.path.casefold().startswith(key + "\\") for key in keys)


def _file_reason(own: OwnFile | None, there: str | None, present: str) -> str:
    if own is None:
        return "in the place of a file that was there before; it is kept beside" if there else "part of the payload"
    if there is None:
        return _GONE
    drift = there != own.former and (own.digest == present or there == CHANGED)
    return _DRIFT if drift else "the payload changed"


def _get(files: Mapping[str, str], path: str) -> str | None:
    if path in files:
        return files[path]
    return next((present for name, present in files.items() if name.casefold() == path.casefold()), None)


def _within(path: str, directories: Set[str]) -> bool:
    """Whether a path is one of the directories, which are `_folded`, or lies below one."""
    place = path.casefold()
    while place:
        if place in directories:
            return True
        place = place.rpartition("\\")[0]
    return False


def _remaining(directories: tuple[str, ...], leave: tuple[str, ...], clear: tuple[str, ...]) -> tuple[str, ...]:
    left, cleared = set(leave), _folded(clear)
    return tuple(path for path in directories if path not in left and not _within(path, cleared))


def _folded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _listed(name: str, names: Iterable[str]) -> bool:
    return name.casefold() in _folded(names)


_T = TypeVar("_T")


def _union(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    known = _folded(names)
    return (*names, *(name for name in more if name.casefold() not in known))


def _without(present: Mapping[str, _T], names: tuple[str, ...] | list[str]) -> dict[str, _T]:
    gone = {name.casefold() for name in names}
    return {name: value for name, value in present.items() if name.casefold() not in gone}
