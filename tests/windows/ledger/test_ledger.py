"""What a ledger says when it is not as Transom wrote it."""

import pytest

from transom.windows import ledger
from transom.windows.host.ledger_entries import LedgerError
from transom.windows.host.queries import LEDGER
from transom.windows.parts import trust
from transom.windows.parts.downtime import DEFERRED
from transom.windows.parts.environment import MACHINE_LINES, SERVICE_LINES
from transom.windows.parts.installed import INSTALLED
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Key, NamedValue, Registry
from transom.windows.registry.values import Value, build_binary, build_dword, build_sz


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (LEDGER, "Version", build_dword(ledger.VERSION + 1)),
        (LEDGER, "Version", build_sz("1")),
        (MACHINE_LINES, "HTTP_PROXY", build_sz("not JSON, hunter2")),
        (MACHINE_LINES, "HTTP_PROXY", build_binary(b"hunter2")),
        (MACHINE_LINES, "HTTP_PROXY", build_sz('{"set": 1, "was": "hunter2"}')),
        (rf"{SERVICE_LINES}\containerd", "", build_sz('{"value": "hunter2"}')),
        (rf"{SERVICE_LINES}\containerd", "NO_PROXY", build_sz("[]")),
        (rf"{trust.LINES}\ROOT", "00", build_sz("{}")),
    ],
)
def test_a_damaged_entry_is_named_and_not_quoted(path: str, name: str, value: Value) -> None:
    registry = Registry().apply_edits([SetValue(LEDGER, "Salt", build_binary(b"s")), SetValue(path, name, value)])
    with pytest.raises(LedgerError) as error:
        ledger.read(registry)
    assert path in str(error.value)
    assert "hunter2" not in repr(error.value) + repr(error.value.__cause__) + repr(error.value.__suppress_context__)


def test_no_key_is_an_empty_ledger() -> None:
    assert not ledger.read(Registry())
    assert ledger.build_edits(Registry(), ledger.Ledger()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"boot":' + "1" * 5000 + "}",
        '{"boot":12345678901}',
        '{"boot":1.5}',
        '{"boot":NaN}',
        '{"boot":1e999}',
    ],
)
def test_json_that_transom_does_not_write_is_refused(text: str) -> None:
    held = Registry([Key(LEDGER, {}), Key(DEFERRED, {"kubelet": NamedValue("kubelet", build_sz(text))})])
    with pytest.raises(LedgerError, match=r"Deferred\\kubelet: not as Transom writes it"):
        ledger.read(held)


@pytest.mark.parametrize(
    "text",
    [
        '{"value":{"name":"E","type":7,"data":"zz"}}',
        '{"value":{"name":"E","type":7,"data":"0"}}',
        '{"value":{"name":"E","type":-1,"data":""}}',
        '{"value":{"name":"E","type":4294967296,"data":""}}',
    ],
)
def test_a_value_from_before_that_no_registry_has_is_refused(text: str) -> None:
    held = Registry([Key(LEDGER, {}), Key(rf"{SERVICE_LINES}\x", {"": NamedValue("", build_sz(text))})])
    with pytest.raises(LedgerError):
        ledger.read(held)


@pytest.mark.parametrize("item", [r'[-1,"a"]', r'[1,""]', r'[1,"a\u0000b"]'])
def test_an_item_from_before_that_no_list_has_is_refused(item: str) -> None:
    text = '{"set":"x","was":[' + item + "]}"
    beside = NamedValue("", build_sz('{"value":null}'))
    held = Registry([Key(LEDGER, {}), Key(rf"{SERVICE_LINES}\x", {"": beside, "a": NamedValue("A", build_sz(text))})])
    with pytest.raises(LedgerError):
        ledger.read(held)


def test_more_than_transom_writes_is_refused() -> None:
    for path, count in ((MACHINE_LINES, 1_001), (rf"{INSTALLED}\Files", 5_001)):
        values = {f"n{number}": NamedValue(f"n{number}", build_sz('{"set":"x"}')) for number in range(count)}
        with pytest.raises(LedgerError, match="more than"):
            ledger.read(Registry([Key(LEDGER, {}), Key(path, values)]))
