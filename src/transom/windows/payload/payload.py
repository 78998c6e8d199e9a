"""The payload: what a Windows worker is made of, as data. Files, directories, services, and where their variables come from.

`payload.yaml` is read into these structs; `examine` says what is wrong with them. Texts (commands, contents, paths of services'
files) may use `${NAME}`: a variable of the payload, or a fact of the cluster or of the host (`windows.worker.Facts`).
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.windows.parts.restarts import find_cycle
from transom.windows.payload.variables import InvalidPath, parse_json_path, parse_variable_names
from transom.windows.registry.names import FoldedDict, is_listed, is_same

API_VERSION = "transom.dev/v1alpha1"
KIND = "Payload"

FACTS = (
    "NODE_NAME",
    "NODE_IP",
    "NODE_LABELS",
    "NETWORK",
    "PLATFORM",
    "API_SERVER",
    "CLUSTER_DNS",
    "CLUSTER_DOMAIN",
    "CLUSTER_CIDR",
    "SERVICE_CIDR",
    "CLOUD_PROVIDER_ARGUMENT",
    "PAUSE_IMAGE",
    "VXLAN_PORT",
)
"""Variables that need no entry: facts of the host and of the cluster."""
KUBELET_CA = "kubelet-ca"
"""The CAs of those that may ask the kubelet."""
BOOTSTRAP_KUBECONFIG = "bootstrap-kubeconfig"
"""How the host joins."""
API_SERVER_CA = "api-server-ca"
"""The CAs by which the API server is known: on OpenShift others than those of its clients."""
NODE_MANAGER_KUBECONFIG = "node-manager-kubeconfig"
"""For the cloud provider's node manager, which has to take a taint from the Node: a kubelet may not (NodeRestriction)."""
EXPORTER_CERTIFICATE, EXPORTER_KEY = "exporter-certificate", "exporter-key"
"""By what the exporter of metrics shows who it is."""
CREDENTIAL_PROVIDERS = "credential-provider-config"
"""By what the kubelet logs in to a cloud's registries, as the machine configuration of OpenShift's workers has it."""
PROVIDED = (
    KUBELET_CA,
    BOOTSTRAP_KUBECONFIG,
    API_SERVER_CA,
    NODE_MANAGER_KUBECONFIG,
    EXPORTER_CERTIFICATE,
    EXPORTER_KEY,
    CREDENTIAL_PROVIDERS,
)
"""What Transom makes for each host."""
KUBELET_KEYS = r"C:\var\lib\kubelet\pki"
"""Where a kubelet keeps its keys unless `--cert-dir` says otherwise (kubernetes, cmd/kubelet/app/options)."""

_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+.][A-Za-z0-9.+-]+)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,78}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# what a script may name without being read as something else, and no letter whose code page would matter
_PATH = re.compile(r"C:(?:\\[A-Za-z0-9_.(){}#~ +=@,-]+)+")
_COMMAND = re.compile(r"[\x20-\x7e]{1,8000}")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_PASSES = ("c:\\windows\\transom\\", "c:\\programdata\\transom\\")
_SOURCE = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")
ARCHIVES = (".tar.gz", ".tgz", ".zip")
"""How the names of archives end that `member` may be of."""

RestartPolicy = Literal["Always", "Never"]
Start = Literal["Automatic", "Manual"]


class PayloadEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all of them have in common: camel case outside, snake case inside."""


class When(PayloadEntry, frozen=True):
    """Where an entry holds: the cluster's network and platform have to be among these; an empty list means any."""

    networks: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()

    def is_matching(self, network: str, platform: str) -> bool:
        """Return True if the entry applies to a cluster."""
        return _is_matching(network, self.networks) and _is_matching(platform, self.platforms)


class Variable(PayloadEntry, frozen=True):
    """A variable of the payload: from the Node (a JSONPath), the first word of a script's output on the host, or the cluster.

    Without `node` and `script` it is a fact that the cluster gives (`windows.worker.Facts.variables`), else its default. Where
    `when` does not hold it is the empty string.
    """

    name: str = ""
    node: str = ""
    script: str = ""
    """A `.cmd` or `.ps1` file of the payload's directory."""
    default: str | None = None
    when: When = When()


class PayloadFile(PayloadEntry, frozen=True):
    """A file on the host, and where it comes from: one of `source`, `url`, `content`, `provided`.

    With `provided`, `content` is what it holds where the cluster has none.
    """

    path: str = ""
    source: str = ""
    url: str = ""
    sha256: str = ""
    """Of the file that the URL gives."""
    checksums: str = ""
    """The URL of the publisher's own checksum file; `payload build` records its content in `payload.lock`."""
    member: str = ""
    """The file within the archive that the URL gives: `.tar.gz`, `.tgz` or `.zip`."""
    content: str | None = None
    provided: str = ""
    services: tuple[str, ...] = ()
    """Who reads the file: they wait for it, and it is not sent when all of them were adopted."""
    restarts: bool = True
    """Whether they restart when it changes; false if they reload it automatically."""
    when: When = When()

    @property
    def artifact(self) -> str:
        """The name of the file among the payload's artifacts; empty where it is made for each host."""
        return self.source or (f"{self.url}#{self.member}" if self.member else self.url)


class Restart(PayloadEntry, frozen=True):
    """What the service control manager does when the service fails."""

    policy: RestartPolicy = "Always"
    delay_seconds: int = 10


class PayloadService(PayloadEntry, frozen=True):
    """A service of the host."""

    name: str = ""
    description: str = ""
    command: str = ""
    depends_on: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    egress: bool = False
    """Whether it takes the proxy's variables, and is restarted when the trusted certificates change."""
    restart: Restart = Restart()
    start: Start = "Automatic"
    hns_networks: tuple[str, ...] = ()
    """The networks of the Host Networking Service that it makes: removed with it."""
    order: int = 0
    timeout_seconds: int | None = None
    """Seconds that it may take to stop, and to start; None: `--service-timeout`."""
    required: bool = True
    """Whether the Node takes no pods before this has run."""
    when: When = When()


class Payload(PayloadEntry, frozen=True):
    """All of it. `networks` are those that the payload works with; an empty list means any."""

    api_version: str = ""
    kind: str = ""
    version: str = ""
    kubernetes: str = ""
    networks: tuple[str, ...] = ()
    containers_feature: bool = True
    ports: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    """Directories that hold keys, in addition to the well-known ones: of the bootstrap kubeconfig, and of the kubelet."""
    mirrors: str = ""
    """The directory in which containerd looks for `<registry>\\hosts.toml`; empty: mirrors are not configured."""
    variables: tuple[Variable, ...] = ()
    files: tuple[PayloadFile, ...] = ()
    services: tuple[PayloadService, ...] = ()

    @property
    def closed_directories(self) -> tuple[str, ...]:
        """Those for SYSTEM and Administrators alone: those that the payload names, where the bootstrap kubeconfig lies, and
        where a kubelet keeps its keys by default.
        """
        joining = [file.path.rpartition("\\")[0] for file in self.files if file.provided == BOOTSTRAP_KUBECONFIG]
        has_certificate_directory = any("--cert-dir" in service.command for service in self.services)
        kubelet = (KUBELET_KEYS,) if joining and not has_certificate_directory else ()
        return tuple(FoldedDict.from_names((*joining, *kubelet, *self.closed)))

    def list_readers(self, *provided: str) -> tuple[str, ...]:
        """List the services that read files that the cluster provides, by the payload's names for them."""
        return tuple(dict.fromkeys(name for file in self.files if file.provided in provided for name in file.services))

    def find_service(self, name: str) -> PayloadService | None:
        """Return the service with that name, compared without case, or None."""
        return next((service for service in self.services if is_same(service.name, name)), None)


def _is_matching(text: str, choices: tuple[str, ...]) -> bool:
    return not choices or is_listed(text, choices)


def examine_payload(payload: Payload, place: Place) -> tuple[Finding, ...]:
    """Everything that is wrong with a payload, each with the field."""
    return tuple(_iter_findings(payload, place))


def _iter_findings(payload: Payload, place: Place) -> Iterator[Finding]:
    if payload.api_version != API_VERSION:
        yield place.build_error(("apiVersion",), f"must be {API_VERSION}")
    if payload.kind != KIND:
        yield place.build_error(("kind",), f"must be {KIND}")
    for field, text in (("version", payload.version), ("kubernetes", payload.kubernetes)):
        if not _VERSION.fullmatch(text):
            yield place.build_error((field,), "must be a version, such as v1.36.3")
    for index, port in enumerate(payload.ports):
        if not 0 < port < 65536:
            yield place.build_error(("ports", index), "must be a port from 1 to 65535")
    for index, directory in enumerate(payload.directories):
        yield from _check_path(directory, ("directories", index), place)
    for index, directory in enumerate(payload.closed):
        yield from _check_path(directory, ("closed", index), place)
    if payload.mirrors:
        yield from _check_path(payload.mirrors, ("mirrors",), place)
    yield from _check_variables(payload, place)
    yield from _check_files(payload, place)
    yield from _check_services(payload, place)


def _check_path(text: str, path: Path, place: Place) -> Iterator[Finding]:
    if not _PATH.fullmatch(text):
        yield place.build_error(
            path, r"must be a full path on drive C, such as C:\k\kubelet.exe, of letters, digits and _ . - ( ) { }"
        )
    elif any(_RESERVED.fullmatch(part) or part.strip(". ") != part for part in text.split("\\")[1:]):
        yield place.build_error(path, "has a part that Windows reserves, or that begins or ends with a dot or a space")
    elif (text + "\\").casefold().startswith(_PASSES):
        yield place.build_error(path, "must not lie in a directory that is for the files of passes")


def _check_variables(payload: Payload, place: Place) -> Iterator[Finding]:
    seen: set[str] = set(FACTS)
    for index, variable in enumerate(payload.variables):
        at: Path = ("variables", index)
        if not _VARIABLE.fullmatch(variable.name):
            yield place.build_error((*at, "name"), "must be made of capital letters, digits and _, and begin with a letter")
        elif variable.name in seen:
            yield place.build_error((*at, "name"), "is a fact of the cluster, or a duplicate: choose another name")
        seen.add(variable.name)
        if variable.node and variable.script:
            yield place.build_error(at, "must have at most one of `node` (a JSONPath) and `script` (a file of the payload)")
        if variable.node:
            try:
                parse_json_path(variable.node)
            except InvalidPath as error:
                yield place.build_error((*at, "node"), str(error))
        if variable.script and not (_SOURCE.fullmatch(variable.script) and variable.script.endswith((".cmd", ".ps1"))):
            yield place.build_error((*at, "script"), "must be a .cmd or .ps1 file of the payload's directory")


def _check_files(payload: Payload, place: Place) -> Iterator[Finding]:
    known = _list_known_variables(payload)
    seen = FoldedDict[When]()
    for index, file in enumerate(payload.files):
        at: Path = ("files", index)
        yield from _check_path(file.path, (*at, "path"), place)
        if file.path in seen and not _is_disjoint(seen[file.path], file.when):
            yield place.build_error((*at, "path"), "duplicate path; allowed only with `when` that exclude each other")
        seen[file.path] = file.when
        sources = [bool(file.source), bool(file.url), file.content is not None, bool(file.provided)]
        if sum(sources) != 1 and not (sum(sources) == 2 and file.provided and file.content is not None):
            yield place.build_error(
                at, "must have exactly one of `source`, `url`, `content` and `provided`, or both `content` and `provided`"
            )
        if file.provided and file.provided not in PROVIDED:
            yield place.build_error((*at, "provided"), f"{file.provided!r} is not provided: {', '.join(PROVIDED)} are")
        if file.source and (not _SOURCE.fullmatch(file.source) or ".." in file.source.split("/")):
            yield place.build_error((*at, "source"), "must be a path below the payload's directory, with / between its parts")
        yield from _check_downloaded_file(file, at, place)
        if file.sha256 and not _SHA256.fullmatch(file.sha256):
            yield place.build_error((*at, "sha256"), "must be 64 hex digits in lower case")
        for name in sorted(parse_variable_names(file.content or "") - known):
            yield place.build_error((*at, "content"), _format_unknown_variable(name))
        for number, service in enumerate(file.services):
            if payload.find_service(service) is None:
                yield place.build_error((*at, "services", number), f"this payload has no service {service!r}")


def _check_downloaded_file(file: PayloadFile, at: Path, place: Place) -> Iterator[Finding]:
    """Check a file from a publisher's server and yield its findings."""
    for field, url in (("url", file.url), ("checksums", file.checksums)):
        if url and not url.startswith("https://"):
            yield place.build_error((*at, field), "must be an https URL")
        elif url and "@" in url.split("/")[2]:
            yield place.build_error((*at, field), "must not have credentials: logs and conditions show it")
        elif "#" in url:
            yield place.build_error((*at, field), "must have no fragment")
    if file.url and not file.sha256 and not file.checksums:
        yield place.build_error(
            (*at, "sha256"), "must be there where `url` is, or `checksums`, the publisher's own checksum file"
        )
    if (file.checksums or file.member) and not file.url:
        yield place.build_error(at, "has `checksums` or `member`, which are of a `url`")
    if file.member and not file.url.endswith(ARCHIVES):
        yield place.build_error((*at, "member"), f"must be of an archive whose name ends with {' or '.join(ARCHIVES)}")
    if file.member and (not _SOURCE.fullmatch(file.member) or ".." in file.member.split("/")):
        yield place.build_error((*at, "member"), "must be a path within the archive, with / between its parts")


def _check_services(payload: Payload, place: Place) -> Iterator[Finding]:
    known = _list_known_variables(payload)
    seen = FoldedDict.from_names(())
    for index, service in enumerate(payload.services):
        at: Path = ("services", index)
        if not _NAME.fullmatch(service.name):
            yield place.build_error((*at, "name"), "must contain only letters, digits, `_`, `-` and `.`, at most 80 characters")
        if service.name in seen:
            yield place.build_error((*at, "name"), "duplicate name")
        seen[service.name] = None
        if not _COMMAND.fullmatch(service.command):
            yield place.build_error((*at, "command"), "must be one line of ASCII, with at most 8,000 characters")
        for name in sorted(parse_variable_names(service.command) - known):
            yield place.build_error((*at, "command"), _format_unknown_variable(name))
        for number, other in enumerate(service.depends_on):
            if payload.find_service(other) is None and not _NAME.fullmatch(other):
                yield place.build_error((*at, "dependsOn", number), "must be the name of a service")
        for name, text in service.environment.items():
            if not _VARIABLE.fullmatch(name.upper()):
                yield place.build_error((*at, "environment", name), "must be a name of letters, digits and _")
            for variable in sorted(parse_variable_names(text) - known):
                yield place.build_error((*at, "environment", name), _format_unknown_variable(variable))
        for number, network in enumerate(service.hns_networks):
            if not _NAME.fullmatch(network):
                yield place.build_error(
                    (*at, "hnsNetworks", number), "must be the name of a network: letters, digits, `_`, `-`, `.`"
                )
        if not 0 <= service.restart.delay_seconds <= 3600:
            yield place.build_error((*at, "restart", "delaySeconds"), "must be 0 to 3600")
        if service.timeout_seconds is not None and not 1 <= service.timeout_seconds <= 3600:
            yield place.build_error((*at, "timeoutSeconds"), "must be 1 to 3600")
    depends = {service.name: service.depends_on for service in payload.services}
    if circle := find_cycle(depends):
        yield place.build_error(("services",), f"circular dependency: {' -> '.join(circle)}")
        return
    yield from _check_node_dependencies(payload, place)


def _check_node_dependencies(payload: Payload, place: Place) -> Iterator[Finding]:
    """Check that the services that create the Node do not wait for it."""
    of_node = {variable.name for variable in payload.variables if variable.node and variable.default is None}
    readers = FoldedDict.from_names(payload.list_readers(BOOTSTRAP_KUBECONFIG))
    queue: list[tuple[PayloadService, tuple[str, ...]]] = [
        (service, (service.name,)) for service in payload.services if service.name in readers
    ]
    seen: set[str] = set()
    for service, way in queue:
        if service.name in seen:
            continue
        seen.add(service.name)
        at: Path = ("services", payload.services.index(service))
        reason = "joins the host" if len(way) == 1 else f"is needed by {way[0]}, which joins the host"
        texts = {"command": service.command, **{f"environment.{n}": text for n, text in service.environment.items()}}
        for field, text in texts.items():
            for name in sorted(parse_variable_names(text) & of_node):
                yield place.build_error(
                    (*at, *field.split(".", 1)), f"waits for the Node by ${{{name}}}, and {reason}: it never starts"
                )
        for index, file in enumerate(payload.files):
            if is_listed(service.name, file.services):
                for name in sorted(parse_variable_names(file.content or "") & of_node):
                    message = f"waits for the Node by ${{{name}}}; {service.name} reads it, and {reason}: it never starts"
                    yield place.build_error(("files", index, "content"), message)
        needed = (payload.find_service(other) for other in service.depends_on)
        queue += [(other, (*way, other.name)) for other in needed if other is not None]


def _list_known_variables(payload: Payload) -> set[str]:
    return {*FACTS, *(variable.name for variable in payload.variables)}


def _format_unknown_variable(name: str) -> str:
    return f"uses ${{{name}}}, which is neither a variable of this payload nor one of {', '.join(FACTS)}"


def _is_disjoint(first: When, other: When) -> bool:
    """Return True if no cluster matches both conditions."""

    def exclude(mine: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
        return bool(mine and theirs) and not any(is_listed(item, theirs) for item in mine)

    return exclude(first.networks, other.networks) or exclude(first.platforms, other.platforms)
