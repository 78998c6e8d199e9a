"""Access lists of the simulated host: what they let an ordinary user do, and the programs that change them."""

from collections.abc import Callable

import pytest
from tests.winsim.consoles import booted, console

from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.values import build_sz
from winsim import Host, access
from winsim.filesystem import FileError, SimulatedDirectory
from winsim.users import OrdinaryUser

CLOSED = "*S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F"
OPEN = CLOSED + " *S-1-5-32-545:(OI)(CI)RX *S-1-3-0:(OI)(CI)(IO)F"
BELOW = "*S-1-5-32-545:(CI)(IO)(WD,AD)"
KEY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Transom"
SHELL = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -Command "
Move = Callable[[OrdinaryUser], object]


def outcome(user: OrdinaryUser, move: Move) -> int:
    """0, or the number of the error."""
    try:
        move(user)
    except FileError as refused:
        return refused.code
    return 0


# Windows Server 2022 STIG: WN22-00-000140 of C:\, WN22-00-000160 of C:\Windows
FRESH: list[tuple[str, Move, int]] = [
    ("a directory in the root", lambda user: user.make_directory(r"C:\mine"), 0),
    ("a file in the root", lambda user: user.write(r"C:\mine.txt", b""), 5),
    ("a directory in C:\\ProgramData", lambda user: user.make_directory(r"C:\ProgramData\Transom"), 0),
    ("a directory in C:\\Windows", lambda user: user.make_directory(r"C:\Windows\Transom"), 5),
    ("a junction in C:\\Windows", lambda user: user.make_junction(r"C:\Windows\Transom", r"C:\Users"), 5),
    ("a file in C:\\Windows", lambda user: user.write(r"C:\Windows\a.cmd", b""), 5),
    ("a file in its TEMP", lambda user: user.write(r"C:\Windows\TEMP\a.cmd", b""), 0),
    ("another program", lambda user: user.write(r"C:\Windows\System32\reg.exe", b""), 5),
    ("reading a program", lambda user: user.read(r"C:\Windows\System32\reg.exe"), 0),
    ("another name for Windows", lambda user: user.rename(r"C:\Windows", r"C:\Old"), 5),
    ("a list of administrators' keys", lambda user: user.write(r"C:\ProgramData\ssh\administrators_authorized_keys", b""), 5),
    ("looking into the administrator's home", lambda user: user.list_names(r"C:\Users\Administrator"), 5),
    ("the list of what is not his", lambda user: user.open_to_all(r"C:\ProgramData"), 5),
]


@pytest.mark.parametrize(("move", "code"), [case[1:] for case in FRESH], ids=[case[0] for case in FRESH])
async def test_what_an_ordinary_user_may_do_on_a_fresh_host(move: Move, code: int) -> None:
    host = await booted()
    assert outcome(OrdinaryUser(host), move) == code


async def test_without_the_rule_he_may_do_everything() -> None:
    host = await booted()
    host.files.enforced = False
    user = OrdinaryUser(host)
    user.write(r"C:\Windows\System32\reg.exe", b"mine")
    user.rename(r"C:\ProgramData\ssh", r"C:\ProgramData\mine")
    assert user.list_names(r"C:\Users\Administrator") == []


async def test_who_makes_something_owns_it_and_may_let_others_in() -> None:
    host = await booted()
    joe, ann = OrdinaryUser(host), OrdinaryUser(host, "S-1-5-21-1-2-3-1002")
    joe.make_directory(r"C:\ProgramData\joe")
    joe.write(r"C:\ProgramData\joe\a.txt", b"a")
    assert outcome(ann, lambda user: user.write(r"C:\ProgramData\joe\a.txt", b"b")) == 5
    assert outcome(ann, lambda user: user.rename(r"C:\ProgramData\joe", r"C:\ProgramData\ann")) == 5
    joe.open_to_all(r"C:\ProgramData\joe")
    ann.write(r"C:\ProgramData\joe\a.txt", b"b")
    ann.rename(r"C:\ProgramData\joe", r"C:\ProgramData\ann")
    assert joe.read(r"C:\ProgramData\ann\a.txt") == b"b"


async def test_a_closed_directory_is_closed_with_all_below_it() -> None:
    host = await booted()
    host.files.write(r"C:\k\sub\token.txt", b"secret")
    user = OrdinaryUser(host)
    assert user.read(r"C:\k\sub\token.txt") == b"secret"
    assert (await console(host, rf"icacls.exe C:\k /inheritance:r /grant:r {CLOSED}")).code == 0
    moves: list[Move] = [
        lambda user: user.read(r"C:\k\sub\token.txt"),
        lambda user: user.list_names(r"C:\k\sub"),
        lambda user: user.make_directory(r"C:\k\x"),
        lambda user: user.rename(r"C:\k", r"C:\j"),
        lambda user: user.remove(r"C:\k\sub\token.txt"),
        lambda user: user.write(r"C:\k\sub\token.txt", b""),
    ]
    assert [outcome(user, move) for move in moves] == [5] * len(moves)
    # a file that is moved keeps its list, until the one above it changes
    host.files.write(r"C:\j\a.txt", b"")
    node = host.files.find_entry(r"C:\k\sub\token.txt")
    assert node is not None
    host.files.rename(node, r"C:\j\token.txt")
    assert outcome(user, lambda user: user.read(r"C:\j\token.txt")) == 5


def rights(directory: SimulatedDirectory) -> dict[tuple[str, int], int]:
    """What each entry's SID has, and where: two entries may say what one says."""
    found: dict[tuple[str, int], int] = {}
    for ace in directory.acl:
        found[ace.sid, ace.flags] = found.get((ace.sid, ace.flags), 0) | ace.rights
    return found


async def test_below_an_open_parent_things_are_as_below_the_root() -> None:
    host = await booted()
    host.files.make_directories(r"C:\var")
    for grant in (f"/inheritance:r /grant:r {OPEN}", f"/grant {BELOW}"):
        assert (await console(host, rf"icacls.exe C:\var {grant}")).code == 0
    host.files.make_directories(r"C:\var\volume\sub")
    host.files.make_directories(r"C:\plain\volume\sub")
    for made in ("volume", r"volume\sub"):
        ours, plain = host.files.get_directory(rf"C:\var\{made}"), host.files.get_directory(rf"C:\plain\{made}")
        assert rights(ours) == rights(plain)
    user = OrdinaryUser(host)
    assert user.list_names(r"C:\var") == ["volume"]
    moves: list[Move] = [
        lambda user: user.make_directory(r"C:\var\x"),
        lambda user: user.write(r"C:\var\x.txt", b""),
        lambda user: user.rename(r"C:\var", r"C:\old"),
        lambda user: user.rename(r"C:\var\volume", r"C:\var\old"),
    ]
    assert [outcome(user, move) for move in moves] == [5] * len(moves)
    user.write(r"C:\var\volume\mine.txt", b"a")
    user.write(r"C:\var\volume\mine.txt", b"b")
    user.remove(r"C:\var\volume\mine.txt")


async def test_a_junction_leads_elsewhere_and_goes_alone() -> None:
    host = await booted()
    host.files.write(r"C:\precious\a.txt", b"a")
    host.files.make_directories(r"C:\t")
    host.files.make_junction(r"C:\t\link", r"C:\precious")
    assert host.files.read(r"C:\t\link\a.txt") == b"a"
    assert (await console(host, r"if exist C:\t\link\ (echo yes)")).output == "yes\n"
    assert (await console(host, r"rmdir /s /q C:\t")).code == 0
    assert host.files.read(r"C:\precious\a.txt") == b"a"
    host.files.make_junction(r"C:\link", r"C:\precious")
    assert (await console(host, r"move C:\link C:\other")).code == 0
    assert (await console(host, r"rmdir C:\other")).code == 0
    assert (host.files.find_entry(r"C:\other"), host.files.read(r"C:\precious\a.txt")) == (None, b"a")


@pytest.mark.parametrize(
    "line",
    [
        r"icacls.exe C:\d /grant:r *S-1-5-18:(OI)(XX)F",
        r"icacls.exe C:\d /grant:r *S-1-5-18:(ZZ)",
        r"icacls.exe C:\d /grant:r Administrators:F",
        r"icacls.exe C:\d /inheritance:x",
        r"icacls.exe C:\d /deny *S-1-5-32-545:F",
        r"icacls.exe C:\d /t /reset",
        r"icacls.exe C:\d *S-1-5-18:F",
        r"icacls.exe C:\nothing",
        r"regini.exe C:\nothing",
    ],
)
async def test_what_the_programs_do_not_know_is_an_error(line: str) -> None:
    host = await booted()
    host.files.make_directories(r"C:\d")
    before = host.files.get_directory(r"C:\d").acl
    assert (await console(host, line)).code != 0
    assert host.files.get_directory(r"C:\d").acl == before


async def test_lists_are_shown_saved_restored_and_reset() -> None:
    host = await booted()
    host.files.make_directories(r"C:\d\e")
    host.files.get_directory(r"C:\d").owner = "S-1-5-21-1-2-3-1001"
    assert (await console(host, r"icacls.exe C:\d /setowner *S-1-5-32-544")).code == 0
    assert host.files.get_directory(r"C:\d").owner == access.ADMINISTRATORS
    assert (await console(host, rf"icacls.exe C:\d /inheritance:r /grant:r {CLOSED}")).code == 0
    shown = (await console(host, r"icacls.exe C:\d")).output.splitlines()
    assert shown[:2] == [r"C:\d NT AUTHORITY\SYSTEM:(OI)(CI)(F)", r"     BUILTIN\Administrators:(OI)(CI)(F)"]
    held = host.files.get_directory(r"C:\d").acl
    assert (await console(host, r"icacls.exe C:\d /save C:\acl /q")).code == 0
    assert (await console(host, r"icacls.exe C:\d /reset")).code == 0
    assert host.files.get_directory(r"C:\d").acl == access.compute_inherited(access.ROOT, access.ADMINISTRATORS, directory=True)
    assert (await console(host, r"icacls.exe C:\. /restore C:\acl /q")).code == 0
    assert (host.files.get_directory(r"C:\d").acl, host.files.get_directory(r"C:\d").protected) == (held, True)


def key_of(host: Host, path: str) -> int:
    return outcome(OrdinaryUser(host), lambda user: user.read_key(path))


async def test_a_registry_key_is_closed_by_powershell_with_all_below_it() -> None:
    host = await booted()
    host.edit([CreateKey(rf"{KEY}\Old"), SetValue(KEY, "was", build_sz("secret"))])
    assert key_of(host, KEY) == key_of(host, rf"{KEY}\Old") == 0
    check = (
        r"if ((Get-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom').Sddl "
        r"-notmatch 'D:[A-Z]*(\(A;[A-Z]*;KA;;;(SY|BA)\))+$') { exit 1 }"
    )
    close = (
        "$ErrorActionPreference = 'Stop'; $acl = New-Object -TypeName Security.AccessControl.RegistrySecurity; "
        "$acl.SetSecurityDescriptorSddlForm('D:P(A;CI;KA;;;SY)(A;CI;KA;;;BA)', 'Access'); "
        "Set-Acl -LiteralPath 'HKLM:\\SOFTWARE\\Transom' -AclObject $acl"
    )
    assert (await console(host, f'{SHELL}"{check}"')).code == 1
    host.constrained = True
    assert (await console(host, f'{SHELL}"{close}"')).code == 1
    host.constrained = False
    assert (await console(host, f'{SHELL}"{close}"')).code == 0
    assert (await console(host, f'{SHELL}"{check}"')).code == 0
    host.edit([CreateKey(rf"{KEY}\New")])
    assert [key_of(host, path) for path in (KEY, rf"{KEY}\Old", rf"{KEY}\New")] == [5, 5, 5]
    # another key of that name has another list
    host.registry = type(host.registry)()
    host.edit([CreateKey(KEY)])
    assert key_of(host, KEY) == 0


async def test_regini_closes_the_keys_that_it_names_and_those_that_are_made_below() -> None:
    host = await booted()
    host.edit([CreateKey(rf"{KEY}\Old"), CreateKey(rf"{KEY}\Other")])
    lines = "\\Registry\\Machine\\SOFTWARE\\Transom [1 17]\r\n\\Registry\\Machine\\SOFTWARE\\Transom\\Old [1 17]\r\n"
    host.files.write(r"C:\close.txt", lines.encode("utf-16"))
    assert (await console(host, r"regini.exe C:\close.txt")).code == 0
    host.edit([CreateKey(rf"{KEY}\New")])
    assert [key_of(host, path) for path in (KEY, rf"{KEY}\Old", rf"{KEY}\New", rf"{KEY}\Other")] == [5, 5, 5, 0]
