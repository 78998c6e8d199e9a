"""What a worker's host should be, from the payload, the facts of its cluster, and the egress settings."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host import DesiredState, ObservedState, Preparation, Service, ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.ledger import read as read_ledger
from transom.windows.parts.installed import Installed
from transom.windows.parts.restarts import start_order
from transom.windows.parts.service import ENVIRONMENT, Configuration
from transom.windows.payload import BOOTSTRAP_KUBECONFIG, Payload, PayloadFile, PayloadService, registries
from transom.windows.payload.registries import ImageRegistry
from transom.windows.payload.variables import Unknown, at, filled, json_path, names
from transom.windows.planning import desired_settings
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import FoldedDict, listed, same, without
from transom.windows.registry.values import multi_sz


class Facts(msgspec.Struct, frozen=True):
    """What is known of a host's node and its cluster.

    `node_name` empty: the host's own name holds, in lower case. `rename`: the host gets the node's name as its own before the
    kubelet first starts. `variables` are cluster facts by name (`windows.payload.FACTS`); `node` is the Node as the API has it.
    `provided` are contents of files by the payload's name for them: a name that is missing leaves the file as it is, None
    removes it. A service that reads a provided file waits until it is there. `takes` are services that were there before and
    become ours: a person said so.
    """

    node_name: str = ""
    rename: bool = False
    node_ip: str = ""
    network: str = ""
    platform: str = ""
    variables: Mapping[str, str] = {}
    node: Mapping[str, Any] | None = None
    provided: Mapping[str, Secret | None] = {}
    registries: tuple[ImageRegistry, ...] = ()
    takes: tuple[str, ...] = ()

    def with_provided(self, name: str, content: Secret | None) -> "Facts":
        """The same with one more file."""
        return msgspec.structs.replace(self, provided={**self.provided, name: content})


class Artifact(msgspec.Struct, frozen=True):
    """A file of the payload's directory: its SHA-256 and its size in bytes."""

    sha256: str
    size: int


class Waiting(msgspec.Struct, frozen=True):
    """A service that cannot be there yet: the variable or file that it waits for, and where that comes from.

    `required`: whether the Node takes no pods meanwhile.
    """

    service: str
    needs: str
    why: str
    required: bool = True


class Desired(msgspec.Struct, frozen=True):
    """The state to reach, the contents of rendered files by SHA-256, and what waits."""

    state: DesiredState
    contents: Mapping[str, Secret] = {}
    waiting: tuple[Waiting, ...] = ()


def is_taken(takes: Iterable[str], name: str) -> bool:
    """Whether a service is one of those that become ours."""
    return listed(name, takes)


def node_name(facts: Facts, computer_name: str) -> str:
    """The name under which the kubelet registers: a Node's name is in lower case (RFC 1123)."""
    return (facts.node_name or computer_name).lower()


def scripts(payload: Payload, facts: Facts, recorded: Installed, boot: int | None) -> tuple[str, ...]:
    """The names of the variables whose scripts have to be run: those that are used here and were not asked in this boot."""
    used: set[str] = set()
    for service in payload.services:
        if service.when.holds(facts.network, facts.platform):
            used |= names(service.command).union(*map(names, service.environment.values()))
    for file in payload.files:
        if file.when.holds(facts.network, facts.platform):
            used |= names(file.content or "")
    known = {name for name, output in recorded.outputs.items() if output.boot == boot and output.text}
    here = (v for v in payload.variables if v.script and v.when.holds(facts.network, facts.platform))
    return tuple(v.name for v in here if v.name in used and v.name not in known)


def others(payload: Payload, egress: Egress) -> tuple[str, ...]:
    """Services of the settings of which the payload says nothing: they get proxy and trust where they are there."""
    return without(egress.windows.services, (service.name for service in payload.services))


def desired(
    payload: Payload, artifacts: Mapping[str, Artifact], facts: Facts, egress: Egress, actual: ObservedState
) -> Desired:
    """What the host of a worker should be, as far as known; `artifacts` are the payload's files by `PayloadFile.artifact`.

    What waits and is on the host already stays as it is there. Raises ledger.LedgerError.
    """
    return _Worker(payload, artifacts, facts, egress, actual).desired()


class _Worker:
    def __init__(
        self, payload: Payload, artifacts: Mapping[str, Artifact], facts: Facts, egress: Egress, actual: ObservedState
    ) -> None:
        self.payload, self.artifacts, self.facts, self.egress, self.actual = payload, artifacts, facts, egress, actual
        self.recorded = read_ledger(actual.registry).installed
        self.values = dict(self._values())
        self.files: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.readers: dict[str, tuple[str, ...]] = {}
        self.contents: dict[str, Secret] = {}
        self.waiting: dict[str, Waiting] = {}

    def desired(self) -> Desired:
        services = [s for s in self.payload.services if s.when.holds(self.facts.network, self.facts.platform)]
        adopted = FoldedDict.of(s.name for s in services if self._adopted(s.name))
        for file in self.payload.files:
            left = bool(file.services) and all(name in adopted for name in file.services)
            if file.when.holds(self.facts.network, self.facts.platform) and not left:
                self._file(file)
        self._registries()
        # who depends on a service that waits, waits as well
        depends = {service.name: service.depends_on for service in services}
        by_name = {s.name: s for s in sorted(services, key=lambda s: s.order)}
        ordered = [by_name[name] for name in start_order(by_name, depends)]
        edits = [edit for service in ordered for edit in self._service(service)]
        egress_services = (*(service.name for service in ordered if service.egress), *others(self.payload, self.egress))
        windows = msgspec.structs.replace(self.egress.windows, services=egress_services)
        base = desired_settings(msgspec.structs.replace(self.egress, windows=windows))
        registry = base.registry.apply(edits)
        running = [s for s in ordered if s.name not in self.waiting and s.start == "Automatic" and not self._adopted(s.name)]
        state = msgspec.structs.replace(
            base,
            registry=registry,
            services=tuple(Service(service.name, ServiceState.RUNNING) for service in running),
            files=self.files,
            sizes=self.sizes,
            readers=self.readers,
            trusting=egress_services,
            directories=self._directories(),
            owned=self.payload.directories,
            closed=self.payload.closed_directories,
            networks={service.name: service.hns_networks for service in ordered if service.hns_networks},
            takes=self.facts.takes,
            payload=self.payload.version,
            preparation=self._preparation(),
        )
        return Desired(state, self.contents, tuple(self.waiting.values()))

    def _values(self) -> Iterator[tuple[str, str]]:
        yield from self.facts.variables.items()
        facts = {"NODE_IP": self.facts.node_ip, "NETWORK": self.facts.network, "PLATFORM": self.facts.platform}
        yield from ((name, text) for name, text in facts.items() if text)
        if name := node_name(self.facts, self.actual.computer_name):
            yield "NODE_NAME", name
        for variable in self.payload.variables:
            if not variable.when.holds(self.facts.network, self.facts.platform):
                yield variable.name, ""
                continue
            if not variable.node and not variable.script:
                text = self.facts.variables.get(variable.name)
            elif variable.node:
                text = at(self.facts.node, json_path(variable.node)) if self.facts.node is not None else None
            else:
                kept = self.recorded.outputs.get(variable.name)
                text = self.actual.outputs.get(variable.name) or (kept.text if kept else None)
            if text or variable.default is not None:
                yield variable.name, text or variable.default or ""

    def _adopted(self, name: str) -> bool:
        if is_taken(self.facts.takes, name):
            return False
        own = self.recorded.service(name)
        return own.adopted if own else self.actual.service(name) is not None

    def _file(self, file: PayloadFile) -> None:
        restarted = file.services if file.restarts else ()
        if file.provided and (file.provided in self.facts.provided or file.content is None):
            self._provided(file, restarted)
        elif file.content is not None:
            try:
                self._content(file.path, restarted, Secret(filled(file.content, self.values)))
            except Unknown as unknown:
                self._leave(file, unknown.name)
        else:
            artifact = self.artifacts[file.artifact]
            self._put(file.path, restarted, artifact.sha256, artifact.size)

    def _provided(self, file: PayloadFile, restarted: tuple[str, ...]) -> None:
        if file.provided not in self.facts.provided:
            self._leave(file, file.provided)
            return
        content = self.facts.provided[file.provided]
        if content is None:
            return
        # a kubelet whose certificate still holds reads it not at all; one that may need it ends by itself, and starts again
        joined = file.provided == BOOTSTRAP_KUBECONFIG and self.facts.node is not None
        self._content(file.path, () if joined else restarted, content)

    def _leave(self, file: PayloadFile, needs: str) -> None:
        """A file that cannot be made now stays as it is on the host; where there is none, who reads it waits."""
        there = FoldedDict(self.actual.files).get(file.path)
        own = self.recorded.file(file.path)
        if there is not None and own is not None:
            self.files[file.path] = there
            return
        for name in file.services:
            self._wait(name, needs)

    def _content(self, path: str, services: tuple[str, ...], content: Secret) -> None:
        data = content.reveal().encode()
        sha256 = hashlib.sha256(data).hexdigest()
        self.contents[sha256] = content
        self._put(path, services, sha256, len(data))

    def _put(self, path: str, services: tuple[str, ...], sha256: str, size: int) -> None:
        self.files[path], self.sizes[path], self.readers[path] = sha256, size, services

    def _wait(self, service: str, needs: str) -> None:
        of_payload = self.payload.service(service)
        required = of_payload is None or of_payload.required
        self.waiting.setdefault(service, Waiting(service, needs, self._source(needs), required))

    def _source(self, needs: str) -> str:
        variable = next((v for v in self.payload.variables if v.name == needs), None)
        if variable is None:
            return "it is not known yet"
        if variable.script:
            said = self.actual.complaints.get(variable.name)
            return f"the script {variable.script} {f'failed: {said}' if said else 'printed nothing on the host'}"
        return f"the Node has no {variable.node}" if self.facts.node is not None else "there is no Node yet"

    def _registries(self) -> None:
        if not self.payload.mirrors:
            return
        for path, content in registries.files(self.facts.registries, self.payload.mirrors):
            # containerd reads the file at each pull (containerd: "docs/hosts.md"): nobody is restarted
            self._content(path, (), content)

    def _service(self, service: PayloadService) -> Iterator[SetValue]:
        for other in service.depends_on:
            if other in self.waiting:
                self._wait(service.name, self.waiting[other].needs)
        try:
            image = filled(service.command, self.values)
            environment = {name: filled(text, self.values) for name, text in service.environment.items()}
        except Unknown as unknown:
            self._wait(service.name, unknown.name)
        if service.name in self.waiting:
            own, key = self.recorded.service(service.name), self.actual.registry.key(rf"{SERVICES}\{service.name}")
            if own is None or own.adopted or key is None:
                return
            # it was made with what was known then, and stays so
            for named in (key.values or {}).values():
                if not same(named.name, ENVIRONMENT):
                    yield SetValue(key.path, named.name, named.value)
            return
        seconds = service.restart.delay_seconds if service.restart.policy == "Always" else None
        made = Configuration(
            service.name,
            image,
            tuple(other for other in service.depends_on),
            service.start == "Automatic",
            service.description or f"{service.name}, made by Transom",
            seconds,
        )
        for name, value in made.values().items():
            yield SetValue(made.path, name, value)
        if environment:
            yield SetValue(made.path, ENVIRONMENT, multi_sz(self._environment(service, environment)))

    def _environment(self, service: PayloadService, environment: Mapping[str, str]) -> Iterator[str]:
        proxied = service.egress and self.egress.windows.environment_scope in ("Services", "Both")
        variables = self.egress.variables if proxied else {}
        yield from (f"{name}={text}" for name, text in (variables | dict(environment)).items())

    def _directories(self) -> tuple[str, ...]:
        """Every directory that has to be there, those above included, parents first."""
        found: set[str] = set()
        named = (*self.payload.directories, *self.payload.closed_directories)
        for path in (*named, *(path.rpartition("\\")[0] for path in self.files)):
            parts = path.split("\\")
            found.update("\\".join(parts[:depth]) for depth in range(2, len(parts) + 1))
        return tuple(sorted(FoldedDict.of(sorted(found)), key=lambda path: (path.count("\\"), path)))

    def _preparation(self) -> Preparation:
        name = node_name(self.facts, self.actual.computer_name) if self.facts.rename else ""
        tops = {path.split("\\")[1]: "\\".join(path.split("\\")[:2]) for path in self.payload.directories}
        return Preparation(
            self.payload.containers_feature,
            "" if name == self.actual.computer_name.lower() and not self._renamed(name) else name,
            self.payload.ports,
            tuple(tops.values()),
        )

    def _renamed(self, name: str) -> bool:
        prepared = self.recorded.prepared
        return prepared is not None and prepared.preparation.name == name


def probed_paths(payload: Payload, facts: Facts, recorded: Installed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and the directories of a host whose state a plan needs."""
    files = [file.path for file in payload.files if file.when.holds(facts.network, facts.platform)]
    if payload.mirrors:
        files += [path for path, _ in registries.files(facts.registries, payload.mirrors)]
    files += list(recorded.files)
    directories: list[str] = list(recorded.directories)
    named = (*payload.directories, *payload.closed_directories)
    for path in (*named, *(path.rpartition("\\")[0] for path in files)):
        parts = path.split("\\")
        directories += ["\\".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
    return _once(files), _once(directories)


def _once(paths: list[str]) -> tuple[str, ...]:
    return tuple(FoldedDict.of(paths))
