"""What a gather script wrote, as an ObservedState."""

import re
from collections.abc import Iterator, Sequence
from typing import Self

import msgspec

from transom.hosts.errors import ScriptFailed, Unreadable
from transom.hosts.scripts.results import IndexEntry
from transom.windows.host.host_state import ObservedState, Service, ServiceState
from transom.windows.host.queries import BOOT, ENVIRONMENT, LEDGER, SERVICES, Queries
from transom.windows.ledger import MOST_ENTRIES
from transom.windows.nodes.windows_instance import parse_ip_address
from transom.windows.registry import reg
from transom.windows.registry import reg as query
from transom.windows.registry.names import FoldedDict
from transom.windows.registry.registry import Key, Registry

LIMIT = 8 * 2**20
"""Bytes of one answer. A host needs some ten thousand; one with hundreds of certificates a million."""
_LINES = 200_000
_ENTRIES = 50_000
"""Lines of one answer that begin a new item: keys, values, services."""
_SERVICES = 1_000
"""Services with DependOnService; Windows has some 300."""
_LEDGER_LIMIT = 2 * 2**20
"""Bytes of an exported ledger: it has one line for each of Transom's items, and the value that it replaced."""
_HEAD = 2
"""Lines of an export in addition to its keys and values."""
_RESULT_LIMIT = 32768
_COMPUTER_LIMIT = 512
"""Letters of a computer's name and of SSH_CONNECTION; a DNS name has 255 at most (RFC 1035, 2.3.4)."""
_KINDS = "|".join(kind for kind in IndexEntry if kind is not IndexEntry.END)
_NAME = r"[a-z]{1,20}(?:-[0-9]{1,10})?(?:\.[a-z]{1,10})?"
_ENTRY = re.compile(rf"(?:({_KINDS}) ({_NAME})(?: ([0-9]{{1,10}}))?|{IndexEntry.END})\r?\n".encode())
# texts of reg.exe are translated; where they are not English, a key without permission counts as missing
_DENIED = re.compile(rb"denied", re.IGNORECASE)
_NO_SUCH_SERVICE = re.compile(rb"(?<![0-9])1060(?![0-9])")
_VERSION = re.compile(rb"(?<![0-9])[0-9]{1,10}\.[0-9]{1,10}\.[0-9]{1,10}(?:\.[0-9]{1,10})?(?![0-9])")
_AFTER_COLON = re.compile(rb":[ \t]*+([0-9]{1,10})(?![0-9])")


class GatheredFacts(msgspec.Struct, frozen=True):
    """The files that the script made, by name, and the names of questions without an answer."""

    parts: dict[str, bytes]
    missing: frozenset[str]
    absent: frozenset[str]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the parts of a gathered file. Raises ScriptFailed, and Unreadable if it is larger than answers can be."""
        if len(data) > LIMIT or data.count(b"\n") > _LINES or _count_lines(data) > _ENTRIES:
            raise Unreadable(
                f"the host's answers are larger than {LIMIT // 2**20} MiB, {_LINES:,} lines or {_ENTRIES:,} keys and values; "
                "there is something wrong with its registry"
            )
        sizes: list[tuple[str, int]] = []
        unanswered: dict[str, set[str]] = {IndexEntry.MISSING: set(), IndexEntry.ABSENT: set()}
        position = 0
        ended = False
        while not ended and (entry := _ENTRY.match(data, position)):
            position = entry.end()
            if entry[1] is None:
                ended = True
                continue
            kind, name = entry[1].decode(), entry[2].decode()
            if kind == IndexEntry.PART:
                sizes.append((name, int(entry[3] or 0)))
            else:
                unanswered[kind].add(name)
        parts = {}
        for name, size in sizes:
            parts[name] = data[position : position + size]
            position += size
        if not ended or position != len(data):
            raise ScriptFailed("what the host gathered is not complete (is its disk full?)")
        return cls(parts, frozenset(unanswered[IndexEntry.MISSING]), frozenset(unanswered[IndexEntry.ABSENT]))

    def parse_state(self, questions: Queries) -> ObservedState:
        """Parse the state that a gather of `questions` observed. Raises Unreadable, ScriptFailed."""
        written = self.parts.get("ledger.reg", b"")
        if len(written) > _LEDGER_LIMIT:
            raise Unreadable(f"{LEDGER} is larger than {_LEDGER_LIMIT // 2**20} MiB; nothing that Transom writes is")
        # before it is parsed, which costs; each key has an empty line before it
        if _count_lines(written) > 2 * MOST_ENTRIES + _HEAD:
            raise Unreadable(f"{LEDGER} has more than {MOST_ENTRIES:,} keys and values; Transom writes fewer")
        registries = [self.parse_export("ledger", LEDGER) or Registry()]
        if questions.environment:
            environment = self.parse_export("environment", ENVIRONMENT)
            if environment is None:
                raise Unreadable(f"{ENVIRONMENT} cannot be read")
            registries.append(environment)
        walked = set[str]()
        for number, (place, stores) in enumerate(questions.walks.items()):
            text = self.parts.get(f"walk-{number}.txt")
            if text is not None:
                registries.append(_parse_store_walk(text, place, stores))
                walked.update(stores)
        for number, path in enumerate(questions.stores):
            if path in walked:
                continue
            registries.append(_parse_store(self.get_query_output(f"store-{number}", path), path))
        for number, path in enumerate(questions.keys):
            registries.append(self.parse_export(f"key-{number}", path) or Registry())
        contents = {path: data for number, path in enumerate(questions.files) for data in self._read_file(number, path)}
        services = []
        for number, name in enumerate(questions.services):
            state = _parse_service_state(self, f"service-{number}", name)
            if state is None:
                continue
            path = rf"{SERVICES}\{name}"
            exported = self.parse_export(f"service-{number}", path)
            key = exported.find_key(path) if exported else None
            if exported is None or key is None:
                raise Unreadable(f"{path} cannot be read, but the service exists")
            registries.append(exported)
            services.append(Service(key.path.rsplit("\\", 1)[1], state))
        boot_output = (self.get_query_output("boot", BOOT) or b"") if questions.boot else b""
        boot = query.parse_number(boot_output, "BootId")
        boot = query.parse_number(boot_output, "TransomBoot") if boot is None else boot
        version = _VERSION.search(self.parts.get("version.txt", b"")[:_RESULT_LIMIT])
        name, own_address = _parse_computer(self.parts.get("computer.txt", b""))
        return ObservedState(
            Registry.merge(registries),
            tuple(services),
            boot=boot,
            dependencies=self._parse_dependencies(),
            computer_name=name,
            os_version=version[0].decode() if version else "",
            own_address=own_address,
            contents=contents,
        )

    def _read_file(self, number: int, path: str) -> Iterator[bytes | None]:
        """Yield the bytes of a file that exists; None if the host could not copy it. Raises ScriptFailed."""
        name = f"file-{number}"
        data = self.parts.get(f"{name}.txt")
        if data is not None:
            yield data
        elif name not in self.missing:
            raise ScriptFailed(f"the host gave no answer about {path}")
        elif self.parts.get(f"{name}.err"):
            yield None

    def get_change_result(self) -> bytes:
        """Return the result of a change script that gathered afterwards. Raises Unreadable."""
        result_file = self.parts.get("result.txt", b"")
        if len(result_file) > _RESULT_LIMIT:
            raise Unreadable(f"the result of the change is longer than {_RESULT_LIMIT:,} bytes")
        return result_file

    def _parse_dependencies(self) -> dict[str, tuple[str, ...]] | None:
        listed = self.parts.get("dependants.txt")
        dependencies = query.parse_dependencies(listed, SERVICES) if listed is not None else None
        if dependencies is not None and len(dependencies) > _SERVICES:
            raise Unreadable(f"the host says of more than {_SERVICES:,} services what they depend on")
        return dependencies

    def parse_export(self, name: str, path: str) -> Registry | None:
        """Parse the keys of an export; None if the key does not exist. Raises Unreadable."""
        data = self.parts.get(f"{name}.reg")
        if data is None:
            self._require_reported_missing(name, path)
            return None
        try:
            return reg.parse_export(data)
        except reg.RegSyntaxError as error:
            raise Unreadable(f"the export of {path} is not in the .reg format: {error}") from None

    def get_query_output(self, name: str, path: str) -> bytes | None:
        """Return the output of a query; None if the key does not exist. Raises Unreadable."""
        data = self.parts.get(f"{name}.txt")
        if data is None:
            self._require_reported_missing(name, path)
        return data

    def _require_reported_missing(self, name: str, path: str) -> None:
        if name not in self.missing:
            raise ScriptFailed(f"the host gave no answer about {path}")
        if _DENIED.search(self.parts.get(f"{name}.err", b"")):
            raise Unreadable(f"{path} cannot be read: access is denied. The user must be an administrator with access to it")


def merge_states(first: ObservedState, second: ObservedState) -> ObservedState:
    """Both; where both know a thing, what the second says."""
    again = FoldedDict.from_names(service.name for service in second.services)
    return ObservedState(
        first.registry.merge_with(second.registry),
        (*(service for service in first.services if service.name not in again), *second.services),
        first.files | second.files,
        boot=first.boot if second.boot is None else second.boot,
        dependencies=first.dependencies if second.dependencies is None else second.dependencies,
        outputs=first.outputs | second.outputs,
        complaints=first.complaints | second.complaints,
        computer_name=second.computer_name or first.computer_name,
        os_version=second.os_version or first.os_version,
        ssh_server=second.ssh_server or first.ssh_server,
        reached=second.reached or first.reached,
        own_address=second.own_address or first.own_address,
        contents=first.contents | second.contents,
    )


def _parse_computer(text: bytes) -> tuple[str, str]:
    """Parse the computer's name, and its address in SSH_CONNECTION. Raises Unreadable.

    SSH_CONNECTION has client, port, own address and port (OpenSSH, ssh(1)).
    """
    if len(text) > _COMPUTER_LIMIT:
        raise Unreadable(f"the host says a name and an address of more than {_COMPUTER_LIMIT} letters")
    lines = [line.strip('" \r\n') for line in text.decode("ascii", "replace").splitlines()]
    words = lines[1].split() if len(lines) > 1 else []
    return lines[0] if lines else "", (parse_ip_address(words[2]) or "") if len(words) == 4 else ""


def _parse_store(text: bytes | None, path: str) -> Registry:
    if text is None:
        return Registry()
    return Registry([Key(path, None), *(Key(rf"{path}\{name}", None) for name in query.parse_subkeys(text, path))])


def _parse_store_walk(text: bytes, place: str, stores: Sequence[str]) -> Registry:
    """`store\\name` on each line; of other stores than those that were asked for nothing is kept."""
    keys_by_store = FoldedDict((store, [Key(store, None)]) for store in stores)
    for line in text.decode("ascii", "replace").split():
        name, _, sha1 = line.partition("\\")
        keys = keys_by_store.get(rf"{place}\{name}\Certificates")
        if keys is not None and sha1:
            keys.append(Key(rf"{keys[0].path}\{sha1}", None))
    return Registry(key for keys in keys_by_store.values() if len(keys) > 1 for key in keys)


def _parse_service_state(answers: GatheredFacts, part: str, name: str) -> ServiceState | None:
    """Parse a service's state; None if the service does not exist: Windows prints 1060, Wine nothing."""
    text = answers.parts.get(f"{part}.txt", b"")
    if part in answers.absent:
        if text.strip() and not _NO_SUCH_SERVICE.search(text):
            code = re.search(rb"[0-9]{1,10}", text)
            raise Unreadable(f"the service {name} cannot be queried: error {code[0].decode() if code else 'without a number'}")
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    number = _AFTER_COLON.search(lines[2]) if len(lines) > 2 else None
    try:
        return ServiceState(int(number[1])) if number else _raise_unknown_state(name)
    except ValueError:
        return _raise_unknown_state(name)


def _raise_unknown_state(name: str) -> ServiceState:
    raise Unreadable(f"the service {name} is in no state that is known")


def _count_lines(data: bytes) -> int:
    """Count the logical lines in UTF-16; a long value is folded into several physical lines."""
    return data.count(b"\n") - data.count(b"\\\0\r\0\n")
