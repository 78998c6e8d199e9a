"""What a ledger says when it is not as Transom wrote it."""

import pytest

from transom.windows import ledger
from transom.windows.gathering import LEDGER
from transom.windows.registry import Registry, SetValue, Value, binary, dword, sz


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (LEDGER, "Version", dword(2)),
        (LEDGER, "Version", sz("1")),
        (ledger.MACHINE, "HTTP_PROXY", sz("not JSON, hunter2")),
        (ledger.MACHINE, "HTTP_PROXY", binary(b"hunter2")),
        (ledger.MACHINE, "HTTP_PROXY", sz('{"set": 1, "was": "hunter2"}')),
        (rf"{ledger.SERVICES}\containerd", "", sz('{"value": "hunter2"}')),
        (rf"{ledger.SERVICES}\containerd", "NO_PROXY", sz("[]")),
        (rf"{ledger.CERTIFICATES}\ROOT", "00", sz("{}")),
    ],
)
def test_a_damaged_entry_is_named_and_not_quoted(path: str, name: str, value: Value) -> None:
    registry = Registry().apply([SetValue(LEDGER, "Salt", binary(b"s")), SetValue(path, name, value)])
    with pytest.raises(ledger.LedgerError) as error:
        ledger.read(registry)
    assert path in str(error.value)
    assert "hunter2" not in repr(error.value) + repr(error.value.__cause__) + repr(error.value.__suppress_context__)


def test_no_key_is_an_empty_ledger() -> None:
    assert not ledger.read(Registry())
    assert ledger.edits(Registry(), ledger.Ledger()) == ()
