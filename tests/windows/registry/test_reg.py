"""The `.reg` grammar: what is written, what is read, and that each is the other's inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.windows.registry import reg
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.reg import RegSyntaxError
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import (
    Value,
    ValueType,
    build_binary,
    build_dword,
    build_expand_sz,
    build_multi_sz,
    build_sz,
)

HEAD = "Windows Registry Editor Version 5.00\r\n\r\n"
KEY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Transom"


def file(body: str) -> bytes:
    return b"\xff\xfe" + (HEAD + body).encode("utf-16-le", "surrogatepass")


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


DATA = [
    ('"text"', build_sz("text")),
    ('""', build_sz("")),
    (r'"hunter2%^&!\"\\é x"', build_sz('hunter2%^&!"\\é x')),
    ('"é\u2028\u0085\U0001f600"', build_sz("é\u2028\u0085\U0001f600")),
    ('"\ud800x"', build_sz("\ud800x")),
    ("dword:0000001a", build_dword(26)),
    ("dword:ffffffff", build_dword(2**32 - 1)),
    ("hex:", build_binary(b"")),
    ("hex:00,ff,10", build_binary(b"\0\xff\x10")),
    ("hex(0):", Value(ValueType.NONE, b"")),
    ("hex(1):", Value(ValueType.SZ, b"")),
    ("hex(1):41", Value(ValueType.SZ, b"A")),
    ("hex(1):41,00", Value(ValueType.SZ, b"A\0")),
    ("hex(1):00,00,00,00", Value(ValueType.SZ, b"\0\0\0\0")),
    ("hex(1):41,00,00,00,42", Value(ValueType.SZ, b"A\0\0\0B")),
    ("hex(1):41,00,0d,00,0a,00,42,00,00,00", build_sz("A\r\nB")),
    ("hex(2):25,00,41,00,25,00,00,00", build_expand_sz("%A%")),
    ("hex(4):01,00", Value(ValueType.DWORD, b"\1\0")),
    ("hex(7):61,00,00,00,62,00,00,00,00,00", build_multi_sz(["a", "b"])),
    ("hex(7):00,00", build_multi_sz([])),
    ("hex(b):01,00,00,00,00,00,00,00", Value(ValueType.QWORD, (1).to_bytes(8, "little"))),
    ("hex(ffffffff):01", Value(2**32 - 1, b"\1")),
]


@pytest.mark.parametrize(("written", "value"), DATA, ids=[ascii(written) for written, _ in DATA])
def test_every_value_has_one_spelling(written: str, value: Value) -> None:
    edits = (SetValue(KEY, "n", value),)
    assert reg.render(edits) == file(f'[{KEY}]\r\n"n"={written}\r\n\r\n')
    assert reg.parse(reg.render(edits)) == edits


READ: list[tuple[str, str, tuple[Edit, ...]]] = [
    ("a key alone", f"[{KEY}]\r\n", (CreateKey(KEY),)),
    ("no line end after the last line", f"[{KEY}]", (CreateKey(KEY),)),
    ("a key that goes", f"[-{KEY}]\r\n", (DeleteKey(KEY),)),
    ("a key that is made anew", f"[-{KEY}]\r\n[{KEY}]\r\n@=-\r\n", (DeleteKey(KEY), DeleteValue(KEY, ""))),
    ("the default value", f'[{KEY}]\r\n@="x"\r\n', (SetValue(KEY, "", build_sz("x")),)),
    ("a value that goes", f'[{KEY}]\r\n"a"=-\r\n', (DeleteValue(KEY, "a"),)),
    ("names of every kind", f'[{KEY}]\r\n"a]=\\"\\\\"="x"\r\n', (SetValue(KEY, 'a]="\\', build_sz("x")),)),
    ("a bracket in a key", f"[{KEY}\\a]b]\r\n", (CreateKey(KEY + r"\a]b"),)),
    (
        "comments and blank lines",
        f'; [x]\r\n\r\n  ;y\r\n[{KEY}]\r\n;"a"="b"\r\n"c"="d" \r\n',
        (SetValue(KEY, "c", build_sz("d")),),
    ),
    (
        "line breaks in text, as Windows exports them",
        f'[{KEY}]\r\n"a"="b\r\n[c]\nd"\r\n',
        (SetValue(KEY, "a", build_sz("b\r\n[c]\nd")),),
    ),
    ("line breaks in text, as Wine exports them", f'[{KEY}]\r\n"a"="b\\r\\nd"\r\n', (SetValue(KEY, "a", build_sz("b\r\nd")),)),
    ("a line break in a name", f'[{KEY}]\r\n"a\nb"="c"\r\n', (SetValue(KEY, "a\nb", build_sz("c")),)),
    (
        "folded hex",
        f'[{KEY}]\r\n"a"=hex:01,\\\r\n  02,03,\\\r\n  04\r\n"b"=hex:\r\n',
        (SetValue(KEY, "a", build_binary(b"\1\2\3\4")), SetValue(KEY, "b", build_binary(b""))),
    ),
    ("upper-case hex", f'[{KEY}]\r\n"a"=hex(B):AB,\\\r\n  CD\r\n', (SetValue(KEY, "a", Value(11, b"\xab\xcd")),)),
    ("a short dword", f'[{KEY}]\r\n"a"=dword:1\r\n', (SetValue(KEY, "a", build_dword(1)),)),
    ("line feeds alone", f'[{KEY}]\n"a"="b"\n\n', (SetValue(KEY, "a", build_sz("b")),)),
]


@pytest.mark.parametrize(("body", "edits"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_what_is_read(body: str, edits: tuple[Edit, ...]) -> None:
    assert reg.parse(file(body)) == edits


BROKEN = [
    ("empty", b"", 1, 1),
    ("ANSI", b"Windows Registry Editor Version 5.00\r\n", 1, 1),
    ("version 4", b"\xff\xfe" + utf16("REGEDIT4\r\n"), 1, 1),
    ("half a character", file("[K]\r\n")[:-1], 3, 5),
    ("a value without a key", file('"a"="b"\r\n'), 3, 1),
    ("a value under a key that goes", file('[-K]\r\n"a"="b"\r\n'), 4, 1),
    ("a key that does not end", file("[K\r\n"), 3, 1),
    ("letters after a key", file("[K] x\r\n"), 3, 1),
    ("text without its end", file('[K]\r\n"a"="hunter2\r\n'), 4, 5),
    ("letters after the text", file('[K]\r\n"a"="hunter2"x\r\n'), 4, 5),
    ("an unknown escape", file('[K]\r\n"a"="b\\qhunter2"\r\n'), 4, 7),
    ("an unknown type", file('[K]\r\n"a"=qword:1\r\n'), 4, 5),
    ("nine digits", file('[K]\r\n"a"=dword:123456789\r\n'), 4, 5),
    ("a byte of one digit", file('[K]\r\n"a"=hex:1,22\r\n'), 4, 9),
    ("a comma too many", file('[K]\r\n"a"=hex:11,,22\r\n'), 4, 9),
    ("hex cut in a fold", file('[K]\r\n"a"=hex:11,\\'), 4, 5),
    ("hex cut after a fold", file('[K]\r\n"a"=hex:11,\\\r\n'), 4, 9),
    ("no data", file('[K]\r\n"a"='), 4, 5),
    ("no sign", file('[K]\r\n"a"\r\n'), 4, 1),
]


@pytest.mark.parametrize(("data", "line", "column"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_refused_says_where_and_quotes_nothing(data: bytes, line: int, column: int) -> None:
    with pytest.raises(RegSyntaxError) as caught:
        reg.parse(data)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: expected ")
    assert "hunter2" not in str(caught.value)


def test_hex_is_folded_where_regedit_folds_it() -> None:
    written = reg.render([SetValue(KEY, "DependOnService", Value(ValueType.MULTI_SZ, bytes(80)))]).decode("utf-16")
    # as in an export of Windows: 80 columns with the line's end, 25 bytes to a full line
    lines = [line for line in written.split("\r\n") if "00" in line and not line.startswith("Windows")]
    assert [line.count("00") for line in lines] == [18, 25, 25, 12]
    assert [len(line) for line in lines] == [80, 78, 78, 37]
    assert all(line.endswith(",\\") for line in lines[:-1])


def test_a_name_longer_than_a_line_still_has_a_byte_on_it() -> None:
    edits = (SetValue(KEY, "n" * 300, build_binary(bytes(30))),)
    assert reg.parse(reg.render(edits)) == edits


@pytest.mark.parametrize("path", ["", "-K", "a\0b", "a\nb", "a\rb"])
def test_a_key_that_the_format_cannot_name_is_refused(path: str) -> None:
    for edit in (CreateKey(path), DeleteKey(path), DeleteValue(path, "a")):
        with pytest.raises(ValueError, match="cannot name"):
            reg.render([edit])


def test_a_value_that_the_format_cannot_name_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        reg.render([SetValue(KEY, "a\0b", build_sz("x"))])


def test_an_export_is_a_registry_of_the_keys_that_it_names() -> None:
    exported = reg.parse_export(file(f'[{KEY}]\r\n"A"="b"\r\n@="c"\r\n\r\n[{KEY}\\Sub]\r\n\r\n'))
    assert [key.path for key in exported] == [KEY, KEY + r"\Sub"]
    assert exported.find_value(KEY.upper(), "a") == build_sz("b")
    assert exported.find_value(KEY, "") == build_sz("c")
    assert exported.find_key(r"HKEY_LOCAL_MACHINE\SOFTWARE") is None


_letters = st.characters(codec=None, exclude_characters="\0")


def _normal(text: str) -> str:
    # two lone surrogates side by side are one letter in UTF-16
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


names = st.text(_letters, max_size=20).map(_normal)
paths = (
    st.text(st.characters(codec=None, exclude_characters="\0\r\n"), min_size=1, max_size=30)
    .map(_normal)
    .filter(lambda path: not path.startswith("-"))
)
values = st.one_of(
    st.builds(Value, st.integers(0, 2**32 - 1) | st.sampled_from(ValueType), st.binary(max_size=200)),
    st.text(_letters, max_size=60).map(build_sz),
    st.text(st.sampled_from('\\"=-]\r\n;%^&!é\ud800'), max_size=20).map(build_sz),
)
edits = st.lists(
    st.one_of(
        st.builds(CreateKey, paths),
        st.builds(DeleteKey, paths),
        st.builds(DeleteValue, st.sampled_from(["K", "k"]) | paths, names),
        st.builds(SetValue, st.sampled_from(["K", "k"]) | paths, names, values),
    ),
    max_size=8,
)


@given(edits)
def test_what_is_rendered_parses_to_the_same_edits(made: list[Edit]) -> None:
    assert reg.parse(reg.render(made)) == tuple(made)


fragments = st.sampled_from(
    [
        "[",
        "]",
        "K",
        '"',
        "\\",
        "=",
        "@",
        "-",
        "dword:",
        "hex",
        "(7)",
        ":",
        "0a",
        ",",
        "\\\r\n  ",
        "\r\n",
        ";",
        " ",
        "\0",
        "\ud800",
    ]
)


@given(st.binary() | st.lists(fragments, max_size=30).map(lambda parts: file("".join(parts))))
def test_whatever_is_read_raises_nothing_else(data: bytes) -> None:
    try:
        made = reg.parse(data)
    except RegSyntaxError:
        return
    assert reg.parse(reg.render(made)) == made


@given(edits, st.data())
def test_a_file_that_was_cut_is_refused_or_read_up_to_a_line(made: list[Edit], data: st.DataObject) -> None:
    whole = reg.render(made)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        read = reg.parse(cut)
    except RegSyntaxError:
        return
    assert list(read[:-1]) == made[: max(0, len(read) - 1)]


@pytest.mark.parametrize(
    "body",
    [
        f"[-{KEY}]\r\n",
        f'[{KEY}]\r\n"a"=-\r\n',
        f"[{KEY}]\r\n@=-\r\n",
        f"[{'k' * (reg.LONGEST_NAME + 1)}]\r\n",
        f'[{KEY}]\r\n"{"n" * (reg.LONGEST_NAME + 1)}"="x"\r\n',
        f'[{KEY}]\r\n"a\\0b"="x"\r\n',
    ],
)
def test_what_an_export_never_holds_is_refused(body: str) -> None:
    reg.parse(file(body))
    with pytest.raises(RegSyntaxError, match="the content of an export"):
        reg.parse_export(file(body))


@pytest.mark.parametrize("raw", ["\\\\", '\\"', "\\n", "\\\\\\n", "\\r\\0\\\\", "a\\\\\\\\b", '\\\\\\"', "\\0"])
def test_escapes_in_any_number_and_order(raw: str) -> None:
    plain = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "\\r": "\r", "\\0": "\0"}
    wanted = "".join(plain.get(raw[at : at + 2], raw[at]) for at in _starts(raw))
    for times in (1, 2, 3):
        (edit,) = reg.parse(file(f'[{KEY}]\r\n"a"="{raw * times}"\r\n'))
        assert isinstance(edit, SetValue)
        assert edit.value.data == utf16(wanted * times + "\0")


def _starts(raw: str) -> list[int]:
    found, at = [], 0
    while at < len(raw):
        found.append(at)
        at += 2 if raw[at] == "\\" else 1
    return found


@given(
    st.lists(
        st.sampled_from(['"', "\\", "\r\n", "\n", " ", "a", "00,", "=", "hex:", "[", "]", ";", "-", "@", "dword:"]), max_size=30
    )
)
def test_nothing_but_its_own_error_is_raised(pieces: list[str]) -> None:
    for body in ("".join(pieces), f'[{KEY}]\r\n"a"=' + "".join(pieces), f'[{KEY}]\r\n"' + "".join(pieces)):
        try:
            reg.parse_export(file(body))
        except RegSyntaxError as error:
            assert error.line >= 1


def test_what_is_equal_in_another_order_is_another_file() -> None:
    keys = [CreateKey(r"HKEY_LOCAL_MACHINE\SOFTWARE\A"), CreateKey(r"HKEY_LOCAL_MACHINE\SOFTWARE\B")]
    one, other = Registry().apply_edits(keys), Registry().apply_edits(reversed(keys))
    assert one == other
    assert reg.parse(reg.render_registry(one))[-2:] == tuple(keys)
    assert reg.parse(reg.render_registry(other))[-2:] == tuple(reversed(keys))
