"""The ledger: what on a host is Transom's, and what it replaced. It lies under `HKLM\\SOFTWARE\\Transom`.

| key below it | value name | data |
|---|---|---|
| (itself) | `Version`, `Salt`, `StateHash` | REG_DWORD; REG_BINARY; REG_SZ |
| (itself) | `Manager` | REG_SZ: who works on the host (`Manager`) |
| (itself) | `Closed` | REG_DWORD 1: the key was closed to all but SYSTEM and Administrators before this was written |
| `Environment\\Machine` | variable | JSON of `MachineVariable` |
| `Environment\\Services\\<service>` | variable, and the default value | JSON of `ServiceVariable`; of the value before |
| `Certificates\\<store>` | SHA-1 | JSON of `TrustedCertificate` |
| (itself) | `WinHTTP` | JSON of `OwnValue` |
| (itself) | `PowerShell` | JSON of `OwnBlock` |
| `Keys` | full path of a key that Transom made | REG_SZ, empty |
| `Restarts` | service that owes a restart | REG_SZ `running` or `check` |
| `DeferredRestart` | service whose restart was put off | JSON of `DeferredRestart` |
| `Trusting` | service that was managed when the trusted certificates last changed, or was restarted since | REG_SZ, empty |
| `Installed` | `Payload`, `Preparation` | REG_SZ; JSON of `PreparedWindows` |
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

from transom.common.escaping import escape_unprintable
from transom.windows.host.ledger_entries import LedgerError
from transom.windows.host.queries import LEDGER, RESTARTS
from transom.windows.parts import downtime, environment, installed, keys, powershell, trust, winhttp
from transom.windows.parts.downtime import Downtime
from transom.windows.parts.environment import Environments
from transom.windows.parts.installed import InstalledPayload
from transom.windows.parts.part import Part, Setting
from transom.windows.parts.powershell import OwnBlock
from transom.windows.parts.registry_value import OwnValue
from transom.windows.parts.trust import Stores
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import is_same, is_within
from transom.windows.registry.registry import Key, NamedValue, Registry
from transom.windows.registry.values import ValueType, build_binary, build_dword, build_sz

SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    "environment": environment,
    "winhttp": winhttp,
    "powershell": powershell,
    "trust": trust,
}
"""The parts of a host that the egress settings configure, by the field of `Ledger` that is their entry."""
PARTS: Final[Mapping[str, Part[Any]]] = {**SETTINGS, "keys": keys, "downtime": downtime}
"""All parts, in the order in which they are asked for, planned and recorded: the later ones heed what the earlier ones found.

What a payload brings comes before them in a plan (`installation`), since they plan for the host as it leaves it.
"""
VERSION = 4
"""Of the schema: a part whose entry is new, or has another shape, raises it (`tests/windows/ledger/test_schema.py`)."""
_WITHOUT_POWERSHELL: Final = 3
"""The version of a ledger without the entry `PowerShell`: an earlier Transom can read it too."""
MANAGER: Final = "Manager"
"""The value of the ledger."""
FILES: Final = "files"
"""The manager of hosts that a person's files describe."""
_MOST: Final = 300
_REMEDY: Final = "`transom adopt` with the name of its WindowsInstance takes it over, or `transom apply --take-over`"


class Ledger(msgspec.Struct, frozen=True):
    """The ledger as a value. Names of variables are upper case, of services in the host's spelling."""

    salt: bytes = b""
    state_hash: str = ""
    manager: str = ""
    environment: Environments = Environments()
    winhttp: OwnValue | None = None
    powershell: OwnBlock | None = None
    trust: Stores = {}
    keys: tuple[str, ...] = ()
    downtime: Downtime = Downtime()
    installed: InstalledPayload = InstalledPayload()

    @property
    def holds_settings(self) -> bool:
        """Whether something of proxy or trust is on the host."""
        return any(getattr(self, name) for name in SETTINGS)

    def __bool__(self) -> bool:
        """Return True if Transom owns anything on the host or owes it a restart."""
        return bool(self.installed) or any(getattr(self, name) for name in PARTS)


CLOSED = "Closed"
MOST_ENTRIES, MOST_OF_A_KIND = 5_000, 1_000
"""Keys and values of a ledger, and those of one kind but files: one of a payload with a hundred files and a bundle of 150
certificates has some 300. A plan looks at each of a kind for each other."""


def read(registry: Registry) -> Ledger:
    """Read the ledger from a host's registry; return an empty one if none exists. Raises LedgerError."""
    top = registry.find_key(LEDGER)
    if top is None:
        return Ledger()
    _check_size(registry)
    version = top.get("Version")
    if version is not None and (version.type != ValueType.DWORD or version.to_number() > VERSION):
        raise LedgerError(rf"{LEDGER}\Version: written by a newer Transom, or by something else; update Transom")
    salt, state_hash, manager = top.get("Salt"), top.get("StateHash"), top.get(MANAGER)
    return Ledger(
        salt=salt.data if salt else b"",
        state_hash=state_hash.decode_text() if state_hash else "",
        manager=manager.decode_text() if manager else "",
        installed=installed.read(registry),
        **{name: part.read(registry) for name, part in PARTS.items()},
    )


def _check_size(registry: Registry) -> None:
    """Raise LedgerError if the ledger has more keys and values than Transom writes."""
    present = registry.list_keys_below(LEDGER)
    if sum(len(key.values or ()) + 1 for key in present) > MOST_ENTRIES:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_ENTRIES:,} keys and values; Transom writes fewer")
    for key in present:
        if len(key.values or ()) > MOST_OF_A_KIND and not is_same(key.path, installed.FILES):
            raise LedgerError(f"{key.path}: it has more than {MOST_OF_A_KIND:,} values; Transom writes fewer")
    if len(present) > MOST_OF_A_KIND:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_OF_A_KIND:,} keys; Transom writes fewer")


def build_edits(before: Registry, ledger: Ledger) -> tuple[Edit, ...]:
    """Build the edits that turn the ledger in `before` into `ledger`; none if they are equal."""
    if not ledger:
        return (DeleteKey(LEDGER),) if before.find_key(LEDGER) else ()
    wanted = _build_registry(ledger)
    result: list[Edit] = []
    for key in wanted:
        if before.find_key(key.path) is None:
            result.append(CreateKey(key.path))
        present = before.find_key(key.path)
        for named in (key.values or {}).values():
            if present is None or present.get(named.name) != named.value:
                result.append(SetValue(key.path, named.name, named.value))
        for named in (present.values or {}).values() if present else ():
            if key.get(named.name) is None:
                result.append(DeleteValue(key.path, named.name))
    removed_names: list[str] = []
    for key in before.list_keys_below(LEDGER):
        under_gone = any(is_within(key.path, path) for path in removed_names)
        cleared = is_same(key.path, RESTARTS) and not key.values
        if wanted.find_key(key.path) is None and not under_gone and not cleared:
            removed_names.append(key.path)
    if not removed_names and all(_can_be_deferred(edit, before) for edit in result):
        # an open ledger is closed with the first change, and makes none
        return ()
    return (*result, *map(DeleteKey, removed_names))


def _can_be_deferred(edit: Edit, before: Registry) -> bool:
    """Return True if an edit alone needs no change: it closes the ledger, raises its version, or names absent items."""
    if not isinstance(edit, SetValue) or edit.path != LEDGER:
        return False
    present = before.find_value(LEDGER, edit.name)
    raised = edit.name == "Version" and present is not None and present.type == ValueType.DWORD
    return edit.name == CLOSED or raised or (edit.name == MANAGER and present is None)


def has_access_lockdown_edit(edits: Iterable[Edit]) -> bool:
    """Return True if the edits mark the ledger as closed to ordinary users; it must be closed before the import."""
    return any(isinstance(edit, SetValue) and (edit.path, edit.name) == (LEDGER, CLOSED) for edit in edits)


def _build_registry(ledger: Ledger) -> Registry:
    """Build the registry keys and values of a ledger; an empty part has no key."""
    keys: dict[str, dict[str, NamedValue]] = {}

    def get_section(path: str) -> dict[str, NamedValue]:
        if path not in keys:
            parent = path.rpartition("\\")[0]
            if len(parent) >= len(LEDGER):
                get_section(parent)
            keys[path] = {}
        return keys[path]

    for line in _iter_values(ledger):
        get_section(line.path)[line.name.casefold()] = NamedValue(line.name, line.value)
    return Registry(Key(path, values) for path, values in keys.items())


def _iter_values(ledger: Ledger) -> Iterator[SetValue]:
    yield SetValue(LEDGER, "Version", build_dword(VERSION if ledger.powershell else _WITHOUT_POWERSHELL))
    yield SetValue(LEDGER, CLOSED, build_dword(1))
    yield SetValue(LEDGER, "Salt", build_binary(ledger.salt))
    yield SetValue(LEDGER, "StateHash", build_sz(ledger.state_hash))
    if ledger.manager:
        yield SetValue(LEDGER, MANAGER, build_sz(ledger.manager))
    for name, part in PARTS.items():
        yield from part.iter_ledger_values(getattr(ledger, name))
    yield from installed.iter_ledger_values(ledger.installed)


class OtherManager(Exception):
    """The ledger names another manager than the one that would change the host. The message is for people."""


class Manager(msgspec.Struct, frozen=True):
    """The manager of a host: `files`, or a name from `format_operator_name`.

    An empty name is not recorded and never conflicts. `adopts` also takes over a host whose ledger names another manager,
    at a person's request.
    """

    name: str = ""
    adopts: bool = False

    def require_same_manager(self, recorded_name: str) -> None:
        """Raise OtherManager if the ledger names another manager."""
        if self.name and recorded_name and recorded_name != self.name and not self.adopts:
            manager = escape_unprintable(recorded_name[:_MOST])
            whose = f"the host is managed by {manager} (value {MANAGER} of its ledger), and this is {self.name}"
            raise OtherManager(f"{whose}. {_REMEDY}")


def format_operator_name(namespace: str, cluster: str) -> str:
    """Format the name of an operator, stable across restarts; `cluster` are hex digits that identify the cluster."""
    return f"the operator in namespace {namespace} of cluster {cluster}"
