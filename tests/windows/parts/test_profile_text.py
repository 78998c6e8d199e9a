"""The text of a profile: a block goes in and comes out, and every byte of somebody else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.windows.parts.profile_text import BEGIN, END, UnusableProfile, normalize_block, parse_profile

BLOCK = f"{BEGIN}: ours\n$a = 1\n{END}\n"
OTHER = f"{BEGIN}: ours\n$b = 22\n\n{END}\n"
ENCODINGS = {
    "latin-1": b"",
    "utf-8": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}


def insert(data: bytes, block: str = BLOCK) -> bytes:
    return parse_profile(data, lambda _: False).with_block(block).to_bytes()


def remove(data: bytes, *, joined: bool) -> bytes:
    return parse_profile(data, lambda _: False).without_block(joined=joined).to_bytes()


def is_joined(data: bytes) -> bool:
    return parse_profile(data, lambda _: False).is_incomplete_line


TEXTS = st.lists(
    st.one_of(st.sampled_from(["\r\n", "\n", "\r", "#", "Set-Alias a b", "'", " "]), st.text(max_size=5)), max_size=12
).map(lambda parts: "".join(parts).replace("\0", "").replace(BEGIN, "").replace("# SIG #", ""))
FILES = st.builds(
    lambda encoding, text: (
        ENCODINGS[encoding] + text.encode(encoding, "ignore")
        if encoding == "latin-1"
        else ENCODINGS[encoding] + text.encode(encoding, "replace")
    ),
    st.sampled_from(sorted(ENCODINGS)),
    TEXTS,
).filter(lambda data: data[:2] not in (b"\xff\xfe", b"\xfe\xff") or len(data) % 2 == 0)


@given(FILES)
def test_what_goes_in_comes_out(data: bytes) -> None:
    joined = is_joined(data)
    with_block = insert(data)
    assert remove(with_block, joined=joined) == data
    assert with_block.startswith(data), "nothing before the block is touched"
    profile = parse_profile(with_block, lambda _: False)
    assert profile.block is not None
    assert normalize_block(profile.block) == BLOCK
    assert insert(with_block, OTHER) == insert(data, OTHER), "a changed block takes the place of the former one"
    assert insert(with_block) == with_block


@given(FILES, TEXTS, st.booleans())
def test_what_a_person_writes_around_the_block_stays(data: bytes, added: str, behind: bool) -> None:
    """Behind it, and before it: the text between the two is ours."""
    joined = is_joined(data)
    profile = parse_profile(insert(data), lambda _: False)
    encoding = profile.encoding
    mark = profile.mark
    new = added.encode(encoding, "ignore").decode(encoding)
    edited = insert(data) + new.encode(encoding) if behind else mark + (new + "\n").encode(encoding) + insert(data)[len(mark) :]
    changed = insert(edited, OTHER)
    left = remove(changed, joined=joined)
    people = data[len(mark) :].decode(encoding)
    wanted = people + profile.line_end * (joined and bool(new)) + new if behind else f"{new}\n{people}"
    assert left == mark + wanted.encode(encoding)


@pytest.mark.parametrize(
    ("before", "line_end"),
    [(b"", b"\r\n"), (b"a", b"\r\n"), (b"a\n", b"\n"), (b"a\r\n", b"\r\n"), (b"a\nb\r\n", b"\r\n"), (b"a\nb", b"\n")],
)
def test_the_block_has_the_line_ends_of_the_file(before: bytes, line_end: bytes) -> None:
    block = insert(before)[len(before) :]
    assert block.count(line_end) == block.count(b"\n")
    assert (b"\r" in block) == (line_end == b"\r\n")


@pytest.mark.parametrize(
    ("text", "block"),
    [
        (f"{BEGIN}\nx\n{BLOCK}", BLOCK),
        (f"{END}\n{BLOCK}", BLOCK),
        (f"{BLOCK}{OTHER}", OTHER),
        (f"{BEGIN}\nx\n", None),
        (f"x {BEGIN}\nx\n{END}\n", None),
        (BLOCK.removesuffix("\n"), BLOCK),
        (BLOCK.replace("\n", "\r\n"), BLOCK),
    ],
)
def test_which_lines_are_the_block(text: str, block: str | None) -> None:
    profile = parse_profile(text.encode(), lambda _: False)
    assert (profile.block and normalize_block(profile.block)) == block
    assert profile.to_bytes() == text.encode()


def test_of_several_blocks_ours_is_taken() -> None:
    profile = parse_profile((BLOCK + OTHER).encode(), lambda block: block == BLOCK)
    assert profile.block == BLOCK


@pytest.mark.parametrize(
    "data",
    [
        "Set-Alias a b".encode("utf-16-le"),
        b"\xff\xfea",
        b"\xff\xfe\0\0\xff\xff\xff\xff",
        b"a\r\n# SIG # Begin signature block\r\n# MII\r\n# SIG # End signature block\r\n",
    ],
)
def test_what_is_not_changed(data: bytes) -> None:
    with pytest.raises(UnusableProfile):
        parse_profile(data, lambda _: False)
