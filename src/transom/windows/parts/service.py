"""A service's configuration as the registry holds it (Microsoft: "HKLM\\SYSTEM\\CurrentControlSet\\Services Registry Tree")."""

import struct

import msgspec

from transom.proxy.settings import VARIABLES
from transom.windows.host.queries import SERVICES
from transom.windows.parts.installed import TakenOverService
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.registry import Key
from transom.windows.registry.values import (
    Value,
    ValueType,
    build_binary,
    build_dword,
    build_expand_sz,
    build_multi_sz,
    build_sz,
)

ENVIRONMENT = "Environment"
_RESET_SECONDS = 86400
_SC_ACTION_RESTART = 1
_AUTOMATIC, _MANUAL = 2, 3
_TRIES = 3


class Configuration(msgspec.Struct, frozen=True):
    """The arguments of `sc create`, and the actions when the service fails.

    `restart_seconds` is the delay of the restarts; None: the service stays down. `environment` are all items of its own
    environment (`NAME=value`); None: unchanged.
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

    def to_values(self) -> dict[str, Value]:
        """Return the registry values of the configuration; Transom sets no others."""
        result = {
            "ImagePath": build_expand_sz(self.image),
            "Start": build_dword(_AUTOMATIC if self.automatic else _MANUAL),
            "Description": build_sz(self.description),
        }
        if self.depends:
            result["DependOnService"] = build_multi_sz(self.depends)
        if self.restart_seconds is not None:
            result["FailureActions"] = build_binary(_encode_failure_actions(self.restart_seconds))
            result["FailureActionsOnNonCrashFailures"] = build_dword(1)
        if self.environment is not None:
            result[ENVIRONMENT] = build_multi_sz(self.environment)
        return result

    def to_edits(self) -> tuple[Edit, ...]:
        """Return the values as edits to import."""
        return tuple(SetValue(self.path, name, value) for name, value in self.to_values().items())


def list_differences(wanted: Configuration, present: Key) -> tuple[str, ...]:
    """List the names of the configuration's values that differ in a key; for the environment, if items are missing."""
    values = wanted.to_values()
    result = [name for name, value in values.items() if name != ENVIRONMENT and not _is_same_value(present.get(name), value)]
    return (*result, *((ENVIRONMENT,) if set(wanted.environment or ()) - set(_read_environment_items(present)) else ()))


def with_existing_items(wanted: Configuration, present: Key) -> Configuration:
    """Return the configuration for an existing service, with the environment items that others set, in order."""
    if not set(wanted.environment or ()) - set(_read_environment_items(present)):
        return msgspec.structs.replace(wanted, environment=None)
    ours = {_parse_item_name(item): item for item in wanted.environment or ()}
    kept = [ours.pop(_parse_item_name(item), item) for item in _read_environment_items(present)]
    return msgspec.structs.replace(wanted, environment=(*kept, *ours.values()))


def restore_environment(made: Configuration, present: Value | None, environment: Value | None) -> Value | None:
    """Restore the environment of a service whose former configuration returns; `environment` is the one with `made`.

    Items of the payload get their values from `present`. The proxy's variables stay: they are not part of a configuration.
    """
    ours = {_parse_item_name(item) for item in made.environment or ()} - set(VARIABLES)
    was = {_parse_item_name(item): item for item in (present.to_texts() if present else ())}
    items = [
        was.get(_parse_item_name(item)) if _parse_item_name(item) in ours else item
        for item in (environment.to_texts() if environment else ())
    ]
    kept = [item for item in items if item is not None]
    return present if present is not None and list(present.to_texts()) == kept else build_multi_sz(kept) if kept else None


def _read_environment_items(key: Key) -> tuple[str, ...]:
    value = key.get(ENVIRONMENT)
    return value.to_texts() if value else ()


def _parse_item_name(item: str) -> str:
    return item.partition("=")[0].upper()


def build_taken_over_service(present: Key) -> TakenOverService:
    """Record the command, type and start mode of a service that another operator created."""
    command = present.get("ImagePath")
    numbers = {
        name: value.to_number() for name in ("Type", "Start") if (value := present.get(name)) and value.type == ValueType.DWORD
    }
    return TakenOverService(command.decode_text() if command else "", numbers.get("Type", 0), numbers.get("Start", 0))


def has_configuration(key: Key | None) -> bool:
    """Return True if a desired key configures the service, rather than only marking it as managed."""
    return key is not None and key.get("ImagePath") is not None


def parse_configuration(name: str, key: Key) -> Configuration:
    """Parse the configuration in a desired key; the proxy's variables are not part of it."""
    image, depends, start = key.get("ImagePath"), key.get("DependOnService"), key.get("Start")
    actions, description = key.get("FailureActions"), key.get("Description")
    items = tuple(item for item in _read_environment_items(key) if _parse_item_name(item) not in VARIABLES)
    return Configuration(
        name,
        image.decode_text() if image else "",
        depends.to_texts() if depends else (),
        start is None or start.to_number() == _AUTOMATIC,
        description.decode_text() if description else "",
        struct.unpack_from("<I", actions.data, 24)[0] // 1000 if actions and len(actions.data) >= 28 else None,
        items or None,
    )


def _is_same_value(present: Value | None, wanted: Value) -> bool:
    if present is None:
        return False
    # REG_SZ and REG_EXPAND_SZ are read alike if there is nothing to expand
    if wanted.type in (1, 2) and present.type in (1, 2):
        return present.decode_text() == wanted.decode_text()
    return present == wanted


def _encode_failure_actions(seconds: int) -> bytes:
    """SERVICE_FAILURE_ACTIONS as the SCM stores it: five numbers, the last the actions' offset, then type and ms of each."""
    head = struct.pack("<5I", _RESET_SECONDS, 0, 0, _TRIES, 20)
    return head + struct.pack("<2I", _SC_ACTION_RESTART, seconds * 1000) * _TRIES
