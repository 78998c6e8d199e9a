"""One key for another in `administrators_authorized_keys`: other people's lines stay, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.windows.nodes.authorized_keys import has_key, insert_key_after, without_keys

OLD, NEW, OTHER = "ssh-ed25519 AAAAold=", "ecdsa-sha2-nistp256 AAAAnew", "ssh-rsa AAAAother"


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        (f"{OLD}", f"{OLD}\r\n{NEW}", f"{NEW}"),
        (f"{OLD} transom\r\n", f"{OLD} transom\r\n{NEW} transom\r\n", f"{NEW} transom\r\n"),
        (f"# {OLD}\n{OTHER} joe\n  {OLD} a b\n", None, f"# {OLD}\n{OTHER} joe\n  {NEW} a b\n"),
        (f'from="10.0.0.1 ,b",no-pty {OLD} x\n{OTHER}\n', None, f'from="10.0.0.1 ,b",no-pty {NEW} x\n{OTHER}\n'),
        (f'command="say \\" {OTHER}" {OLD}\n', None, f'command="say \\" {OTHER}" {NEW}\n'),
        (f"{OLD}\n{OTHER}\n{OLD} again\n", None, f"{NEW}\n{OTHER}\n"),
        (f"{OTHER} not {OLD}\n{OLD}\n", None, f"{OTHER} not {OLD}\n{NEW}\n"),
        (f"{NEW}\n{OLD}\n", f"{NEW}\n{OLD}\n", f"{NEW}\n"),
        ("\ufeff\r\n\r\n" + OLD, None, "\ufeff\r\n\r\n" + NEW),
    ],
)
def test_the_new_key_takes_the_place_of_the_old_one(before: str, between: str | None, after: str) -> None:
    held = insert_key_after(before.encode(), [OLD], NEW)
    assert held is not None
    assert between is None or held == between.encode()
    assert has_key(held, OLD)
    assert has_key(held, NEW)
    assert without_keys(held, [OLD]) == after.encode()


@pytest.mark.parametrize("content", ["", "\r\n", f"#{OLD}", f"{OTHER} {OLD}", "ssh-ed25519", f"{OLD}x", 'command="open ' + OLD])
def test_where_the_old_key_is_not_nothing_is_written(content: str) -> None:
    assert insert_key_after(content.encode(), [OLD], NEW) is None
    assert without_keys(content.encode(), [OLD]) == content.encode()


lines = st.one_of(
    st.sampled_from([OLD, NEW, OTHER, f"{OTHER} joe", f"no-pty {OLD} x", f"# {NEW}"]).map(str.encode), st.binary()
)


@given(st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n"]))))
def test_other_lines_stay_and_the_host_is_never_without_a_key(given_: list[tuple[bytes, bytes]]) -> None:
    content = b"".join(line + end for line, end in given_)
    held = insert_key_after(content, [OLD], NEW)
    if held is None:
        return
    assert has_key(held, NEW)
    assert has_key(held, OLD) == has_key(content, OLD)
    assert insert_key_after(held, [OLD], NEW) == held
    done = without_keys(held, [OLD])
    assert has_key(done, NEW)
    assert not has_key(done, OLD)
    assert without_keys(done, [NEW]) == without_keys(content, [OLD, NEW])
