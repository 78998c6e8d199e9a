"""The merge of our items into a service's environment, as a table: before, wishes, after, undone."""

import functools
import re

import pytest

from transom.windows.host.ledger_entries import compute_value_digest
from transom.windows.parts.environment_items import (
    DesiredItems,
    find_type_fault,
    merge_machine_variable,
    merge_service_environment,
)
from transom.windows.registry.registry import NamedValue
from transom.windows.registry.values import Value, ValueType, build_binary, build_expand_sz, build_multi_sz, build_sz

DIGEST = functools.partial(compute_value_digest, b"0123456789abcdef")
HTTP, HTTPS, NO = "HTTP_PROXY=http://p.x", "HTTPS_PROXY=http://p.x", "NO_PROXY=.svc"
ALL = {"HTTP_PROXY": DesiredItems("http://p.x"), "HTTPS_PROXY": DesiredItems("http://p.x"), "NO_PROXY": DesiredItems(".svc")}
HTTP_ONLY = {"HTTP_PROXY": DesiredItems("http://p.x")}

CASES = [
    # before, wishes, after, actions
    (None, ALL, [HTTP, HTTPS, NO], ["add", "add", "add"]),
    ([], ALL, [HTTP, HTTPS, NO], ["add", "add", "add"]),
    (["A=1", "B=2"], HTTP_ONLY, ["A=1", "B=2", HTTP], ["add"]),
    (["HTTP_PROXY=http://old.x", "A=1"], HTTP_ONLY, [HTTP, "A=1"], ["replace"]),
    (["A=1", "http_proxy=http://old.x", "B=2"], HTTP_ONLY, ["A=1", HTTP, "B=2"], ["replace"]),
    (["HTTP_PROXY=a", "A=1", "http_proxy=b"], HTTP_ONLY, [HTTP, "A=1"], ["replace"]),
    (["HTTP_PROXY=a", "A=1", HTTP], HTTP_ONLY, [HTTP, "A=1"], ["replace"]),
    (["A=1", HTTP], HTTP_ONLY, ["A=1", HTTP], []),
    (["A=1", HTTP], ALL, ["A=1", HTTP, HTTPS, NO], ["add", "add"]),
    (["HTTP_PROXY=", "A=1"], HTTP_ONLY, [HTTP, "A=1"], ["replace"]),
    (["HTTP_PROXY", "A=1"], HTTP_ONLY, ["HTTP_PROXY", "A=1", HTTP], ["add"]),
    (["=HTTP_PROXY=x", "A=1"], HTTP_ONLY, ["=HTTP_PROXY=x", "A=1", HTTP], ["add"]),
    (["A=%PATH%", "B=é\ud800"], HTTP_ONLY, ["A=%PATH%", "B=é\ud800", HTTP], ["add"]),
    (["A=1"], {}, ["A=1"], []),
]


@pytest.mark.parametrize(("before", "wishes", "after", "actions"), CASES)
def test_merge_and_undo(
    before: list[str] | None, wishes: dict[str, DesiredItems], after: list[str], actions: list[str]
) -> None:
    value = None if before is None else build_multi_sz(before)
    merged = merge_service_environment(value, None, wishes, DIGEST)
    assert list(merged.value.to_texts() if merged.value else ()) == after
    assert [change.action for change in merged.changes] == actions
    again = merge_service_environment(merged.value, merged.entry, wishes, DIGEST)
    assert (again.value, again.entry, again.changes) == (merged.value, merged.entry, ())
    undone = merge_service_environment(merged.value, merged.entry, {}, DIGEST)
    assert (undone.value, undone.entry) == (value, None)
    # the ledger comes before the value: an import that was cut short may have left it as it was
    assert merge_service_environment(value, merged.entry, {}, DIGEST).value == value


@pytest.mark.parametrize("value", [build_sz("HTTP_PROXY=x"), build_expand_sz("A=1"), build_binary(b"\0")])
def test_a_value_of_another_type_is_named(value: Value) -> None:
    fault = find_type_fault("containerd", value)
    assert fault is not None
    assert re.match(r"containerd: .* Environment is REG_\w+; Windows reads REG_MULTI_SZ", fault)
    assert find_type_fault("containerd", build_multi_sz(["A=1"])) is find_type_fault("containerd", None) is None


def test_an_absent_value_and_an_empty_one_come_back_as_they_were() -> None:
    for before in (None, Value(ValueType.MULTI_SZ, b""), build_multi_sz([])):
        merged = merge_service_environment(before, None, ALL, DIGEST)
        assert merge_service_environment(merged.value, merged.entry, {}, DIGEST).value == before


MACHINE = [
    None,
    NamedValue("HTTP_PROXY", build_sz("http://old.x")),
    NamedValue("Http_Proxy", build_expand_sz("http://%HOST%:3128")),
    NamedValue("HTTP_PROXY", build_sz("")),
    NamedValue("HTTP_PROXY", Value(ValueType.SZ, b"")),
]


@pytest.mark.parametrize("held", MACHINE)
def test_a_machine_variable_comes_back_with_type_spelling_and_bytes(held: NamedValue | None) -> None:
    merged = merge_machine_variable("HTTP_PROXY", held, "http://p.x", entry=None, digest=DIGEST, boot=7)
    assert merged.value == build_sz("http://p.x")
    assert merged.entry is not None
    assert merged.entry.boot == 7
    assert merged.value is not None
    now = NamedValue(merged.name, merged.value)
    undone = merge_machine_variable("HTTP_PROXY", now, None, entry=merged.entry, digest=DIGEST, boot=8)
    assert undone.value == (held.value if held else None)
    assert held is None or undone.name == held.name
    assert undone.entry is None


def test_a_machine_variable_that_was_right_before_is_not_ours() -> None:
    held = NamedValue("HTTP_PROXY", build_sz("http://p.x"))
    merged = merge_machine_variable("HTTP_PROXY", held, "http://p.x", entry=None, digest=DIGEST, boot=7)
    assert (merged.entry, merged.change, merged.value) == (None, None, held.value)


def test_secrets_do_not_show_in_what_is_printed() -> None:
    wish = {"HTTP_PROXY": DesiredItems("http://a:hunter2@p.x")}
    merged = merge_service_environment(build_multi_sz(["HTTP_PROXY=http://b:hunter2@q.x"]), None, wish, DIGEST)
    assert "hunter2" not in repr((wish, merged, merged.changes))
