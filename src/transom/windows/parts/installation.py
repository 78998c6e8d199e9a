"""What of a payload has to be put on a host: directories, files, services, and Windows made ready for them.

The ledger lists items before they are created, and until their deletion was observed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from transom.windows.host.host_state import CHANGED, ObservedState, Preparation, Service, ServiceState, Step
from transom.windows.host.queries import SERVICES
from transom.windows.parts import files, service, services
from transom.windows.parts.files import FilePlace, FileRemoval
from transom.windows.parts.installed import InstalledPayload, Output
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.service import ENVIRONMENT, Configuration
from transom.windows.registry.edits import DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, is_listed, is_within, is_within_any
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import Value

DRIFT: Final[Mapping[str, tuple[str, ...]]] = {"service": services.DRIFT, "file": files.DRIFT}
"""The beginning of the reasons of steps, by kind, that no change of settings requires."""


class Reversal(msgspec.Struct, frozen=True):
    """The changes that restore a host to its state before an installation, in addition to the installation itself.

    `former` and `version` are those of the payload: the one that ran, and the one that is installed. Services of
    `configure` get the configuration that they had, `edits` their registry values, `lines` of the ledger are imported when
    all went well.
    """

    former: str
    version: str
    configure: tuple[Configuration, ...] = ()
    edits: tuple[Edit, ...] = ()
    lines: tuple[Edit, ...] = ()


class Install(msgspec.Struct, frozen=True):
    """The changes between the stops and the starts of a plan, and the removals after they succeed.

    `directories` are created, parents first; those of `leave` are removed if they are empty. Services of `configure` exist
    and get another configuration. `edits` are imported after services were created, `lines` of the ledger if nothing
    failed. With `reversal`, all of it is undone if a service that ran before does not run afterwards. Removals (`delete`,
    `remove`, `leave`) happen when the services run.
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
    """TCP ports that the firewall no longer allows."""
    edits: tuple[Edit, ...] = ()
    lines: tuple[Edit, ...] = ()
    reversal: Reversal | None = None
    sweep: tuple[str, ...] = ()
    """Directories with programs that were in use when they were replaced: deleted once they are not in use any more."""
    closed: tuple[str, ...] = ()
    """Directories of the payload that hold keys: those of them that are made are for SYSTEM and Administrators alone."""
    found: tuple[str, ...] = ()
    """Existing directories that another user may have created: administrators must own them, and they must not be links."""

    def __bool__(self) -> bool:
        """Return True if there is anything to do."""
        return msgspec.structs.replace(self, sweep=(), closed=(), found=()) != Install()


class InstallDecision(msgspec.Struct, frozen=True):
    """What follows from a payload: what is installed, and the ledger before and after."""

    install: Install
    before: InstalledPayload
    after: InstalledPayload
    prepare: Preparation | None = None
    boot_pending: bool = False


def plan_installation(recorded: InstalledPayload, draft: PlanBuilder) -> InstallDecision:
    """Plan the changes of services, files and directories; none if the desired state has no payload.

    `desired.files` has SHA-256; `draft.observed.files` and the ledger have their digests under the host's salt, since a
    file may hold a password. A file that already has the desired content is not changed. `draft.actual` becomes the host's
    state after services were created and removed.
    """
    desired, observed = draft.desired, draft.observed
    unchanged = InstallDecision(Install(), recorded, recorded)
    if desired.payload is None:
        return unchanged
    preparation = desired.preparation
    if preparation is not None and (recorded.prepared is None or recorded.prepared.preparation != preparation):
        draft.steps.append(Step("windows", "Windows", "add", "has to be prepared for containers and for this node"))
        return msgspec.structs.replace(unchanged, prepare=preparation)
    if recorded.prepared is not None and recorded.prepared.boot is not None and recorded.prepared.boot == observed.boot:
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
        ports=_plan_closed_ports(recorded, draft),
        sweep=files.list_program_directories(recorded, of_files.clear),
        closed=desired.closed,
        found=files.list_unverified_directories(recorded, of_files.make, draft),
    )
    printed = {name: Output(text, observed.boot) for name, text in observed.outputs.items()}
    before = msgspec.structs.replace(
        of_files.build_interim_entry(recorded, desired.owned), services=of_services.lines, outputs=recorded.outputs | printed
    )
    later = msgspec.structs.replace(of_services.build_final_entry(of_files.build_final_entry(before)), payload=desired.payload)
    if not desired.payload:
        later = msgspec.structs.replace(later, prepared=None, outputs={})
    draft.actual = _predict_services(observed, install)
    return InstallDecision(install, before if install else later, later)


def _plan_closed_ports(recorded: InstalledPayload, draft: PlanBuilder) -> tuple[int, ...]:
    """Plan to close the ports that were opened when Windows was prepared, if the payload is removed."""
    if recorded.prepared is None or draft.desired.payload:
        return ()
    ports = recorded.prepared.preparation.ports
    draft.steps += [Step("windows", f"TCP port {port}", "remove", "no longer allowed") for port in ports]
    return ports


def _predict_services(observed: ObservedState, install: Install) -> ObservedState:
    """Predict the host after services were created and removed, with the dependencies then."""
    dependencies = observed.dependencies
    if dependencies is not None:
        deleted = FoldedDict.from_names(install.delete)
        made = {item.name: item.depends for item in (*install.create, *install.configure)}
        dependencies = {name: needs for name, needs in dependencies.items() if name not in deleted} | made
    return msgspec.structs.replace(predict_install(observed, install), dependencies=dependencies)


def predict_install(actual: ObservedState, install: Install) -> ObservedState:
    """Predict what a gather reads after `install` was applied."""
    removed_paths, cleared = (
        FoldedDict.from_names(removal.path for removal in install.remove),
        FoldedDict.from_names(install.clear),
    )
    digests = FoldedDict(
        (path, digest)
        for path, digest in actual.files.items()
        if path not in removed_paths and not is_within_any(path, cleared)
    )
    for removal in install.remove:
        if removal.back:
            digests[removal.path] = CHANGED
    for placed in install.place:
        digests[placed.path] = placed.recorded
    made = (*install.create, *install.configure)
    registry = actual.registry.apply_edits(edit for item in made for edit in item.to_edits())
    registry = registry.apply_edits(DeleteKey(rf"{SERVICES}\{name}") for name in install.delete).apply_edits(install.edits)
    running = [present for present in actual.services if not is_listed(present.name, install.delete)]
    running += [Service(item.name, ServiceState.STOPPED) for item in install.create if actual.find_service(item.name) is None]
    return msgspec.structs.replace(
        actual,
        registry=registry,
        services=tuple(running),
        directories=files.list_remaining_directories((*actual.directories, *install.directories), install.leave, install.clear),
        files=dict(digests),
    )


def is_install_edit(edit: Edit, install: Install) -> bool:
    """Return True if an edit is for a service that `install` creates: it applies only once the service exists."""
    return any(is_within(edit.path, made.path) for made in (*install.create, *install.configure))


def build_reversal(install: Install, former: str, version: str, observed: ObservedState, registry: Registry) -> Reversal:
    """Build what undoes `install` on a host that was as observed, without the ledger's lines.

    `registry` is the host's registry after the change.
    """
    configure, edits = list[Configuration](), list[Edit]()
    for made in install.configure:
        present = observed.registry.find_key(made.path)
        if present is not None:
            configure.append(service.parse_configuration(made.name, present))
            edits += _iter_restoring_edits(made, present, registry.find_value(made.path, ENVIRONMENT))
    return Reversal(former, version, tuple(configure), tuple(edits))


def list_restarted_services(stop: Sequence[str], start: Sequence[str]) -> tuple[str, ...]:
    """List the services that run before a change and must run after it, in start order."""
    stopped = FoldedDict.from_names(stop)
    return tuple(name for name in start if name in stopped)


def predict_reversal(actual: ObservedState, edits: Sequence[Edit], install: Install) -> ObservedState:
    """Predict what a gather reads after `install` was applied and undone; `edits` were imported before it."""
    if install.reversal is None:
        return actual
    registry = actual.registry.apply_edits(edits).apply_edits(install.reversal.edits).apply_edits(install.reversal.lines)
    return ObservedState(
        registry.apply_edits(DeleteKey(made.path) for made in install.create),
        actual.services,
        actual.files,
        actual.directories,
        boot=actual.boot,
        dependencies=actual.dependencies,
        computer_name=actual.computer_name,
    )


def _iter_restoring_edits(made: Configuration, present: Key, environment: Value | None) -> Iterator[Edit]:
    for name in made.to_values():
        value = present.get(name)
        if name == ENVIRONMENT:
            value = service.restore_environment(made, value, environment)
        yield SetValue(made.path, name, value) if value is not None else DeleteValue(made.path, name)
