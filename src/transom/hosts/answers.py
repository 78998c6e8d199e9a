"""What a gather script wrote, as a HostState."""

import re
from collections.abc import Sequence
from typing import Self

import msgspec

from transom.hosts.errors import ScriptFailed, Unreadable
from transom.windows import query, reg
from transom.windows.gathering import BOOT, ENVIRONMENT, LEDGER, SERVICES, Questions
from transom.windows.registry import Key, Registry
from transom.windows.state import HostState, Service, ServiceState

_ENTRY = re.compile(rb"(?:(part|missing|absent) ([a-z]+(?:-[0-9]+)?(?:\.[a-z]+)?)(?: ([0-9]+))?|end)\r?\n")
# texts of reg.exe are translated; where they are not English, a key without permission counts as missing
_DENIED = re.compile(rb"denied", re.IGNORECASE)
_NO_SUCH_SERVICE = re.compile(rb"(?<![0-9])1060(?![0-9])")
_VERSION = re.compile(rb"\d+\.\d+\.\d+(?:\.\d+)?")
_AFTER_COLON = re.compile(rb":[ \t]*([0-9]+)")


class Answers(msgspec.Struct, frozen=True):
    """The files that the script made, by name, and the names of questions without an answer."""

    parts: dict[str, bytes]
    missing: frozenset[str]
    absent: frozenset[str]

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The parts of a gathered file. Raises ScriptFailed."""
        sizes: list[tuple[str, int]] = []
        unanswered: dict[str, set[str]] = {"missing": set(), "absent": set()}
        position = 0
        ended = False
        while not ended and (entry := _ENTRY.match(data, position)):
            position = entry.end()
            if entry[1] is None:
                ended = True
                continue
            kind, name = entry[1].decode(), entry[2].decode()
            if kind == "part":
                sizes.append((name, int(entry[3] or 0)))
            else:
                unanswered[kind].add(name)
        parts = {}
        for name, size in sizes:
            parts[name] = data[position : position + size]
            position += size
        if not ended or position != len(data):
            raise ScriptFailed("what the host gathered is not complete (is its disk full?)")
        return cls(parts, frozenset(unanswered["missing"]), frozenset(unanswered["absent"]))

    def state(self, questions: Questions) -> HostState:
        """The state that a gather of `questions` found. Raises Unreadable, ScriptFailed."""
        registry = self.export("ledger", LEDGER) or Registry()
        if questions.environment:
            environment = self.export("environment", ENVIRONMENT)
            if environment is None:
                raise Unreadable(f"{ENVIRONMENT} cannot be read")
            registry = registry.merged(environment)
        walked = set[str]()
        for number, (place, stores) in enumerate(questions.walks.items()):
            text = self.parts.get(f"walk-{number}.txt")
            if text is not None:
                registry = registry.merged(_walked(text, place, stores))
                walked.update(stores)
        for number, path in enumerate(questions.stores):
            if path in walked:
                continue
            registry = registry.merged(_listed(self.text(f"store-{number}", path), path))
        for number, path in enumerate(questions.keys):
            registry = registry.merged(self.export(f"key-{number}", path) or Registry())
        services = []
        for number, name in enumerate(questions.services):
            state = _service_state(self, f"service-{number}", name)
            if state is None:
                continue
            path = rf"{SERVICES}\{name}"
            exported = self.export(f"service-{number}", path)
            key = exported.key(path) if exported else None
            if exported is None or key is None:
                raise Unreadable(f"{path} cannot be read, and the service is there")
            registry = registry.merged(exported)
            services.append(Service(key.path.rsplit("\\", 1)[1], state))
        boot = query.number(self.text("boot", BOOT) or b"", "BootId") if questions.boot else None
        dependants = self.parts.get("dependants.txt")
        version = _VERSION.search(self.parts.get("version.txt", b""))
        return HostState(
            registry,
            tuple(services),
            boot,
            query.dependencies(dependants, SERVICES) if dependants is not None else None,
            computer_name=self.parts.get("computer.txt", b"").decode("ascii", "replace").strip('" \r\n'),
            os_version=version[0].decode() if version else "",
        )

    def export(self, name: str, path: str) -> Registry | None:
        """The keys of an export; None where the key is not there. Raises Unreadable."""
        data = self.parts.get(f"{name}.reg")
        if data is None:
            self._check(name, path)
            return None
        try:
            return reg.registry(data)
        except reg.RegSyntaxError as error:
            raise Unreadable(f"the export of {path} is not in the .reg format: {error}") from None

    def text(self, name: str, path: str) -> bytes | None:
        """What a query printed; None where the key is not there. Raises Unreadable."""
        data = self.parts.get(f"{name}.txt")
        if data is None:
            self._check(name, path)
        return data

    def _check(self, name: str, path: str) -> None:
        if name not in self.missing:
            raise ScriptFailed(f"the host gave no answer about {path}")
        if _DENIED.search(self.parts.get(f"{name}.err", b"")):
            raise Unreadable(f"{path} cannot be read: access is denied. The user must be an administrator with access to it")


def merged(first: HostState, second: HostState) -> HostState:
    """Both; where both know a thing, what the second says."""
    again = {service.name.casefold() for service in second.services}
    return HostState(
        first.registry.merged(second.registry),
        (*(service for service in first.services if service.name.casefold() not in again), *second.services),
        first.boot if second.boot is None else second.boot,
        first.dependencies if second.dependencies is None else second.dependencies,
        files=first.files | second.files,
        outputs=first.outputs | second.outputs,
        computer_name=second.computer_name or first.computer_name,
        os_version=second.os_version or first.os_version,
    )


def _listed(text: bytes | None, path: str) -> Registry:
    if text is None:
        return Registry()
    return Registry([Key(path, None), *(Key(rf"{path}\{name}", None) for name in query.subkeys(text, path))])


def _walked(text: bytes, place: str, stores: Sequence[str]) -> Registry:
    """`store\\name` on each line; of other stores than those that were asked for nothing is kept."""
    found: dict[str, list[Key]] = {store.casefold(): [Key(store, None)] for store in stores}
    for line in text.decode("ascii", "replace").split():
        name, _, sha1 = line.partition("\\")
        keys = found.get(rf"{place}\{name}\Certificates".casefold())
        if keys is not None and sha1:
            keys.append(Key(rf"{keys[0].path}\{sha1}", None))
    return Registry(key for keys in found.values() if len(keys) > 1 for key in keys)


def _service_state(answers: Answers, part: str, name: str) -> ServiceState | None:
    """None where there is no such service: Windows says 1060, Wine prints nothing."""
    text = answers.parts.get(f"{part}.txt", b"")
    if part in answers.absent:
        if text.strip() and not _NO_SUCH_SERVICE.search(text):
            code = re.search(rb"[0-9]+", text)
            raise Unreadable(f"the service {name} cannot be queried: error {code[0].decode() if code else 'without a number'}")
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    number = _AFTER_COLON.search(lines[2]) if len(lines) > 2 else None
    try:
        return ServiceState(int(number[1])) if number else _unknown(name)
    except ValueError:
        return _unknown(name)


def _unknown(name: str) -> ServiceState:
    raise Unreadable(f"the service {name} is in no state that is known")
