"""What of a payload has to be put on a host: directories, files, services, and Windows made ready for them.

What is about to be made stands in the ledger before it is made; what is removed leaves the ledger after it was seen to be gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from transom.windows.host import CHANGED, ObservedState, Preparation, Service, ServiceState, Step
from transom.windows.host.queries import SERVICES
from transom.windows.parts import files, service, services
from transom.windows.parts.files import FilePlace, FileRemoval
from transom.windows.parts.installed import Installed, Output
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.service import ENVIRONMENT, Configuration
from transom.windows.registry import Key, Registry
from transom.windows.registry.edits import DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, listed, within, within_one
from transom.windows.registry.values import Value

DRIFT: Final[Mapping[str, tuple[str, ...]]] = {"service": services.DRIFT, "file": files.DRIFT}
"""How the reasons of steps begin, by their kind, where nobody had asked for a change."""


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
    With `reversal` a service that ran before and does not run afterwards brings all of it back as it was. What goes (`delete`,
    `remove`, `leave`) goes when the services run.
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


class InstallDecision(msgspec.Struct, frozen=True):
    """What follows from a payload: what is installed, and the ledger before and after."""

    install: Install
    before: Installed
    after: Installed
    prepare: Preparation | None = None
    boot_pending: bool = False


def decide(recorded: Installed, draft: PlanBuilder) -> InstallDecision:
    """What to do about services, files and directories; nothing where the wish does not speak of a payload.

    `desired.files` has SHA-256; `found.files` and the ledger have their digests under the host's salt, since a file may hold
    a password. A wish that is just what is there leaves a file as it is. `draft.actual` becomes the host as it is once services
    were made and removed.
    """
    desired, found = draft.desired, draft.found
    unchanged = InstallDecision(Install(), recorded, recorded)
    if desired.payload is None:
        return unchanged
    preparation = desired.preparation
    if preparation is not None and (recorded.prepared is None or recorded.prepared.preparation != preparation):
        draft.steps.append(Step("windows", "Windows", "add", "has to be prepared for containers and for this node"))
        return msgspec.structs.replace(unchanged, prepare=preparation)
    if recorded.prepared is not None and recorded.prepared.boot is not None and recorded.prepared.boot == found.boot:
        return msgspec.structs.replace(unchanged, boot_pending=True)
    of_files, of_services = files.plan_files(recorded, draft), services.plan_services(recorded, draft)
    install = Install(
        directories=of_files.make,
        place=of_files.place,
        create=of_services.create,
        configure=of_services.configure,
        delete=of_services.delete,
        remove=of_files.remove,
        leave=of_files.leave,
        networks=of_services.networks,
        clear=of_files.clear,
        ports=_closed_ports(recorded, draft),
        sweep=files.programs_of(recorded, of_files.clear),
        closed=desired.closed,
        found=files.found_directories(recorded, of_files.make, draft),
    )
    printed = {name: Output(text, found.boot) for name, text in found.outputs.items()}
    before = msgspec.structs.replace(
        of_files.begun(recorded, desired.owned), services=of_services.lines, outputs=recorded.outputs | printed
    )
    later = msgspec.structs.replace(of_services.done(of_files.done(before)), payload=desired.payload)
    if not desired.payload:
        later = msgspec.structs.replace(later, prepared=None, outputs={})
    draft.actual = _later(found, install)
    return InstallDecision(install, before if install else later, later)


def _closed_ports(recorded: Installed, draft: PlanBuilder) -> tuple[int, ...]:
    """Those that were opened when Windows was prepared, where nothing of a payload is to be there any more."""
    if recorded.prepared is None or draft.desired.payload:
        return ()
    ports = recorded.prepared.preparation.ports
    draft.steps += [Step("windows", f"TCP port {port}", "remove", "no longer let in") for port in ports]
    return ports


def _later(found: ObservedState, install: Install) -> ObservedState:
    """The host once services were made and removed, and who depends on whom then."""
    dependencies = found.dependencies
    if dependencies is not None:
        gone = FoldedDict.of(install.delete)
        made = {one.name: one.depends for one in (*install.create, *install.configure)}
        dependencies = {name: needs for name, needs in dependencies.items() if name not in gone} | made
    return msgspec.structs.replace(after(found, install), dependencies=dependencies)


def after(actual: ObservedState, install: Install) -> ObservedState:
    """What a gather should find once `install` was carried out."""
    gone, cleared = FoldedDict.of(removal.path for removal in install.remove), FoldedDict.of(install.clear)
    there = FoldedDict(
        (path, digest) for path, digest in actual.files.items() if path not in gone and not within_one(path, cleared)
    )
    for removal in install.remove:
        if removal.back:
            there[removal.path] = CHANGED
    for placed in install.place:
        there[placed.path] = placed.recorded
    made = (*install.create, *install.configure)
    registry = actual.registry.apply(edit for one in made for edit in one.edits())
    registry = registry.apply(DeleteKey(rf"{SERVICES}\{name}") for name in install.delete).apply(install.edits)
    running = [present for present in actual.services if not listed(present.name, install.delete)]
    running += [Service(one.name, ServiceState.STOPPED) for one in install.create if actual.service(one.name) is None]
    return msgspec.structs.replace(
        actual,
        registry=registry,
        services=tuple(running),
        directories=files.remaining((*actual.directories, *install.directories), install.leave, install.clear),
        files=dict(there),
    )


def speaks_of(edit: Edit, install: Install) -> bool:
    """Whether an edit is about a service that `install` makes: it counts only once the service is there."""
    return any(within(edit.path, made.path) for made in (*install.create, *install.configure))


def reversal(install: Install, former: str, version: str, found: ObservedState, registry: Registry) -> Reversal:
    """What undoes `install` on a host that was as `found`; `registry` is what it will be. The ledger's lines are not in it."""
    configure, edits = list[Configuration](), list[Edit]()
    for made in install.configure:
        present = found.registry.key(made.path)
        if present is not None:
            configure.append(service.of_key(made.name, present))
            edits += _values(made, present, registry.value(made.path, ENVIRONMENT))
    return Reversal(former, version, tuple(configure), tuple(edits))


def ran(stop: Sequence[str], start: Sequence[str]) -> tuple[str, ...]:
    """The services that run before a change and have to run after it, in the order of their start."""
    stopped = FoldedDict.of(stop)
    return tuple(name for name in start if name in stopped)


def after_reversal(actual: ObservedState, edits: Sequence[Edit], install: Install) -> ObservedState:
    """What a gather should find once `install` was carried out and taken back; `edits` are what was imported before it."""
    if install.reversal is None:
        return actual
    registry = actual.registry.apply(edits).apply(install.reversal.edits).apply(install.reversal.lines)
    return ObservedState(
        registry.apply(DeleteKey(made.path) for made in install.create),
        actual.services,
        actual.files,
        actual.directories,
        boot=actual.boot,
        dependencies=actual.dependencies,
        computer_name=actual.computer_name,
    )


def _values(made: Configuration, present: Key, environment: Value | None) -> Iterator[Edit]:
    for name in made.values():
        value = present.get(name)
        if name == ENVIRONMENT:
            value = service.former_items(made, value, environment)
        yield SetValue(made.path, name, value) if value is not None else DeleteValue(made.path, name)
