"""What a change script says of the change, where it says what no script writes."""

import pytest

from transom.hosts.errors import Held, HostError, NotExpressible, ScriptFailed, Superseded
from transom.hosts.owner import Owner
from transom.hosts.scripts import install_script
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.steps.change import _ChangeResult
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.parts.installation import Install
from transom.windows.parts.service import Configuration
from transom.windows.planning.planner import Plan

OWNER = Owner("operator-1", "pid 1", 6)
DIGITS = "1" * 5000


@pytest.mark.parametrize(
    "line",
    ["superseded abc", f"superseded {DIGITS}", "superseded 7 8", "stuck 3", "unstarted kubelet", "lost 1 2 kubelet", "lost x"],
)
def test_a_line_that_no_script_writes_is_refused(line: str) -> None:
    with pytest.raises(ScriptFailed, match=line.split(maxsplit=1)[0]):
        _ChangeResult.from_bytes(f"begun\r\n{line}\r\n".encode())


def test_numbers_of_a_lock() -> None:
    superseded = _ChangeResult.from_bytes(b"begun\r\nsuperseded 7\r\n").build_not_started_error(OWNER)
    assert isinstance(superseded, Superseded)
    assert superseded.seen == 7
    for boot, item in (("0x1f", 31), ("none", None), ("0x" + DIGITS, None), ("1_0", None)):
        held = _ChangeResult.from_bytes(f"held\r\nholder {'x' * 5000}\r\nboot {boot}\r\n".encode()).build_not_started_error(
            OWNER
        )
        assert isinstance(held, Held)
        assert (held.boot, len(held.holder)) == (item, 256)


def test_tries_that_were_not_asked_for_are_none() -> None:
    said = f"fetched 0 7 0 407\r\nfetched 3 0 200 0\r\nfetched {DIGITS} 0 200 0\r\nfetched 0 {DIGITS} 0 0\r\n".encode()
    assert _ChangeResult.from_bytes(said).list_fetched(1) == (FetchAttempt(0, 7, 0, 407),)


def test_what_was_not_told_to_come_back_did_not() -> None:
    trouble = _ChangeResult.from_bytes(b"begun\r\nreversing\r\nlost 1- 1077- kubelet\r\n").find_change_error(
        Plan(), ServiceTimeouts()
    )
    assert isinstance(trouble, ScriptFailed)


@pytest.mark.parametrize(
    ("image", "written"),
    [(r"C:\k\x.exe", rb"C:\k\x.exe"), ('"C:\\a b\\\\"', rb"\"C:\a b\\\\\""), ("C:\\" + "\\" * 30000, b"C:" + b"\\" * 60002)],
)
def test_a_command_line_as_one_argument(image: str, written: bytes) -> None:
    (script,) = install_script.iter_script_files(Plan(install=Install(create=(Configuration("x", image),))))
    assert script.content == written + b"\r\n"


def test_a_command_line_of_somebody_else_that_cannot_be_written_is_said() -> None:
    with pytest.raises(NotExpressible, match="service x"):
        list(install_script.iter_script_files(Plan(install=Install(configure=(Configuration("x", "C:\\é.exe"),)))))
    assert issubclass(NotExpressible, HostError)
