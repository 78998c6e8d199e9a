"""A service's configuration as the registry holds it (Microsoft: "HKLM\\SYSTEM\\CurrentControlSet\\Services Registry Tree")."""

import struct

import msgspec

from transom.proxy.settings import VARIABLES
from transom.windows.host.queries import SERVICES
from transom.windows.parts.installed import TakenOver
from transom.windows.registry import Key
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.values import Value, ValueType, binary, dword, expand_sz, multi_sz, sz

ENVIRONMENT = "Environment"
_RESET_SECONDS = 86400
_SC_ACTION_RESTART = 1
_AUTOMATIC, _MANUAL = 2, 3
_TRIES = 3


class Configuration(msgspec.Struct, frozen=True):
    """What `sc create` is given, and what follows when the service fails.

    `restart_seconds` is the delay of the restarts, None: the service stays down. `environment` are all items of its own
    environment (`NAME=value`), None: as they are.
    """

    name: str
    image: str
    depends: tuple[str, ...] = ()
    automatic: bool = True
    description: str = ""
    restart_seconds: int | None = None
    environment: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        # an item of the environment may be a credential
        return f"Configuration({self.name!r})"

    @property
    def path(self) -> str:
        """Its key."""
        return rf"{SERVICES}\{self.name}"

    def values(self) -> dict[str, Value]:
        """The registry values that say it; those that are not here are nobody's to set."""
        found = {
            "ImagePath": expand_sz(self.image),
            "Start": dword(_AUTOMATIC if self.automatic else _MANUAL),
            "Description": sz(self.description),
        }
        if self.depends:
            found["DependOnService"] = multi_sz(self.depends)
        if self.restart_seconds is not None:
            found["FailureActions"] = binary(_failure_actions(self.restart_seconds))
            found["FailureActionsOnNonCrashFailures"] = dword(1)
        if self.environment is not None:
            found[ENVIRONMENT] = multi_sz(self.environment)
        return found

    def edits(self) -> tuple[Edit, ...]:
        """The values as an import."""
        return tuple(SetValue(self.path, name, value) for name, value in self.values().items())


def differences(wanted: Configuration, present: Key) -> tuple[str, ...]:
    """The names of the configuration's values that a key holds otherwise; of the environment, that items are missing."""
    values = wanted.values()
    found = [name for name, value in values.items() if name != ENVIRONMENT and not _same(present.get(name), value)]
    return (*found, *((ENVIRONMENT,) if set(wanted.environment or ()) - set(_items(present)) else ()))


def with_items_of(wanted: Configuration, present: Key) -> Configuration:
    """The configuration for a service that is there: the items of its environment that others set are kept, in their order."""
    if not set(wanted.environment or ()) - set(_items(present)):
        return msgspec.structs.replace(wanted, environment=None)
    ours = {_name(item): item for item in wanted.environment or ()}
    kept = [ours.pop(_name(item), item) for item in _items(present)]
    return msgspec.structs.replace(wanted, environment=(*kept, *ours.values()))


def former_items(made: Configuration, present: Value | None, environment: Value | None) -> Value | None:
    """The environment for a service that gets its former configuration back; `environment` is the one that it has with `made`.

    Items of the payload are as they were in `present`. The proxy's variables stay: they are no part of a configuration.
    """
    ours = {_name(item) for item in made.environment or ()} - set(VARIABLES)
    was = {_name(item): item for item in (present.texts() if present else ())}
    items = [was.get(_name(item)) if _name(item) in ours else item for item in (environment.texts() if environment else ())]
    kept = [item for item in items if item is not None]
    return present if present is not None and list(present.texts()) == kept else multi_sz(kept) if kept else None


def _items(key: Key) -> tuple[str, ...]:
    value = key.get(ENVIRONMENT)
    return value.texts() if value else ()


def _name(item: str) -> str:
    return item.partition("=")[0].upper()


def taken_over(present: Key) -> TakenOver:
    """What is remembered of a service that another operator made."""
    command = present.get("ImagePath")
    numbers = {
        name: value.number() for name in ("Type", "Start") if (value := present.get(name)) and value.type == ValueType.DWORD
    }
    return TakenOver(command.text() if command else "", numbers.get("Type", 0), numbers.get("Start", 0))


def configured(key: Key | None) -> bool:
    """Whether a key of a wanted state says how the service is to be configured, and not only that it is managed."""
    return key is not None and key.get("ImagePath") is not None


def of_key(name: str, key: Key) -> Configuration:
    """The configuration that a wanted key says; the proxy's variables are no part of it."""
    image, depends, start = key.get("ImagePath"), key.get("DependOnService"), key.get("Start")
    actions, description = key.get("FailureActions"), key.get("Description")
    items = tuple(item for item in _items(key) if _name(item) not in VARIABLES)
    return Configuration(
        name,
        image.text() if image else "",
        depends.texts() if depends else (),
        start is None or start.number() == _AUTOMATIC,
        description.text() if description else "",
        struct.unpack_from("<I", actions.data, 24)[0] // 1000 if actions and len(actions.data) >= 28 else None,
        items or None,
    )


def _same(present: Value | None, wanted: Value) -> bool:
    if present is None:
        return False
    # REG_SZ and REG_EXPAND_SZ are read alike where nothing is to be expanded
    if wanted.type in (1, 2) and present.type in (1, 2):
        return present.text() == wanted.text()
    return present == wanted


def _failure_actions(seconds: int) -> bytes:
    """SERVICE_FAILURE_ACTIONS as the SCM stores it: five numbers, the last the actions' offset, then type and ms of each."""
    head = struct.pack("<5I", _RESET_SECONDS, 0, 0, _TRIES, 20)
    return head + struct.pack("<2I", _SC_ACTION_RESTART, seconds * 1000) * _TRIES
