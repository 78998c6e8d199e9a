"""The ledger: what on a host is Transom's, and what it replaced. It lies under `HKLM\\SOFTWARE\\Transom`.

| key below it | value name | data |
|---|---|---|
| (itself) | `Version`, `Salt`, `StateHash` | REG_DWORD; REG_BINARY; REG_SZ |
| (itself) | `Manager` | REG_SZ: who works on the host (`Manager`) |
| (itself) | `Closed` | REG_DWORD 1: the key was closed to all but SYSTEM and Administrators before this was written |
| `Environment\\Machine` | variable | JSON of `MachineVariable` |
| `Environment\\Services\\<service>` | variable, and the default value | JSON of `ServiceVariable`; of the value before |
| `Certificates\\<store>` | SHA-1 | JSON of `Trusted` |
| (itself) | `WinHTTP` | JSON of `OwnValue` |
| `Keys` | full path of a key that Transom made | REG_SZ, empty |
| `Restarts` | service that owes a restart | REG_SZ `running` or `check` |
| `Deferred` | service whose restart was put off | JSON of `Deferred` |
| `Trusting` | service that was managed when the trusted certificates last changed, or was restarted since | REG_SZ, empty |
| `Installed` | `Payload`, `Preparation` | REG_SZ; JSON of `Prepared` |
| `Installed\\Services` | service of the payload | JSON of `OwnService` |
| `Installed\\Files` | full path of a file that was sent | JSON of `OwnFile` |
| `Installed\\Directories` | full path of a directory that was made | REG_SZ `owned` (goes with all that is in it) or empty |
| `Installed\\Variables` | variable that a script of the payload gave | JSON of `Output` |

Each part of a host has its entry here (`PARTS`): it says itself which values that are.

Of two who would work on a host, the one that comes later is refused until a person says otherwise (`Manager`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.shown import shown
from transom.windows.host.entries import LedgerError
from transom.windows.host.queries import LEDGER, RESTARTS
from transom.windows.parts import downtime, environment, installed, keys, trust, winhttp
from transom.windows.parts.downtime import Downtime
from transom.windows.parts.environment import Environments
from transom.windows.parts.installed import Installed
from transom.windows.parts.part import Part, Setting
from transom.windows.parts.registry_value import OwnValue
from transom.windows.parts.trust import Stores
from transom.windows.registry import Key, NamedValue, Registry
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import same, within
from transom.windows.registry.values import ValueType, binary, dword, sz

SETTINGS: Final[Mapping[str, Setting[Any]]] = {"environment": environment, "winhttp": winhttp, "trust": trust}
"""The parts of a host that the egress settings speak of, by the field of `Ledger` that is their entry."""
PARTS: Final[Mapping[str, Part[Any]]] = {**SETTINGS, "keys": keys, "downtime": downtime}
"""All parts, in the order in which they are asked for, planned and recorded: the later ones heed what the earlier ones found.

What a payload brings comes before them in a plan (`installation`), since they plan for the host as it leaves it.
"""
VERSION = 3
"""Of the schema: a part whose entry is new, or has another shape, raises it (`tests/windows/ledger/test_schema.py`)."""
MANAGER: Final = "Manager"
"""The value of the ledger."""
FILES: Final = "files"
"""The manager of hosts that a person's files describe."""
_MOST: Final = 300
_REMEDY: Final = (
    'It is taken over with annotation transom.dev/adopt: "true" on its WindowsInstance, or by `transom apply --take-over`'
)


class Ledger(msgspec.Struct, frozen=True):
    """The ledger as a value. Names of variables are upper case, of services in the host's spelling."""

    salt: bytes = b""
    state_hash: str = ""
    manager: str = ""
    environment: Environments = Environments()
    winhttp: OwnValue | None = None
    trust: Stores = {}
    keys: tuple[str, ...] = ()
    downtime: Downtime = Downtime()
    installed: Installed = Installed()

    @property
    def holds_settings(self) -> bool:
        """Whether something of proxy or trust is on the host."""
        return any(getattr(self, name) for name in SETTINGS)

    def __bool__(self) -> bool:
        """Whether anything on the host is ours or owed."""
        return bool(self.installed) or any(getattr(self, name) for name in PARTS)


CLOSED = "Closed"
MOST_ENTRIES, MOST_OF_A_KIND = 5_000, 1_000
"""Keys and values of a ledger, and those of one kind but files: one of a payload with a hundred files and a bundle of 150
certificates has some 300. A plan looks at each of a kind for each other."""


def read(registry: Registry) -> Ledger:
    """The ledger in what was read from a host; an empty one where there is none. Raises LedgerError."""
    top = registry.key(LEDGER)
    if top is None:
        return Ledger()
    _refuse_more(registry)
    version = top.get("Version")
    if version is not None and (version.type != ValueType.DWORD or version.number() > VERSION):
        raise LedgerError(rf"{LEDGER}\Version: written by a newer Transom, or by something else; update Transom")
    salt, state_hash, manager = top.get("Salt"), top.get("StateHash"), top.get(MANAGER)
    return Ledger(
        salt=salt.data if salt else b"",
        state_hash=state_hash.text() if state_hash else "",
        manager=manager.text() if manager else "",
        installed=installed.read(registry),
        **{name: part.read(registry) for name, part in PARTS.items()},
    )


def _refuse_more(registry: Registry) -> None:
    """Raises LedgerError where there is more than Transom writes."""
    present = registry.below(LEDGER)
    if sum(len(key.values or ()) + 1 for key in present) > MOST_ENTRIES:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_ENTRIES:,} keys and values; Transom writes fewer")
    for key in present:
        if len(key.values or ()) > MOST_OF_A_KIND and not same(key.path, installed.FILES):
            raise LedgerError(f"{key.path}: it has more than {MOST_OF_A_KIND:,} values; Transom writes fewer")
    if len(present) > MOST_OF_A_KIND:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_OF_A_KIND:,} keys; Transom writes fewer")


def edits(before: Registry, ledger: Ledger) -> tuple[Edit, ...]:
    """What turns the ledger that stands in `before` into `ledger`: nothing where they are equal."""
    if not ledger:
        return (DeleteKey(LEDGER),) if before.key(LEDGER) else ()
    wanted = _registry(ledger)
    found: list[Edit] = []
    for key in wanted:
        if before.key(key.path) is None:
            found.append(CreateKey(key.path))
        present = before.key(key.path)
        for named in (key.values or {}).values():
            if present is None or present.get(named.name) != named.value:
                found.append(SetValue(key.path, named.name, named.value))
        for named in (present.values or {}).values() if present else ():
            if key.get(named.name) is None:
                found.append(DeleteValue(key.path, named.name))
    gone: list[str] = []
    for key in before.below(LEDGER):
        under_gone = any(within(key.path, path) for path in gone)
        cleared = same(key.path, RESTARTS) and not key.values
        if wanted.key(key.path) is None and not under_gone and not cleared:
            gone.append(key.path)
    if not gone and all(_can_wait(edit, before) for edit in found):
        # an open ledger is closed with the first change, and makes none
        return ()
    return (*found, *map(DeleteKey, gone))


def _can_wait(edit: Edit, before: Registry) -> bool:
    """Whether an edit is not worth a change of its own: it closes the ledger, raises its version, or names who never was."""
    if not isinstance(edit, SetValue) or edit.path != LEDGER:
        return False
    present = before.value(LEDGER, edit.name)
    raised = edit.name == "Version" and present is not None and present.type == ValueType.DWORD
    return edit.name == CLOSED or raised or (edit.name == MANAGER and present is None)


def closes(edits: Iterable[Edit]) -> bool:
    """Whether the edits say that the ledger is closed to ordinary users: it has to be, before they are imported."""
    return any(isinstance(edit, SetValue) and (edit.path, edit.name) == (LEDGER, CLOSED) for edit in edits)


def _registry(ledger: Ledger) -> Registry:
    """The ledger as keys and values; a part that is empty has no key."""
    keys: dict[str, dict[str, NamedValue]] = {}

    def section(path: str) -> dict[str, NamedValue]:
        if path not in keys:
            parent = path.rpartition("\\")[0]
            if len(parent) >= len(LEDGER):
                section(parent)
            keys[path] = {}
        return keys[path]

    for line in _lines(ledger):
        section(line.path)[line.name.casefold()] = NamedValue(line.name, line.value)
    return Registry(Key(path, values) for path, values in keys.items())


def _lines(ledger: Ledger) -> Iterator[SetValue]:
    yield SetValue(LEDGER, "Version", dword(VERSION))
    yield SetValue(LEDGER, CLOSED, dword(1))
    yield SetValue(LEDGER, "Salt", binary(ledger.salt))
    yield SetValue(LEDGER, "StateHash", sz(ledger.state_hash))
    if ledger.manager:
        yield SetValue(LEDGER, MANAGER, sz(ledger.manager))
    for name, part in PARTS.items():
        yield from part.lines(getattr(ledger, name))
    yield from installed.lines(ledger.installed)


class OtherManager(Exception):
    """The ledger names another manager than the one that would change the host. The message is for people."""


class Manager(msgspec.Struct, frozen=True):
    """`name` is `files`, or what `operator` says; empty: it is not noted, and nobody is refused.

    `adopts`: also where the ledger names another one, by a person's word.
    """

    name: str = ""
    adopts: bool = False

    def check(self, noted: str) -> None:
        """Raises OtherManager where the manager that a ledger notes is another one."""
        if self.name and noted and noted != self.name and not self.adopts:
            whose = f"the host is managed by {shown(noted[:_MOST])} (value {MANAGER} of its ledger), and this is {self.name}"
            raise OtherManager(f"{whose}. {_REMEDY}")


def operator(namespace: str, cluster: str) -> str:
    """The name of an operator, over all its lives; `cluster` are hex digits that tell clusters apart."""
    return f"the operator in namespace {namespace} of cluster {cluster}"
