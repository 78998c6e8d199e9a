"""The payload: what a Windows worker is made of, as data. Files, directories, services, and where their variables come from.

`payload.yaml` is read into these structs; `examine` says what is wrong with them. Texts (commands, contents, paths of services'
files) may use `${NAME}`: a variable of the payload, or a fact of the cluster or of the host (`windows.worker.Facts`).
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.windows.restarts import cycle
from transom.windows.variables import InvalidPath, json_path, names

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
)
"""Variables that need no entry: facts of the host and of the cluster."""
KUBELET_CA, BOOTSTRAP_KUBECONFIG = PROVIDED = ("kubelet-ca", "bootstrap-kubeconfig")
"""What Transom makes for each host: the CAs of those that may ask its kubelet, and how it joins."""

_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+.][A-Za-z0-9.+-]+)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,78}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# what a script may name without being read as something else, and no letter whose code page would matter
_PATH = re.compile(r"C:(?:\\[A-Za-z0-9_.(){}#~ +=@,-]+)+")
_COMMAND = re.compile(r"[\x20-\x7e]{1,8000}")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_SOURCE = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")

RestartPolicy = Literal["Always", "Never"]
Start = Literal["Automatic", "Manual"]


class Base(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all of them have in common: camel case outside, snake case inside."""


class When(Base, frozen=True):
    """Where an entry holds: the cluster's network and platform have to be among these; an empty list means any."""

    networks: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()

    def holds(self, network: str, platform: str) -> bool:
        """Whether the entry holds for a cluster."""
        return _among(network, self.networks) and _among(platform, self.platforms)


class Variable(Base, frozen=True):
    """A variable of the payload: from the Node (a JSONPath), the first word of a script's output on the host, or the cluster.

    Without `node` and `script` it is a fact that the cluster gives (`windows.worker.Facts.variables`), else its default.
    """

    name: str = ""
    node: str = ""
    script: str = ""
    """A `.cmd` or `.ps1` file of the payload's directory."""
    default: str | None = None


class PayloadFile(Base, frozen=True):
    """A file on the host, and where it comes from: one of `source`, `url`, `content`, `provided`."""

    path: str = ""
    source: str = ""
    url: str = ""
    sha256: str = ""
    content: str | None = None
    provided: str = ""
    services: tuple[str, ...] = ()
    """Who reads the file: they are restarted when it changes, and it is not sent when all of them were adopted."""
    when: When = When()


class Restart(Base, frozen=True):
    """What the service control manager does when the service fails."""

    policy: RestartPolicy = "Always"
    delay_seconds: int = 10


class PayloadService(Base, frozen=True):
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
    when: When = When()


class Payload(Base, frozen=True):
    """All of it. `networks` are those that the payload works with; an empty list means any."""

    api_version: str = ""
    kind: str = ""
    version: str = ""
    kubernetes: str = ""
    networks: tuple[str, ...] = ()
    containers_feature: bool = True
    ports: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()
    mirrors: str = ""
    """The directory in which containerd looks for `<registry>\\hosts.toml`; empty: mirrors are not configured."""
    variables: tuple[Variable, ...] = ()
    files: tuple[PayloadFile, ...] = ()
    services: tuple[PayloadService, ...] = ()

    def service(self, name: str) -> PayloadService | None:
        """The service of that name, compared without case."""
        return next((service for service in self.services if service.name.casefold() == name.casefold()), None)


def _among(text: str, choices: tuple[str, ...]) -> bool:
    return not choices or text.casefold() in (choice.casefold() for choice in choices)


def examine(payload: Payload, place: Place) -> tuple[Finding, ...]:
    """Everything that is wrong with a payload, each with the field."""
    return tuple(_findings(payload, place))


def _findings(payload: Payload, place: Place) -> Iterator[Finding]:
    if payload.api_version != API_VERSION:
        yield place.error(("apiVersion",), f"must be {API_VERSION}")
    if payload.kind != KIND:
        yield place.error(("kind",), f"must be {KIND}")
    for field, text in (("version", payload.version), ("kubernetes", payload.kubernetes)):
        if not _VERSION.fullmatch(text):
            yield place.error((field,), "must be a version, such as v1.36.3")
    for index, port in enumerate(payload.ports):
        if not 0 < port < 65536:
            yield place.error(("ports", index), "must be a port from 1 to 65535")
    for index, directory in enumerate(payload.directories):
        yield from _path(directory, ("directories", index), place)
    if payload.mirrors:
        yield from _path(payload.mirrors, ("mirrors",), place)
    yield from _variables(payload, place)
    yield from _files(payload, place)
    yield from _services(payload, place)


def _path(text: str, path: Path, place: Place) -> Iterator[Finding]:
    if not _PATH.fullmatch(text):
        yield place.error(
            path, r"must be a full path on drive C, such as C:\k\kubelet.exe, of letters, digits and _ . - ( ) { }"
        )
    elif any(_RESERVED.fullmatch(part) or part.strip(". ") != part for part in text.split("\\")[1:]):
        yield place.error(path, "has a part that Windows reserves, or that begins or ends with a dot or a blank")
    elif (text + "\\").casefold().startswith("c:\\programdata\\transom\\"):
        yield place.error(path, r"must not lie in C:\ProgramData\Transom, which is for a pass's own files")


def _variables(payload: Payload, place: Place) -> Iterator[Finding]:
    seen: set[str] = set(FACTS)
    for index, variable in enumerate(payload.variables):
        at: Path = ("variables", index)
        if not _VARIABLE.fullmatch(variable.name):
            yield place.error((*at, "name"), "must be made of capital letters, digits and _, and begin with a letter")
        elif variable.name in seen:
            yield place.error((*at, "name"), "is a fact of the cluster, or stands twice: choose another name")
        seen.add(variable.name)
        if variable.node and variable.script:
            yield place.error(at, "must have at most one of `node` (a JSONPath) and `script` (a file of the payload)")
        if variable.node:
            try:
                json_path(variable.node)
            except InvalidPath as error:
                yield place.error((*at, "node"), str(error))
        if variable.script and not (_SOURCE.fullmatch(variable.script) and variable.script.endswith((".cmd", ".ps1"))):
            yield place.error((*at, "script"), "must be a .cmd or .ps1 file of the payload's directory")


def _files(payload: Payload, place: Place) -> Iterator[Finding]:
    known = _known(payload)
    seen: dict[str, When] = {}
    for index, file in enumerate(payload.files):
        at: Path = ("files", index)
        yield from _path(file.path, (*at, "path"), place)
        folded = file.path.casefold()
        if folded in seen and not _apart(seen[folded], file.when):
            yield place.error((*at, "path"), "stands twice; with `when` that exclude each other it may")
        seen[folded] = file.when
        given = [bool(file.source), bool(file.url), file.content is not None, bool(file.provided)]
        if sum(given) != 1:
            yield place.error(at, "must have exactly one of `source`, `url`, `content` and `provided`")
        if file.provided and file.provided not in PROVIDED:
            yield place.error((*at, "provided"), f"{file.provided!r} is not provided: {' and '.join(PROVIDED)} are")
        if file.source and (not _SOURCE.fullmatch(file.source) or ".." in file.source.split("/")):
            yield place.error((*at, "source"), "must be a path below the payload's directory, with / between its parts")
        if file.url and not file.url.startswith("https://"):
            yield place.error((*at, "url"), "must be an https URL")
        elif file.url and "@" in file.url.split("/")[2]:
            yield place.error((*at, "url"), "must have no credentials: it stands in logs and conditions")
        if file.url and not file.sha256:
            yield place.error((*at, "sha256"), "must be there where `url` is")
        if file.sha256 and not _SHA256.fullmatch(file.sha256):
            yield place.error((*at, "sha256"), "must be 64 hex digits in lower case")
        for name in sorted(names(file.content or "") - known):
            yield place.error((*at, "content"), _unknown(name))
        for number, service in enumerate(file.services):
            if payload.service(service) is None:
                yield place.error((*at, "services", number), f"there is no service {service!r} in this payload")


def _services(payload: Payload, place: Place) -> Iterator[Finding]:
    known = _known(payload)
    seen: set[str] = set()
    for index, service in enumerate(payload.services):
        at: Path = ("services", index)
        if not _NAME.fullmatch(service.name):
            yield place.error((*at, "name"), "must be made of at most 80 letters, digits, `_`, `-` and `.`")
        if service.name.casefold() in seen:
            yield place.error((*at, "name"), "stands twice")
        seen.add(service.name.casefold())
        if not _COMMAND.fullmatch(service.command):
            yield place.error((*at, "command"), "must be one line of ASCII, with at most 8,000 characters")
        for name in sorted(names(service.command) - known):
            yield place.error((*at, "command"), _unknown(name))
        for number, other in enumerate(service.depends_on):
            if payload.service(other) is None and not _NAME.fullmatch(other):
                yield place.error((*at, "dependsOn", number), "must be the name of a service")
        for name, text in service.environment.items():
            if not _VARIABLE.fullmatch(name.upper()):
                yield place.error((*at, "environment", name), "must be a name of letters, digits and _")
            for variable in sorted(names(text) - known):
                yield place.error((*at, "environment", name), _unknown(variable))
        for number, network in enumerate(service.hns_networks):
            if not _NAME.fullmatch(network):
                yield place.error((*at, "hnsNetworks", number), "must be the name of a network: letters, digits, `_`, `-`, `.`")
        if not 0 <= service.restart.delay_seconds <= 3600:
            yield place.error((*at, "restart", "delaySeconds"), "must be 0 to 3600")
    depends = {service.name: service.depends_on for service in payload.services}
    if circle := cycle(depends):
        yield place.error(("services",), f"depend on each other in a circle: {' -> '.join(circle)}")


def _known(payload: Payload) -> set[str]:
    return {*FACTS, *(variable.name for variable in payload.variables)}


def _unknown(name: str) -> str:
    return f"uses ${{{name}}}, which is neither a variable of this payload nor one of {', '.join(FACTS)}"


def _apart(one: When, other: When) -> bool:
    """Whether no cluster is meant by both."""

    def exclude(mine: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
        return bool(mine and theirs) and not {m.casefold() for m in mine} & {t.casefold() for t in theirs}

    return exclude(one.networks, other.networks) or exclude(one.platforms, other.platforms)
