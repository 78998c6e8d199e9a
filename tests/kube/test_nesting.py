"""How deep a JSON text is, and what is left of one that is too deep."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.controllers.clusters.values_readers import APPS, RELEASES
from transom.controllers.machines.machine_objects import CONTROL_PLANES, TEMPLATES
from transom.controllers.runtime.cached_objects import CLUSTERS, INSTANCES, NODES
from transom.kube import nesting
from transom.kube.decoding import TOO_DEEP, DecodeResult, decode_envelope, decode_json, decode_object, parse_metadata
from transom.kube.nesting import MAX_LEVELS, is_too_deep, truncate_nesting
from transom.kube.resources import BUNDLE_HOLDERS, SECRETS, Resource

TEXTS = st.text(st.sampled_from('a\\"{}[],: é\n\u0000\U0001f600'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=25,
)
KINDS: tuple[Resource[Any], ...] = (
    *(APPS, RELEASES, CLUSTERS, INSTANCES, NODES),
    *(TEMPLATES, CONTROL_PLANES, BUNDLE_HOLDERS, SECRETS),
)


def depth(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(depth, below), default=0)


def cut(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {key: cut(below, levels - 1) for key, below in value.items()} if levels else None
    if isinstance(value, list):
        return [cut(below, levels - 1) for below in value] if levels else None
    return value


def nested(levels: int, opening: str = '{"a":', inner: str = "1", closing: str = "}") -> bytes:
    return (opening * levels + inner + closing * levels).encode()


def with_deep(name: str, levels: int, **fields: str) -> bytes:
    """An object of which everything that nobody declares is deep."""
    deep = nested(levels).decode()
    metadata = f'{{"name":"{name}","namespace":"shop","resourceVersion":"7","managedFields":[{{"fieldsV1":{deep}}}]}}'
    spec = f'{{"values":{deep},"valuesFrom":[{{"kind":"ConfigMap","name":"v"}}]}}'
    return f'{{"metadata":{metadata},"spec":{spec},"status":{{"x":{deep}}}}}'.encode()


@given(VALUES, st.integers(0, 7), st.booleans())
def test_what_lies_deeper_is_null_and_all_else_as_it_was(value: Any, levels: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert is_too_deep(text, levels) == (depth(value) > levels)
    assert json.loads(truncate_nesting(text, levels)) == cut(value, levels)
    assert not is_too_deep(truncate_nesting(text, levels), levels)


@given(st.binary(max_size=60) | st.text('{}[]"\\:,1a', max_size=60).map(str.encode), st.integers(0, 5))
def test_what_is_no_json_ends_too_and_stays_none(data: bytes, levels: int) -> None:
    is_too_deep(data, levels)
    try:
        json.loads(data)
    except ValueError:
        left = truncate_nesting(data, levels)
        assert len(left) <= 4 * len(data) + 4
    else:
        json.loads(truncate_nesting(data, levels))


@pytest.mark.parametrize(
    "data",
    [nested(9_990), nested(9_990, "[", "", "]"), nested(5_000, '[{"a]}\\"":', "null", "}]"), b"[" * 1_500_000],
    ids=["objects", "lists", "brackets in keys", "never closed"],
)
def test_as_deep_as_kubernetes_takes(data: bytes) -> None:
    assert is_too_deep(data)
    assert not is_too_deep(truncate_nesting(data))


@pytest.mark.parametrize("resource", KINDS, ids=lambda item: item.kind)
@pytest.mark.parametrize("levels", [150, 250, 1_100, 9_900])
def test_an_object_of_any_depth_is_read_and_one_that_is_too_deep_named(resource: Resource[Any], levels: int) -> None:
    read = decode_object(resource, with_deep("one", levels))
    assert read.object is not None
    assert (read.object.metadata.name, read.object.metadata.namespace) == ("one", "shop")
    if levels < MAX_LEVELS:
        assert read.malformed is None
    else:
        assert read.malformed is not None
        assert read.malformed.in_use
        assert (read.malformed.problem, read.malformed.metadata.metadata.name) == (TOO_DEEP, "one")
    if resource is RELEASES:
        assert read.object.reads == {("shop", "v")}


def test_the_limit_is_the_same_where_the_decoder_itself_goes_deeper() -> None:
    """From Python 3.12 on a decoder in C does not heed the limit that is lifted here; our own walks still do."""
    script = (
        "import sys; sys.setrecursionlimit(60_000)\n"
        "import msgspec\n"
        "from tests.kube.test_nesting import *\n"
        "assert msgspec.json.decode(with_deep('one', 3_000))\n"
        "for resource in KINDS:\n"
        "    read = decode_object(resource, with_deep('one', 3_000))\n"
        "    assert read.object is not None and read.malformed.problem == TOO_DEEP, resource\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


async def test_one_deep_object_spoils_no_other_of_its_page() -> None:
    class Page(msgspec.Struct):
        items: list[msgspec.Raw]

    decode = msgspec.json.Decoder(Page).decode
    body = b'{"items":[' + b",".join((with_deep("a", 2), with_deep("deep", 9_900), with_deep("b", 2))) + b"]}"
    with pytest.raises(RecursionError):
        decode(body)
    page = await decode_envelope(decode, body)
    found: list[DecodeResult[Any]] = [decode_object(RELEASES, raw) for raw in page.items]
    assert [item.object.metadata.name for item in found if item.object is not None] == ["a", "deep", "b"]
    assert [item.malformed.problem if item.malformed else "" for item in found] == ["", TOO_DEEP, ""]


ODD: tuple[tuple[str, bytes], ...] = (
    ("a number of 5,000 digits", b'{"metadata":{"name":"odd","generation":' + b"1" * 5_000 + b"}}"),
    ("a number of 5,000 digits where none is declared", b'{"metadata":{"name":"odd"},"x":' + b"1" * 5_000 + b"}"),
    ("1e999", b'{"metadata":{"name":"odd"},"spec":{"a":1e999}}'),
    ("a byte that is not UTF-8", b'{"metadata":{"name":"odd","labels":{"a":"\xff"}}}'),
    ("a key that is not UTF-8", b'{"metadata":{"name":"odd"},"spec":{"\xff":1}}'),
    ("half a surrogate pair", b'{"metadata":{"name":"odd","labels":{"a":"\\ud800"}}}'),
    ("NUL", b'{"metadata":{"name":"odd"},"spec":{"\\u0000":"\\u0000"}}'),
    ("a name that is a number", b'{"metadata":{"name":5}}'),
    ("labels that are a list", b'{"metadata":{"name":"odd","labels":[]}}'),
    ("conditions that are texts", b'{"metadata":{"name":"odd"},"status":{"conditions":["a", 5, null]}}'),
    (
        "conditions of year 10000",
        b'{"metadata":{"name":"odd"},"status":{"conditions":[{"lastHeartbeatTime":"10000-01-01T00:00:00Z"}]}}',
    ),
    (
        "fields that are a text",
        b'{"metadata":{"name":"odd","managedFields":[{"manager":"transom","operation":"Apply","fieldsV1":{"f:spec":"x","f:data":5}}]}}',
    ),
    ("spec is null", b'{"metadata":{"name":"odd"},"spec":null,"status":null,"data":null}'),
    ("no object", b"[]"),
    ("null", b"null"),
    ("nothing", b""),
    ("cut off", b'{"metadata":{"name":"odd"'),
)


@pytest.mark.parametrize("resource", KINDS, ids=lambda item: item.kind)
@pytest.mark.parametrize("data", [data for _, data in ODD], ids=[name for name, _ in ODD])
def test_whatever_an_object_is_it_is_read_or_set_aside(resource: Resource[Any], data: bytes) -> None:
    read = decode_object(resource, data)
    assert (read.object is None) == (read.malformed is not None)
    if read.malformed is not None:
        assert read.malformed.problem
        assert not read.malformed.problem.startswith("a fault of Transom"), read.malformed.problem


@given(
    st.binary(max_size=200) | VALUES.map(lambda value: json.dumps({"metadata": value, "spec": value, "status": value}).encode())
)
def test_reading_ends_as_it_says(data: bytes) -> None:
    for resource in KINDS:
        read = decode_object(resource, data)
        assert read.object is not None or read.malformed is not None
        assert read.malformed is None or not read.malformed.problem.startswith("a fault of Transom"), read.malformed
    parse_metadata(data)
    try:
        decode_json(msgspec.json.decode, data)
    except msgspec.DecodeError as error:
        assert str(error)


@given(VALUES)
def test_values_are_counted_outside_strings(value: Any) -> None:
    def count(value: Any) -> int:
        """Brackets, and commas between items."""
        items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if items is None else 1 + max(len(items) - 1, 0) + sum(map(count, items))

    for text in (json.dumps(value).encode(), json.dumps(value, indent=1).encode()):
        assert not nesting.has_more_values(text, count(value))
        assert count(value) == 0 or nesting.has_more_values(text, count(value) - 1)


@pytest.mark.parametrize("part", [1, 3, 1 << 16])
def test_values_are_counted_across_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_PART", part)
    text = json.dumps([["a,b", '"', ""], {"{,": ",,"}, "\\"] * 50).encode()
    assert nesting.has_more_values(text, 349)
    assert not nesting.has_more_values(text, 350)
