"""The ledger: what on a host is Transom's, and what it replaced. It lies under `HKLM\\SOFTWARE\\Transom`.

| key below it | value name | data |
|---|---|---|
| (itself) | `Version`, `Salt`, `StateHash` | REG_DWORD; REG_BINARY; REG_SZ |
| (itself) | `Manager` | REG_SZ: who works on the host (`manager`) |
| (itself) | `Closed` | REG_DWORD 1: the key was closed to all but SYSTEM and Administrators before this was written |
| `Environment\\Machine` | variable | JSON of `MachineVariable` |
| `Environment\\Services\\<service>` | variable, and the default value | JSON of `ServiceVariable`; of the value before |
| `Certificates\\<store>` | SHA-1 | JSON of `Trusted` |
| (itself) | `WinHTTP` | JSON of `WinHttp` |
| `Keys` | full path of a key that Transom made | REG_SZ, empty |
| `Restarts` | service that owes a restart | REG_SZ `running` or `check` |
| `Deferred` | service whose restart was put off | JSON of `Deferred` |
| `Trusting` | service that was managed when the trusted certificates last changed, or was restarted since | REG_SZ, empty |
| `Installed` | `Payload`, `Preparation` | REG_SZ; JSON of `Prepared` |
| `Installed\\Services` | service of the payload | JSON of `OwnService` |
| `Installed\\Files` | full path of a file that was sent | JSON of `OwnFile` |
| `Installed\\Directories` | full path of a directory that was made | REG_SZ `owned` (goes with all that is in it) or empty |
| `Installed\\Variables` | variable that a script of the payload gave | JSON of `Output` |

JSON stands in REG_SZ as ASCII, so that a person can read it in regedit and every text survives.
"""

import hmac
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

import msgspec

from transom.windows.host.queries import LEDGER, RESTARTS
from transom.windows.ledger import entries
from transom.windows.ledger.installed import Installed, Output, OwnFile, OwnService, Prepared
from transom.windows.ledger.manager import MANAGER
from transom.windows.registry.registry import (
    CreateKey,
    DeleteKey,
    DeleteValue,
    Edit,
    Key,
    NamedValue,
    Registry,
    SetValue,
    Value,
    ValueType,
    binary,
    dword,
    sz,
)

VERSION = 3
CLOSED = "Closed"
MOST_ENTRIES, MOST_OF_A_KIND = 5_000, 1_000
"""Keys and values of a ledger, and those of one kind but files: one of a payload with a hundred files and a bundle of 150
certificates has some 300. A plan looks at each of a kind for each other."""
INSTALLED = LEDGER + r"\Installed"
MACHINE = LEDGER + r"\Environment\Machine"
SERVICES = LEDGER + r"\Environment\Services"
CERTIFICATES = LEDGER + r"\Certificates"
WIN_HTTP = "WinHTTP"
DEFERRED = LEDGER + r"\Deferred"
KEYS = LEDGER + r"\Keys"
TRUSTING = LEDGER + r"\Trusting"
_FILES = INSTALLED + r"\Files"
_OWNED = sz("owned")

Note = Literal["running", "check"]


class LedgerError(Exception):
    """The ledger on a host cannot be read; the message names the value. Nothing may be changed there then."""


class FormerValue(msgspec.Struct, frozen=True):
    """A registry value as it was: enough to put it back exactly."""

    name: str
    type: int
    data: str

    def __post_init__(self) -> None:
        if not 0 <= self.type < 2**32:
            raise ValueError("no type of a registry value")
        bytes.fromhex(self.data)

    def __repr__(self) -> str:
        return f"Held({self.name!r}, type {self.type})"

    @classmethod
    def of(cls, name: str, value: Value) -> "FormerValue":
        """The value `name` as it is now."""
        return cls(name, value.type, value.data.hex())

    def value(self) -> Value:
        """The value to put back."""
        return Value(self.type, bytes.fromhex(self.data))


class MachineVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A variable set in the machine environment: the hash of what was set, the boot at which, what was there before.

    `former` is the hash of what was there of ours when it was: an import that is cut short leaves it. `peer`: the operator that
    had the host before has set it; it stays as long as it says what services have. `booted`: the host has booted with an
    earlier value of ours, which services have until the next boot. `gone`: it was taken out again in this boot, and services
    that have no item of their own still have it.
    """

    set: str
    former: str = ""
    boot: int | None = None
    was: FormerValue | None = None
    peer: bool = False
    booted: bool = False
    gone: int | None = None

    def is_had(self, boot: int | None) -> bool:
        """Whether services may have a value of ours from the boot that is named."""
        return self.gone == boot if self.gone is not None else self.booted or self.boot != boot


class LedgerItem(msgspec.Struct, frozen=True, array_like=True):
    """An item of somebody else's that ours replaced, and its place in the list."""

    index: int
    text: str

    def __post_init__(self) -> None:
        if self.index < 0 or not self.text or "\0" in self.text:
            raise ValueError("no item of a REG_MULTI_SZ")

    def __repr__(self) -> str:
        return f"Item({self.index})"


class ServiceVariable(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item set in a service's own environment; `former` is the hash of the item of ours that was there when it was.

    `mask` is the boot up to which the item only hides a variable of the machine environment that has been booted with.
    """

    set: str
    former: str = ""
    was: tuple[LedgerItem, ...] = ()
    mask: int | None = None


class ServiceEnvironment(msgspec.Struct, frozen=True):
    """A service's `Environment`: the whole value before Transom's first change (None: it was not there), and our items."""

    before: FormerValue | None
    variables: dict[str, ServiceVariable]


class _Before(msgspec.Struct, frozen=True):
    value: FormerValue | None = None


class Trusted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A certificate of the bundle: added by us, found there before (`added` false), or held by a policy store.

    `was` is a Blob under its name that did not hold it.
    """

    added: bool
    subject: str = ""
    policy: bool = False
    was: FormerValue | None = None


class WinHttp(msgspec.Struct, frozen=True, omit_defaults=True):
    """WinHTTP's proxy: the data that was set, in hex (there is no credential in it), and the value before.

    `former` is the data of ours that was there when it was set: an import that is cut short leaves it.
    """

    set: str
    former: str = ""
    was: FormerValue | None = None


class Deferred(msgspec.Struct, frozen=True, omit_defaults=True):
    """A restart that was put off, in which boot: the next one makes it needless."""

    boot: int | None = None


class Ledger(msgspec.Struct, frozen=True):
    """The ledger as a value. Names of variables are upper case, of services in the host's spelling."""

    salt: bytes = b""
    state_hash: str = ""
    machine: dict[str, MachineVariable] = {}
    services: dict[str, ServiceEnvironment] = {}
    certificates: dict[str, dict[str, Trusted]] = {}
    keys: tuple[str, ...] = ()
    restarts: dict[str, Note] = {}
    deferred: dict[str, Deferred] = {}
    trusting: tuple[str, ...] = ()
    win_http: WinHttp | None = None
    installed: Installed = Installed()
    manager: str = ""

    @property
    def holds_settings(self) -> bool:
        """Whether something of proxy or trust is on the host."""
        return bool(self.machine or self.services or self.certificates or self.win_http)

    def __bool__(self) -> bool:
        """Whether anything on the host is ours or owed."""
        ours = self.machine or self.services or any(self.certificates.values()) or self.keys or self.restarts
        return bool(ours or self.deferred or self.win_http or self.installed)

    def digest(self, name: str, value: str) -> str:
        """The salted hash that tells whether a value is still the one that was set."""
        return digest(self.salt, name, value)


def digest(salt: bytes, name: str, value: str) -> str:
    """HMAC-SHA-256 of a named value under the host's salt, 32 hex digits."""
    message = f"{name}\0{value}".encode("utf-8", "surrogatepass")
    return hmac.digest(salt, message, "sha256").hex()[:32]


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
        machine=dict(_entries(registry, MACHINE, MachineVariable)),
        services={
            _leaf(key.path): ServiceEnvironment(
                before=_decode(key, "", _Before).value,
                variables={name: entry for name, entry in _entries(registry, key.path, ServiceVariable) if name},
            )
            for key in registry.below(SERVICES)
            if key.values  # an import that was cut short may have made the key alone
        },
        certificates={_leaf(key.path): dict(_entries(registry, key.path, Trusted)) for key in registry.below(CERTIFICATES)},
        keys=tuple(_names(registry.key(KEYS))),
        restarts={name: _note(registry, name) for name in _names(registry.key(RESTARTS))},
        deferred=dict(_entries(registry, DEFERRED, Deferred)),
        trusting=tuple(_names(registry.key(TRUSTING))),
        win_http=_decode(top, WIN_HTTP, WinHttp) if top.get(WIN_HTTP) is not None else None,
        installed=_installed(registry),
        manager=manager.text() if manager else "",
    )


def _refuse_more(registry: Registry) -> None:
    """Raises LedgerError where there is more than Transom writes."""
    present = registry.below(LEDGER)
    if sum(len(key.values or ()) + 1 for key in present) > MOST_ENTRIES:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_ENTRIES:,} keys and values; Transom writes fewer")
    for key in present:
        if len(key.values or ()) > MOST_OF_A_KIND and key.path.casefold() != _FILES.casefold():
            raise LedgerError(f"{key.path}: it has more than {MOST_OF_A_KIND:,} values; Transom writes fewer")
    if len(present) > MOST_OF_A_KIND:
        raise LedgerError(f"{LEDGER}: it has more than {MOST_OF_A_KIND:,} keys; Transom writes fewer")


def _installed(registry: Registry) -> Installed:
    key = registry.key(INSTALLED)
    payload = key.get("Payload") if key else None
    prepared = _decode(key, "Preparation", Prepared) if key and key.get("Preparation") else None
    directories = registry.key(rf"{INSTALLED}\Directories")
    return Installed(
        payload.text() if payload else "",
        prepared,
        dict(_entries(registry, rf"{INSTALLED}\Services", OwnService)),
        dict(_entries(registry, rf"{INSTALLED}\Files", OwnFile)),
        tuple(_names(directories)),
        tuple(path for path in _names(directories) if directories and directories.get(path) == _OWNED),
        dict(_entries(registry, rf"{INSTALLED}\Variables", Output)),
    )


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
        under_gone = any(key.path.casefold().startswith(path.casefold() + "\\") for path in gone)
        cleared = key.path.casefold() == RESTARTS.casefold() and not key.values
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

    def put(path: str, name: str, value: Value) -> None:
        section(path)[name.casefold()] = NamedValue(name, value)

    put(LEDGER, "Version", dword(VERSION))
    put(LEDGER, CLOSED, dword(1))
    put(LEDGER, "Salt", binary(ledger.salt))
    put(LEDGER, "StateHash", sz(ledger.state_hash))
    if ledger.manager:
        put(LEDGER, MANAGER, sz(ledger.manager))
    for name, variable in ledger.machine.items():
        put(MACHINE, name, entries.encoded(variable))
    for service, environment in ledger.services.items():
        put(rf"{SERVICES}\{service}", "", entries.encoded(_Before(environment.before)))
        for name, item in environment.variables.items():
            put(rf"{SERVICES}\{service}", name, entries.encoded(item))
    for store, certificates in ledger.certificates.items():
        for sha1, trusted in certificates.items():
            put(rf"{CERTIFICATES}\{store}", sha1, entries.encoded(trusted))
    for path in ledger.keys:
        put(KEYS, path, sz(""))
    for service, note in ledger.restarts.items():
        put(RESTARTS, service, sz(note))
    for service, deferred in ledger.deferred.items():
        put(DEFERRED, service, entries.encoded(deferred))
    # after the restarts: an import that is cut short between them owes too many, and none too few
    for service in ledger.trusting:
        put(TRUSTING, service, sz(""))
    if ledger.win_http is not None:
        put(LEDGER, WIN_HTTP, entries.encoded(ledger.win_http))
    installed = ledger.installed
    if installed:
        put(INSTALLED, "Payload", sz(installed.payload))
    if installed.prepared:
        put(INSTALLED, "Preparation", entries.encoded(installed.prepared))
    for name, own in installed.services.items():
        put(rf"{INSTALLED}\Services", name, entries.encoded(own))
    for path, file in installed.files.items():
        put(rf"{INSTALLED}\Files", path, entries.encoded(file))
    for path in installed.directories:
        put(rf"{INSTALLED}\Directories", path, _OWNED if path in installed.owned else sz(""))
    for name, output in installed.outputs.items():
        put(rf"{INSTALLED}\Variables", name, entries.encoded(output))
    return Registry(Key(path, values) for path, values in keys.items())


_T = TypeVar("_T")


def _decode(key: Key, name: str, type_: type[_T]) -> _T:
    try:
        return entries.decoded(key.get(name), type_)
    except ValueError:
        # the entry may hold what somebody's variable was: nothing of it is quoted
        raise LedgerError(rf"{key.path}\{name or '(default)'}: not as Transom writes it") from None


def _entries(registry: Registry, path: str, type_: type[_T]) -> Iterator[tuple[str, _T]]:
    key = registry.key(path)
    for name in _names(key):
        if key is not None and name:
            yield name, _decode(key, name, type_)


def _names(key: Key | None) -> Iterator[str]:
    yield from (named.name for named in (key.values or {}).values()) if key else ()


def _note(registry: Registry, service: str) -> Note:
    value = registry.value(RESTARTS, service)
    return "running" if value is not None and value.text() == "running" else "check"


def _leaf(path: str) -> str:
    return path.rsplit("\\", 1)[1]
