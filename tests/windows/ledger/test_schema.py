"""What the ledger may hold, as it was when its version was last raised.

An older Transom deletes the lines of a ledger that it does not know, unless the ledger's version is higher than its own. So a
change of the schema raises `ledger.VERSION`, and `schema-<version>.json` is made anew: the test prints what it should hold.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from transom.windows import ledger
from transom.windows.host.host_state import Preparation
from transom.windows.host.ledger_entries import FormerValue, LedgerError
from transom.windows.host.queries import LEDGER
from transom.windows.ledger import Ledger
from transom.windows.parts.downtime import DeferredRestart, Downtime
from transom.windows.parts.environment import Environments
from transom.windows.parts.environment_items import LedgerItem, MachineVariable, ServiceEnvironment, ServiceVariable
from transom.windows.parts.installed import InstalledPayload, Output, OwnFile, OwnService, PreparedWindows, TakenOverService
from transom.windows.parts.powershell import OwnBlock
from transom.windows.parts.registry_value import OwnValue
from transom.windows.parts.trust import TrustedCertificate
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Key, NamedValue, Registry
from transom.windows.registry.values import build_dword, format_type_name

FULL = Ledger(
    salt=b"salt",
    state_hash="hash",
    environment=Environments(
        {"HTTP_PROXY": MachineVariable("set", "former", 1, FormerValue("a", 1, "00"), peer=True, booted=True, gone=2)},
        {
            "kubelet": ServiceEnvironment(
                FormerValue("Environment", 7, "00"), {"NO_PROXY": ServiceVariable("set", "former", (LedgerItem(0, "a=b"),), 1)}
            )
        },
    ),
    winhttp=OwnValue("00", "01", FormerValue("WinHttpSettings", 3, "00")),
    powershell=OwnBlock("set", "former", "was", created=True, joined=True),
    trust={"ROOT": {"00": TrustedCertificate(added=True, subject="CN=a", policy=True, was=FormerValue("Blob", 3, "00"))}},
    keys=(r"HKEY_LOCAL_MACHINE\SOFTWARE\a",),
    downtime=Downtime({"kubelet": "running", "other": "check"}, {"kubelet": DeferredRestart(1)}, ("kubelet",)),
    installed=InstalledPayload(
        "1.0.0",
        PreparedWindows(Preparation(True, "win-1", (10250,), (r"C:\k",)), 1),
        {"kubelet": OwnService(adopted=True, networks=("Overlay",), taken=TakenOverService("a.exe", 16, 2))},
        {r"C:\k\a.exe": OwnFile("digest", 1, aside=True, former="former", former_size=2, found="found")},
        (r"C:\k", r"C:\var"),
        (r"C:\k",),
        {"VIP": Output("10.0.0.1", 1)},
    ),
    manager="files",
)
"""A ledger with everything in it."""


def lines(full: Ledger) -> dict[str, Any]:
    """Each line of a ledger: its type, and what stands in it; of JSON the fields with the kinds of their values."""
    registry = Registry().apply_edits(ledger.build_edits(Registry(), full))
    found: dict[str, Any] = {}
    for key in registry:
        for named in (key.values or {}).values():
            text = named.value.decode_text() if named.value.type == 1 else ""
            shape = _shape(json.loads(text)) if text.startswith("{") else text
            found[rf"{key.path.removeprefix(LEDGER)}\{named.name}"] = [format_type_name(named.value.type), shape]
    return found


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__


def test_a_change_of_the_schema_has_a_version_of_its_own() -> None:
    path = Path(__file__).parent / f"schema-{ledger.VERSION}.json"
    now = json.dumps(lines(FULL), indent=1, sort_keys=True)
    assert path.exists() and json.loads(path.read_text()) == json.loads(now), (
        f"the ledger's schema changed: raise ledger.VERSION; {path.name} is to hold\n{now}"
    )


def test_the_ledger_with_everything_in_it_has_everything_in_it() -> None:
    """A field that is added to a struct has to be in FULL, or the test above would not see it."""
    empty = [
        f"{type(part).__name__}.{name}" for part in _parts(FULL) for name in part.__struct_fields__ if _is_default(part, name)
    ]
    assert empty == []


def _parts(value: object) -> list[msgspec.Struct]:
    if isinstance(value, msgspec.Struct):
        return [value, *(part for name in value.__struct_fields__ for part in _parts(getattr(value, name)))]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [part for item in inner for part in _parts(item)]


def _is_default(part: msgspec.Struct, name: str) -> bool:
    fields = msgspec.structs.fields(type(part))
    (field,) = (field for field in fields if field.name == name)
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return bool(getattr(part, name) == default)


def test_it_is_read_as_it_was_written() -> None:
    assert ledger.read(Registry().apply_edits(ledger.build_edits(Registry(), FULL))) == FULL


@pytest.mark.parametrize("version", [ledger.VERSION + 1, 2**32 - 1])
def test_a_newer_ledger_is_refused_before_anything_is_made_of_it(version: int) -> None:
    newer = Registry().apply_edits([*ledger.build_edits(Registry(), FULL), SetValue(LEDGER, "Version", build_dword(version))])
    tasks = Key(rf"{LEDGER}\Tasks", {"a": NamedValue("a", build_dword(1))})
    with pytest.raises(LedgerError, match="written by a newer Transom"):
        ledger.read(Registry([*newer, tasks]))
