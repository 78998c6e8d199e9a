"""What scripts print: on the simulated host, and in Wine's cmd.exe, which is an implementation of its own."""

import asyncio
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.machine import Machine
from tests.winsim.consoles import booted, console
from tests.winsim.snippets import DIRECTORY, SNIPPETS, Snippet

from winsim import batch
from winsim.batch import BatchSyntaxError, Incomplete


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
async def test_the_simulator_prints_what_windows_prints(snippet: Snippet) -> None:
    host = await booted()
    host.files.write(rf"{DIRECTORY}\s.cmd", snippet.script)
    printed = await console(host, rf"cmd.exe /d /c {DIRECTORY}\s.cmd", DIRECTORY)
    assert printed.output == snippet.output
    assert host.unknown == (["frobnicate"] if b"frobnicate" in snippet.script else [])
    held = [file.name for file in host.files.get_directory(DIRECTORY).entries.values() if file.holds]
    assert held == []


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


@pytest.mark.lab
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_wine_prints_it_too(snippet: Snippet, machine: Machine) -> None:
    place = machine.find_path(DIRECTORY)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / "s.cmd").write_bytes(snippet.script)
    done = machine.run("cmd", "/d", "/c", rf"cd /d {DIRECTORY} & {DIRECTORY}\s.cmd")
    assert done.stdout.decode("cp437").replace("\r\n", "\n") == snippet.wine


REFUSED = [
    ("an empty side of a comparison", "if ==x echo a", "echo was unexpected at this time."),
    ("no comparison", "if a b echo a", "b was unexpected at this time."),
    ("no command", "if a==a", "The syntax of the command is incorrect."),
    ("no do", "for %%x in (a) echo a", "echo was unexpected at this time."),
    ("a parenthesis too many", "if a==a (echo a) b)", "b was unexpected at this time."),
    ("a redirection to nowhere", "echo a >", "The syntax of the command is incorrect."),
    ("a block without its end", "if a==a (\necho a", "The syntax of the command is incorrect."),
]


@pytest.mark.parametrize(("line", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_a_line_that_cmd_cannot_read_ends_the_script(line: str, said: str) -> None:
    host = await booted()
    host.files.write(rf"{DIRECTORY}\s.cmd", f"@echo off\necho before\n{line}\necho after\n".encode())
    printed = await console(host, rf"{DIRECTORY}\s.cmd", DIRECTORY)
    assert printed.output == "before\n"
    assert printed.error == f"{said}\n"
    assert printed.code == 255


async def test_a_script_that_is_removed_while_it_runs_ends() -> None:
    host = await booted()
    host.files.write(rf"{DIRECTORY}\s.cmd", b'@echo off\r\necho a\r\ndel "%~f0"\r\necho b\r\n')
    printed = await console(host, rf"{DIRECTORY}\s.cmd", DIRECTORY)
    assert (printed.output, printed.error) == ("a\n", "The batch file cannot be found.\n")


async def test_what_is_not_simulated_is_written_down() -> None:
    host = await booted()
    host.files.write(rf"{DIRECTORY}\s.cmd", b"frobnicate a\r\nC:\\none\\x.exe\r\nC:\\t\\x\\own.exe\r\n")
    host.files.write(rf"{DIRECTORY}\own.exe", b"\x7fELF")
    printed = await console(host, rf"{DIRECTORY}\s.cmd", DIRECTORY)
    assert host.unknown == ["frobnicate", r"C:\none\x.exe", rf"{DIRECTORY}\own.exe"]
    assert "'frobnicate' is not recognized as an internal or external command," in printed.error
    assert "The system cannot find the path specified." in printed.error


async def test_a_loop_without_an_end_leaves_room_for_others() -> None:
    host = await booted()
    host.files.write(rf"{DIRECTORY}\s.cmd", b":a\r\nset /a n+=1\r\ngoto a\r\n")
    work = asyncio.create_task(console(host, rf"{DIRECTORY}\s.cmd", DIRECTORY))
    await asyncio.sleep(0.01)
    assert not work.done()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


PIECES = (
    "(",
    ")",
    "if",
    "not",
    "exist",
    "==",
    "else",
    "for",
    "%x",
    "in",
    "do",
    "&",
    "&&",
    "||",
    "|",
    ">",
    "2>nul",
    '"',
    "^",
    "rem",
)
pieces = st.sampled_from([*PIECES, *(f"{piece} " for piece in PIECES), "\n"])


@given(st.lists(pieces, max_size=25).map("".join) | st.text(max_size=40))
def test_any_line_is_read_or_refused(line: str) -> None:
    try:
        batch.parse(line)
    except (BatchSyntaxError, Incomplete):
        return
