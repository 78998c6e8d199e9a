"""What is rendered is what Wine's `reg import` reads, and its `reg export` is what is parsed."""

from collections.abc import Iterator

import pytest
from lab.machine import Machine

from transom.windows.registry import reg
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.values import Value, build_binary, build_dword, build_expand_sz, build_multi_sz, build_sz

pytestmark = pytest.mark.lab

KEY = r"HKEY_LOCAL_MACHINE\Software\TransomRoundTrip"
VALUES = [
    *map(
        build_sz,
        ["", "text", 'hunter2%PATH%^&!"\\é x', "é\u2028\u0085\U0001f600", "\ud800x", "a\r\nb", "x" * 60_000, "[-K]", ";"],
    ),
    *map(build_dword, [0, 26, 2**32 - 1]),
    *(build_binary(bytes(range(256))[:size]) for size in (0, 1, 17, 18, 19, 42, 43, 44, 256)),
    *(build_expand_sz(text) for text in ("%SystemRoot%", "a\\b")),
    *(build_multi_sz(items) for items in ([], ["a"], ["HTTP_PROXY=http://u:hunter2%&@p", "NO_PROXY=a,b", "X="])),
    Value(0, b""),
    Value(11, bytes(8)),
    Value(0x99, b"\1\2"),
    Value(2**32 - 1, b"\1"),
]
NAMES = ["", "a]=", 'q"q', "b\\b", "e=é", "x" * 200, ";c", " lead", "\U0001f600", "\ud800", "-", "@"]
KEYS = ["s]b", "s[", 's"', "s é", " s"]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


def imported(machine: Machine, edits: list[Edit]) -> bytes:
    """The export of KEY after `edits`."""
    machine.find_path(r"C:\in.reg").write_bytes(reg.render(edits))
    for words in (("delete", KEY, "/f"), ("import", r"C:\in.reg"), ("export", KEY, r"C:\out.reg", "/y")):
        machine.run("reg", *words)
    return machine.find_path(r"C:\out.reg").read_bytes()


def test_every_value_name_and_key_survives(machine: Machine) -> None:
    edits: list[Edit] = [SetValue(KEY, f"value {number}", value) for number, value in enumerate(VALUES)]
    edits += [SetValue(KEY, name, build_sz("x")) for name in NAMES]
    edits += [CreateKey(rf"{KEY}\{name}") for name in KEYS]
    exported = imported(machine, edits)
    held = reg.parse_export(exported)
    for edit in edits:
        key = held.find_key(edit.path)
        assert key is not None, edit
        if isinstance(edit, SetValue):
            assert key.get(edit.name) == edit.value, edit
    assert len(held) == 1 + len(KEYS)
    assert len(held.find_key(KEY).values or {}) == len(VALUES) + len(NAMES)  # type: ignore[union-attr]


def test_an_export_is_rendered_to_the_same_bytes(machine: Machine) -> None:
    # Wine writes line breaks as letters, which Windows would not read as such: hex is written instead
    values = [value for value in VALUES if not (value.type == 1 and "\n" in value.decode_text())]
    edits: list[Edit] = [SetValue(KEY, f"value {number}", value) for number, value in enumerate(values)]
    exported = imported(machine, [*edits, *(CreateKey(rf"{KEY}\{name}") for name in KEYS)])
    assert reg.render(reg.parse(exported)) == exported


def test_deletions(machine: Machine) -> None:
    machine.find_path(r"C:\in.reg").unlink(missing_ok=True)
    edits: list[Edit] = [
        SetValue(KEY, "a", build_sz("1")),
        SetValue(KEY, "", build_sz("1")),
        SetValue(KEY + r"\b\c", "d", build_sz("1")),
    ]
    edits += [DeleteValue(KEY, "A"), DeleteValue(KEY, ""), DeleteKey(KEY + r"\B"), SetValue(KEY, "e", build_sz("1"))]
    held = reg.parse_export(imported(machine, edits))
    assert [key.path for key in held] == [KEY]
    assert held.find_key(KEY).values.keys() == {"e"}  # type: ignore[union-attr]


def test_every_key_of_a_new_host_is_parsed(machine: Machine) -> None:
    machine.run("reg", "export", r"HKLM\System", r"C:\out.reg", "/y")
    exported = machine.find_path(r"C:\out.reg").read_bytes()
    edits = reg.parse(exported)
    assert len(edits) > 100
    assert reg.parse(reg.render(edits)) == edits
