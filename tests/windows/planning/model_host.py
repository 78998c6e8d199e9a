"""A Windows host as a model: registry, services with what each saw at its start, boots; passes that may be cut anywhere."""

from collections.abc import Callable, Iterator

import msgspec

from transom.hosts.steps.facts_parser import merge_states
from transom.windows.host.host_state import DesiredState, FileWrite, ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.parts import certificates
from transom.windows.parts.plan_builder import When
from transom.windows.planning import planner, queries
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import ValueType, build_sz

POLICY_STORES = tuple(map(certificates.get_policy_store_path, (certificates.ROOT, certificates.CA)))
STORES = tuple(map(certificates.get_store_path, (certificates.ROOT, certificates.CA)))
SALT = b"0123456789abcdef"


class Seen(msgspec.Struct, frozen=True):
    """What a service saw when it started: its environment, names in upper case, and the certificates that were trusted."""

    environment: dict[str, str]
    trusted: frozenset[str]


class Run(msgspec.Struct):
    """A service that exists. `meant`: whether it should run, if nobody but the administrator had a say."""

    meant: bool
    seen: Seen | None = None
    starts: int = 0


class Whole(msgspec.Struct, frozen=True):
    """A pass that came to its end: what it did, and what was left to do then."""

    done: Plan
    rest: Plan


class ModelHost:
    """`registry`, `services` and `files` are all there is; services in lower case."""

    def __init__(self, registry: Registry, needs: dict[str, tuple[str, ...]]) -> None:
        self.registry, self.needs = registry, needs
        self.services: dict[str, Run] = {}
        self.files: dict[str, bytes] = {}
        self.boot = 1
        self._booted_with = self._variables(ENVIRONMENT)

    def edit(self, *edits: Edit) -> None:
        self.registry = self.registry.apply_edits(edits)

    def start(self, name: str) -> None:
        run = self.services[name.casefold()]
        if run.seen is None:
            own = self.registry.find_value(rf"{SERVICES}\{name}", "Environment")
            items = own.to_texts() if own is not None and own.type == ValueType.MULTI_SZ else ()
            environment = self._booted_with | {n.upper(): v for n, _, v in (item.partition("=") for item in items)}
            run.seen, run.starts = Seen(environment, self.trusted()), run.starts + 1

    def stop(self, name: str) -> None:
        self.services[name.casefold()].seen = None

    def boot_again(self) -> None:
        self.boot += 1
        self._booted_with = self._variables(ENVIRONMENT)
        for name, run in self.services.items():
            run.seen = None
            if run.meant:
                self.start(name)

    def trusted(self) -> frozenset[str]:
        stores = (*STORES, *POLICY_STORES)
        return frozenset(
            key.path.rsplit("\\", 1)[1] for store in stores for key in self.registry.list_keys_below(store) if key.get("Blob")
        )

    def _variables(self, path: str) -> dict[str, str]:
        key = self.registry.find_key(path)
        named = (key.values or {}).values() if key else ()
        return {
            item.name.upper(): item.value.decode_text()
            for item in named
            if item.value.type in (ValueType.SZ, ValueType.EXPAND_SZ)
        }

    def gather(self, asked: Queries) -> ObservedState:
        """What was asked, and nothing else."""
        found = [self._exported(LEDGER)]
        found += [self._exported(ENVIRONMENT)] if asked.environment else []
        for store in asked.stores:
            if self.registry.find_key(store) is not None:
                names = self.registry.list_children(store)
                found.append(Registry([Key(store, None), *(Key(rf"{store}\{name}", None) for name in names)]))
        found += [self._exported(path) for path in asked.keys]
        services = []
        for name in asked.services:
            run = self.services.get(name.casefold())
            if run is not None:
                exported = self._exported(rf"{SERVICES}\{name}")
                found.append(exported)
                spelled = next(iter(exported)).path.rsplit("\\", 1)[1]
                services.append(Service(spelled, ServiceState.RUNNING if run.seen else ServiceState.STOPPED))
        dependencies = {name: self.needs.get(name, ()) for name in self.services} if asked.dependants else None
        boot = self.boot if asked.boot else None
        contents: dict[str, bytes | None] = {path: self.files[path] for path in asked.files if path in self.files}
        return ObservedState(Registry.merge(found), tuple(services), boot=boot, dependencies=dependencies, contents=contents)

    def _exported(self, path: str) -> Registry:
        key = self.registry.find_key(path)
        return Registry([key, *self.registry.list_keys_below(path)] if key else [])

    def run(self, desired: DesiredState, when: When, *, expected: bool, cut: int | None = None) -> Whole | None:
        """A pass as `hosts.passes.converge` makes it; None where it was cut, after `cut` of its actions."""
        first = queries.build_initial_queries(desired, change_expected=expected, boot=when != "now")
        asked, state = first, self.gather(first)
        planned = self._planned(desired, state, when)
        if wider := queries.build_follow_up_queries(asked, planned):
            asked = queries.merge_queries(first, wider)
            state = merge_states(state, self.gather(queries.subtract_queries(asked, first)))
            planned = self._planned(desired, state, when)
        for number, action in enumerate(self._actions(planned)):
            if number == cut:
                return None
            action()
        found = self.gather(queries.build_requery(asked, state, dependants=first.dependants))
        found = msgspec.structs.replace(found, dependencies=state.dependencies)
        return Whole(planned, self._planned(desired, found, when))

    def _planned(self, desired: DesiredState, state: ObservedState, when: When) -> Plan:
        return planner.plan(desired, state, SALT, when)

    def _actions(self, planned: Plan) -> Iterator[Callable[[], None]]:
        """The import, edit by edit, then what the job does."""
        for edit in planned.edits:
            yield lambda edit=edit: self.edit(edit)  # type: ignore[misc]
        for write in planned.writes:
            yield lambda write=write: self._write(write)  # type: ignore[misc]
            if write.ledger_line:
                yield lambda write=write: self.edit(DeleteValue(LEDGER, write.ledger_line))  # type: ignore[misc]
        skipped = set[str]()
        for name in planned.stop:
            yield lambda name=name: self._stop(name, skipped)  # type: ignore[misc]
        for name in planned.start:
            yield lambda name=name: self._start(name, skipped)  # type: ignore[misc]
        if planned.forget:
            yield lambda: self.edit(DeleteKey(LEDGER))

    def _write(self, write: FileWrite) -> None:
        size = len(self.files[write.path]) if write.path in self.files else None
        assert size == write.present_size, f"{write.path} is not the file that was read"
        if write.content is None:
            del self.files[write.path]
        else:
            self.files[write.path] = write.content

    def _stop(self, name: str, skipped: set[str]) -> None:
        run, note = self.services.get(name.casefold()), self.registry.find_value(RESTARTS, name)
        idle = run is not None and run.seen is None and note is not None and note.decode_text() == "check"
        if run is None or idle:
            self._settle(name)
            skipped.add(name)
            return
        self.edit(SetValue(RESTARTS, name, build_sz("running")))
        self.stop(name)

    def _start(self, name: str, skipped: set[str]) -> None:
        if name not in skipped:
            self.start(name)
            self._settle(name)

    def _settle(self, name: str) -> None:
        if self.registry.find_value(RESTARTS, name) is not None:
            self.edit(DeleteValue(RESTARTS, name))
