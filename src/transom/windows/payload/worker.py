"""What a worker's host should be, from the payload, the facts of its cluster, and the egress settings."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.host_state import DesiredState, ObservedState, Preparation, Service, ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.ledger import read as read_ledger
from transom.windows.parts.installed import InstalledPayload
from transom.windows.parts.restarts import sort_for_start
from transom.windows.parts.service import ENVIRONMENT, Configuration
from transom.windows.payload import registries
from transom.windows.payload.payload import BOOTSTRAP_KUBECONFIG, Payload, PayloadFile, PayloadService
from transom.windows.payload.registries import ImageRegistry
from transom.windows.payload.variables import UnknownVariable, find_value, parse_json_path, parse_variable_names, substitute
from transom.windows.planning.planner import build_desired_settings
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import FoldedDict, is_listed, is_same, without_names
from transom.windows.registry.values import build_multi_sz


class Facts(msgspec.Struct, frozen=True):
    """The known facts of a host's node and its cluster.

    If `node_name` is empty, the host's own name applies, in lower case. `rename`: the host gets the node's name as its own
    before the kubelet first starts. `variables` are cluster facts by name (`windows.payload.FACTS`); `node` is the Node as
    the API has it. `provided` are contents of files by the payload's name for them: a missing name leaves the file
    unchanged, None removes it. A service that reads a provided file waits until it exists. `takes` are existing services
    that a person has assigned to Transom.
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
        """Return a copy with one more provided file."""
        return msgspec.structs.replace(self, provided={**self.provided, name: content})


class Artifact(msgspec.Struct, frozen=True):
    """A file of the payload's directory: its SHA-256 and its size in bytes."""

    sha256: str
    size: int


class WaitingService(msgspec.Struct, frozen=True):
    """A service that cannot be there yet: the variable or file that it waits for, and where that comes from.

    `required`: whether the Node takes no pods meanwhile.
    """

    service: str
    needs: str
    why: str
    required: bool = True


class DesiredWorker(msgspec.Struct, frozen=True):
    """The state to reach, the contents of rendered files by SHA-256, and what waits."""

    state: DesiredState
    contents: Mapping[str, Secret] = {}
    waiting: tuple[WaitingService, ...] = ()


def should_take_over(service_names: Iterable[str], name: str) -> bool:
    """Return True if a service is one of those to take over."""
    return is_listed(name, service_names)


def format_node_name(facts: Facts, computer_name: str) -> str:
    """Return the name under which the kubelet registers: a Node's name is in lower case (RFC 1123)."""
    return (facts.node_name or computer_name).lower()


def list_pending_scripts(payload: Payload, facts: Facts, recorded: InstalledPayload, boot: int | None) -> tuple[str, ...]:
    """List the variables whose scripts must run: those that are used and have no output from this boot."""
    used: set[str] = set()
    for service in payload.services:
        if service.when.is_matching(facts.network, facts.platform):
            used |= parse_variable_names(service.command).union(*map(parse_variable_names, service.environment.values()))
    for file in payload.files:
        if file.when.is_matching(facts.network, facts.platform):
            used |= parse_variable_names(file.content or "")
    known = {name for name, output in recorded.outputs.items() if output.boot == boot and output.text}
    here = (v for v in payload.variables if v.script and v.when.is_matching(facts.network, facts.platform))
    return tuple(v.name for v in here if v.name in used and v.name not in known)


def list_other_services(payload: Payload, egress: Egress) -> tuple[str, ...]:
    """Services of the settings that are not in the payload: they get proxy and CAs if they exist."""
    return without_names(egress.windows.services, (service.name for service in payload.services))


def build_desired(
    payload: Payload, artifacts: Mapping[str, Artifact], facts: Facts, egress: Egress, actual: ObservedState
) -> DesiredWorker:
    """Build the desired state of a worker's host, as far as known; `artifacts` are keyed by `PayloadFile.artifact`.

    What waits and is on the host already stays unchanged. Raises ledger.LedgerError.
    """
    return _DesiredWorkerBuilder(payload, artifacts, facts, egress, actual).build_desired()


class _DesiredWorkerBuilder:
    def __init__(
        self, payload: Payload, artifacts: Mapping[str, Artifact], facts: Facts, egress: Egress, actual: ObservedState
    ) -> None:
        self.payload, self.artifacts, self.facts, self.egress, self.actual = payload, artifacts, facts, egress, actual
        self.recorded = read_ledger(actual.registry).installed
        self.values = dict(self._iter_variable_values())
        self.files: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.readers: dict[str, tuple[str, ...]] = {}
        self.contents: dict[str, Secret] = {}
        self.waiting: dict[str, WaitingService] = {}

    def build_desired(self) -> DesiredWorker:
        services = [s for s in self.payload.services if s.when.is_matching(self.facts.network, self.facts.platform)]
        adopted = FoldedDict.from_names(s.name for s in services if self._is_adopted(s.name))
        for file in self.payload.files:
            left = bool(file.services) and all(name in adopted for name in file.services)
            if file.when.is_matching(self.facts.network, self.facts.platform) and not left:
                self._add_file(file)
        self._add_registries()
        # who depends on a service that waits, waits as well
        depends = {service.name: service.depends_on for service in services}
        by_name = {s.name: s for s in sorted(services, key=lambda s: s.order)}
        ordered = [by_name[name] for name in sort_for_start(by_name, depends)]
        edits = [edit for service in ordered for edit in self._iter_service_values(service)]
        egress_services = (
            *(service.name for service in ordered if service.egress),
            *list_other_services(self.payload, self.egress),
        )
        windows = msgspec.structs.replace(self.egress.windows, services=egress_services)
        base = build_desired_settings(msgspec.structs.replace(self.egress, windows=windows))
        registry = base.registry.apply_edits(edits)
        running = [s for s in ordered if s.name not in self.waiting and s.start == "Automatic" and not self._is_adopted(s.name)]
        state = msgspec.structs.replace(
            base,
            registry=registry,
            services=tuple(Service(service.name, ServiceState.RUNNING) for service in running),
            files=self.files,
            sizes=self.sizes,
            readers=self.readers,
            trusting=egress_services,
            directories=self._list_directories(),
            owned=self.payload.directories,
            closed=self.payload.closed_directories,
            networks={service.name: service.hns_networks for service in ordered if service.hns_networks},
            takes=self.facts.takes,
            payload=self.payload.version,
            preparation=self._build_preparation(),
        )
        return DesiredWorker(state, self.contents, tuple(self.waiting.values()))

    def _iter_variable_values(self) -> Iterator[tuple[str, str]]:
        yield from self.facts.variables.items()
        facts = {"NODE_IP": self.facts.node_ip, "NETWORK": self.facts.network, "PLATFORM": self.facts.platform}
        yield from ((name, text) for name, text in facts.items() if text)
        if name := format_node_name(self.facts, self.actual.computer_name):
            yield "NODE_NAME", name
        for variable in self.payload.variables:
            if not variable.when.is_matching(self.facts.network, self.facts.platform):
                yield variable.name, ""
                continue
            if not variable.node and not variable.script:
                text = self.facts.variables.get(variable.name)
            elif variable.node:
                text = find_value(self.facts.node, parse_json_path(variable.node)) if self.facts.node is not None else None
            else:
                kept = self.recorded.outputs.get(variable.name)
                text = self.actual.outputs.get(variable.name) or (kept.text if kept else None)
            if text or variable.default is not None:
                yield variable.name, text or variable.default or ""

    def _is_adopted(self, name: str) -> bool:
        if should_take_over(self.facts.takes, name):
            return False
        own = self.recorded.find_service(name)
        return own.adopted if own else self.actual.find_service(name) is not None

    def _add_file(self, file: PayloadFile) -> None:
        restarted = file.services if file.restarts else ()
        if file.provided and (file.provided in self.facts.provided or file.content is None):
            self._add_provided(file, restarted)
        elif file.content is not None:
            try:
                self._add_content(file.path, restarted, Secret(substitute(file.content, self.values)))
            except UnknownVariable as unknown:
                self._keep_unrendered_file(file, unknown.name)
        else:
            artifact = self.artifacts[file.artifact]
            self._add_file_entry(file.path, restarted, artifact.sha256, artifact.size)

    def _add_provided(self, file: PayloadFile, restarted: tuple[str, ...]) -> None:
        if file.provided not in self.facts.provided:
            self._keep_unrendered_file(file, file.provided)
            return
        content = self.facts.provided[file.provided]
        if content is None:
            return
        # a kubelet whose certificate still holds does not read it; one that may need it exits, and starts again
        joined = file.provided == BOOTSTRAP_KUBECONFIG and self.facts.node is not None
        self._add_content(file.path, () if joined else restarted, content)

    def _keep_unrendered_file(self, file: PayloadFile, needs: str) -> None:
        """Keep a file that cannot be rendered yet unchanged on the host; if it is missing, its readers wait."""
        present_digest = FoldedDict(self.actual.files).get(file.path)
        own = self.recorded.find_file(file.path)
        if present_digest is not None and own is not None:
            self.files[file.path] = present_digest
            return
        for name in file.services:
            self._add_waiting_service(name, needs)

    def _add_content(self, path: str, services: tuple[str, ...], content: Secret) -> None:
        data = content.reveal().encode()
        sha256 = hashlib.sha256(data).hexdigest()
        self.contents[sha256] = content
        self._add_file_entry(path, services, sha256, len(data))

    def _add_file_entry(self, path: str, services: tuple[str, ...], sha256: str, size: int) -> None:
        self.files[path], self.sizes[path], self.readers[path] = sha256, size, services

    def _add_waiting_service(self, service: str, needs: str) -> None:
        of_payload = self.payload.find_service(service)
        required = of_payload is None or of_payload.required
        self.waiting.setdefault(service, WaitingService(service, needs, self._describe_missing_value(needs), required))

    def _describe_missing_value(self, needs: str) -> str:
        variable = next((v for v in self.payload.variables if v.name == needs), None)
        if variable is None:
            return "it is not known yet"
        if variable.script:
            complaint = self.actual.complaints.get(variable.name)
            return f"the script {variable.script} {f'failed: {complaint}' if complaint else 'printed nothing on the host'}"
        return f"the Node has no {variable.node}" if self.facts.node is not None else "the Node does not exist yet"

    def _add_registries(self) -> None:
        if not self.payload.mirrors:
            return
        for path, content in registries.iter_files(self.facts.registries, self.payload.mirrors):
            # containerd reads the file at each pull (containerd: "docs/hosts.md"): no service is restarted
            self._add_content(path, (), content)

    def _iter_service_values(self, service: PayloadService) -> Iterator[SetValue]:
        for other in service.depends_on:
            if other in self.waiting:
                self._add_waiting_service(service.name, self.waiting[other].needs)
        try:
            image = substitute(service.command, self.values)
            environment = {name: substitute(text, self.values) for name, text in service.environment.items()}
        except UnknownVariable as unknown:
            self._add_waiting_service(service.name, unknown.name)
        if service.name in self.waiting:
            own, key = self.recorded.find_service(service.name), self.actual.registry.find_key(rf"{SERVICES}\{service.name}")
            if own is None or own.adopted or key is None:
                return
            # it was made with what was known then, and stays so
            for named in (key.values or {}).values():
                if not is_same(named.name, ENVIRONMENT):
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
        for name, value in made.to_values().items():
            yield SetValue(made.path, name, value)
        if environment:
            yield SetValue(made.path, ENVIRONMENT, build_multi_sz(self._iter_environment(service, environment)))

    def _iter_environment(self, service: PayloadService, environment: Mapping[str, str]) -> Iterator[str]:
        proxied = service.egress and self.egress.windows.environment_scope in ("Services", "Both")
        variables = self.egress.variables if proxied else {}
        yield from (f"{name}={text}" for name, text in (variables | dict(environment)).items())

    def _list_directories(self) -> tuple[str, ...]:
        """List every required directory, including parents, parents first."""
        paths: set[str] = set()
        named = (*self.payload.directories, *self.payload.closed_directories)
        for path in (*named, *(path.rpartition("\\")[0] for path in self.files)):
            parts = path.split("\\")
            paths.update("\\".join(parts[:depth]) for depth in range(2, len(parts) + 1))
        return tuple(sorted(FoldedDict.from_names(sorted(paths)), key=lambda path: (path.count("\\"), path)))

    def _build_preparation(self) -> Preparation:
        name = format_node_name(self.facts, self.actual.computer_name) if self.facts.rename else ""
        tops = {path.split("\\")[1]: "\\".join(path.split("\\")[:2]) for path in self.payload.directories}
        return Preparation(
            self.payload.containers_feature,
            "" if name == self.actual.computer_name.lower() and not self._was_renamed_to(name) else name,
            self.payload.ports,
            tuple(tops.values()),
        )

    def _was_renamed_to(self, name: str) -> bool:
        prepared = self.recorded.prepared
        return prepared is not None and prepared.preparation.name == name


def list_probed_paths(payload: Payload, facts: Facts, recorded: InstalledPayload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the files and the directories of a host whose state a plan needs."""
    files = [file.path for file in payload.files if file.when.is_matching(facts.network, facts.platform)]
    if payload.mirrors:
        files += [path for path, _ in registries.iter_files(facts.registries, payload.mirrors)]
    files += list(recorded.files)
    directories: list[str] = list(recorded.directories)
    named = (*payload.directories, *payload.closed_directories)
    for path in (*named, *(path.rpartition("\\")[0] for path in files)):
        parts = path.split("\\")
        directories += ["\\".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
    return _remove_duplicates(files), _remove_duplicates(directories)


def _remove_duplicates(paths: list[str]) -> tuple[str, ...]:
    return tuple(FoldedDict.from_names(paths))
