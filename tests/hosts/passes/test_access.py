"""Whose is what on a host: the directory of passes, the ledger, what an earlier version left. The simulated host shows it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.attacker import BASE, FORMER, PRECIOUS
from tests.hosts.attacks import SERVICE, change, configured
from tests.hosts.egress import VALUE, apply
from tests.hosts.simulated import SERVICES as BOTH
from tests.hosts.simulated import SimulatedHost
from tests.support.workers.hosts import Simulated

from transom.hosts.errors import DirectoryNotOurs, ImportFailed, NotAdministrator
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.values import build_dword, build_multi_sz
from winsim import Host, Simulator, access
from winsim.filesystem import FileError, SimulatedDirectory
from winsim.machine import ALWAYS
from winsim.users import OrdinaryUser

CLOSED = {access.parse_grant(f"*{sid}:(OI)(CI)F") for sid in (access.SYSTEM, access.ADMINISTRATORS)}


@pytest.fixture
async def host(simulator: Simulator) -> Host:
    return await simulator.add_host(services={**BOTH, SERVICE: ()})


def directory(host: Host, path: str = BASE) -> SimulatedDirectory:
    return host.files.get_directory(path)


def closed(host: Host, path: str = BASE) -> bool:
    found = directory(host, path)
    return (found.owner, found.protected, set(found.acl)) == (access.ADMINISTRATORS, True, CLOSED)


def denied(host: Host, key: str) -> bool:
    try:
        OrdinaryUser(host).read_key(key)
    except FileError as refused:
        return refused.code == 5
    return False


async def test_nothing_with_a_value_is_placed_before_the_directory_is_closed(simulator: Simulator, host: Host) -> None:
    early: list[str] = []

    def look() -> None:
        node = host.files.find(BASE)
        if isinstance(node, SimulatedDirectory) and not node.protected:
            early.extend(entry.name for entry in node.entries.values())

    host.interlopers.add(look)
    done = await apply(SimulatedHost(simulator, host), VALUE)
    assert done.error is None and closed(host)
    assert early and all(name.startswith("gather-") for name in early)


async def test_a_pass_that_was_cut_before_the_directory_was_closed_is_gone_on_with(simulator: Simulator, host: Host) -> None:
    host.files.make_directory(BASE)
    assert (await apply(SimulatedHost(simulator, host), VALUE)).error is None
    assert closed(host)


async def test_a_directory_that_others_have_access_to_is_refused(simulator: Simulator, host: Host) -> None:
    found = host.files.make_directory(BASE)
    user = access.parse_grant("*S-1-5-32-545:(OI)(CI)M")
    for owner, acl in (("S-1-5-21-1-2-3-1001", found.acl), (access.ADMINISTRATORS, (*found.acl, user))):
        host.files.set_access(found, owner=owner, acl=acl)
        refused = await apply(SimulatedHost(simulator, host), VALUE)
        assert isinstance(refused.error, DirectoryNotOurs) and BASE in str(refused.error)
        assert [name for name in found.entries if not name.startswith("GATHER-")] == []
        host.files.set_access(found, owner=access.ADMINISTRATORS, acl=())
    assert (await apply(SimulatedHost(simulator, host), VALUE)).error is None


async def test_who_is_no_administrator_cannot_make_the_directory(simulator: Simulator, host: Host) -> None:
    host.administrator = False
    assert isinstance((await apply(SimulatedHost(simulator, host), VALUE)).error, NotAdministrator)
    assert not host.files.exists(BASE)


async def test_windows_somewhere_else_is_refused(simulator: Simulator, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALWAYS, "SystemRoot", r"D:\Windows")
    refused = await apply(SimulatedHost(simulator, host), VALUE)
    assert isinstance(refused.error, DirectoryNotOurs) and r"C:\Windows" in str(refused.error)


@pytest.mark.parametrize("constrained", [False, True])
async def test_the_ledger_is_closed_before_its_first_line(simulator: Simulator, host: Host, *, constrained: bool) -> None:
    host.constrained = constrained
    host.edit([SetValue(rf"{SERVICES}\{SERVICE}", "Environment", build_multi_sz(["HTTPS_PROXY=http://joe:hunter3@old:3128"]))])
    open_keys: set[str] = set()

    def look() -> None:
        keys = (host.registry.find_key(LEDGER), *host.registry.list_keys_below(LEDGER))
        open_keys.update(key.path for key in keys if key is not None and key.values and not denied(host, key.path))

    host.interlopers.add(look)
    assert (await change(simulator, host, "hunter2")).error is None
    assert open_keys == set()
    assert denied(host, LEDGER) and denied(host, rf"{LEDGER}\Environment\Services\{SERVICE}")
    host.processes.clear()
    assert (await change(simulator, host, "hunter2-new")).error is None
    assert not [line for line in host.processes if "Set-Acl" in line or "regini" in line], "once is enough"
    assert (await change(simulator, host, None)).error is None
    assert host.registry.find_key(LEDGER) is None


@pytest.mark.parametrize("constrained", [False, True])
async def test_an_open_ledger_is_closed_with_the_first_change(simulator: Simulator, host: Host, *, constrained: bool) -> None:
    assert (await change(simulator, host, "hunter2")).error is None
    kept = [SetValue(key.path, v.name, v.value) for key in host.registry for v in (key.values or {}).values()]
    earlier = [edit for edit in kept if (edit.path, edit.name) != (LEDGER, "Closed")]
    host.registry = type(host.registry)()
    host.edit([CreateKey(SERVICES), *earlier])
    assert not denied(host, LEDGER)
    assert (await change(simulator, host, "hunter2")).result == "unchanged", "an upgrade alone changes nothing"
    host.constrained = constrained
    assert (await change(simulator, host, "hunter2-new")).error is None
    assert all(denied(host, key.path) for key in host.registry.list_keys_below(LEDGER))
    assert denied(host, LEDGER)


async def test_a_ledger_that_cannot_be_closed_is_not_written(simulator: Simulator, host: Host) -> None:
    host.constrained = True
    host.files.remove(host.files.get_file(r"C:\Windows\System32\regini.exe"))
    refused = await change(simulator, host, "hunter2")
    assert isinstance(refused.error, ImportFailed) and LEDGER in str(refused.error)
    key = host.registry.find_key(LEDGER)
    assert key is None or not key.values
    assert host.registry.find_value(rf"{SERVICES}\{SERVICE}", "Environment") is None
    assert not [path for path in directory(host).entries if path.startswith("P-")]


async def upgraded(simulator: Simulator, host: Host) -> None:
    """A pass on a host that an earlier version worked on."""
    host.edit([SetValue(LEDGER, "Version", build_dword(1))])
    assert (await change(simulator, host, "hunter2")).error is None


async def test_what_an_earlier_version_left_goes_unread(simulator: Simulator, host: Host) -> None:
    host.files.write(rf"{FORMER}\p-1\change.cmd", b"@C:\\Windows\\System32\\hostname.exe OWNED")
    host.files.write(rf"{FORMER}\generation", b"99999999")
    host.files.write(rf"{PRECIOUS}\a.txt", b"")
    host.files.make_junction(rf"{FORMER}\link", PRECIOUS)
    await upgraded(simulator, host)
    assert not host.files.exists(FORMER)
    assert host.files.exists(rf"{PRECIOUS}\a.txt")
    assert not [line for line in host.processes if "OWNED" in line]
    assert not [name for name in directory(host).entries if name.startswith("F-")]


async def test_what_is_in_use_there_goes_with_the_next_change(simulator: Simulator, host: Host) -> None:
    host.files.write(rf"{FORMER}\lock\job", b"")
    held = host.files.open(rf"{FORMER}\lock\job")
    await upgraded(simulator, host)
    assert host.files.exists(rf"{FORMER}\lock\job")
    held.close()
    assert (await change(simulator, host, "hunter2-new")).error is None
    assert not host.files.exists(FORMER)


@pytest.mark.parametrize("link", [False, True])
async def test_a_directory_of_that_name_of_somebody_else_is_left(simulator: Simulator, host: Host, *, link: bool) -> None:
    host.files.write(rf"{PRECIOUS}\a.txt", b"")
    if link:
        OrdinaryUser(host).make_junction(FORMER, PRECIOUS)
    else:
        OrdinaryUser(host).make_directory(FORMER)
        OrdinaryUser(host).write(rf"{FORMER}\a.txt", b"")
    await upgraded(simulator, host)
    assert host.files.exists(rf"{FORMER}\a.txt") and host.files.exists(rf"{PRECIOUS}\a.txt")


async def test_a_pod_reads_what_the_kubelet_makes_and_no_key(simulator: Simulator, host: Host, tmp_path: Path) -> None:
    """ContainerUser is one of Users (kubernetes.io, "Projected Volumes", Windows): he reads, and writes what is his."""
    assert (await configured(Simulated(simulator, host), tmp_path, "1.0.0")).error is None
    user, volumes = OrdinaryUser(host), r"C:\var\lib\kubelet\pods\0badcafe\volumes"
    token = rf"{volumes}\kubernetes.io~projected\kube-api-access\..2026_11_22\token"
    # the kubelet makes them with plain os.MkdirAll, as SYSTEM, and links to the directory of this moment
    host.files.write(token, b"abc")
    host.files.write(r"C:\var\lib\kubelet\pki\kubelet-client-current.pem", b"key")
    assert user.read(token) == b"abc"
    assert outcome(lambda: user.write(token, b"x")) == 5
    host.files.make_directories(rf"{volumes}\kubernetes.io~empty-dir\cache")
    user.write(rf"{volumes}\kubernetes.io~empty-dir\cache\mine", b"x")
    user.make_directory(rf"{volumes}\kubernetes.io~empty-dir\cache\d")
    closed_to_him = (
        r"C:\var\lib\kubelet\pki\kubelet-client-current.pem",
        r"C:\k\bootstrap.kubeconfig",
        r"C:\k\kubelet.yaml",
        *(rf"{BASE}\{name}" for name in directory(host).entries),
    )
    assert [outcome(lambda path=path: user.read(path)) for path in closed_to_him] == [5] * len(closed_to_him)
    assert denied(host, LEDGER) and denied(host, rf"{LEDGER}\Installed")


def outcome(move: Callable[[], object]) -> int:
    """0, or the number of the error."""
    try:
        move()
    except FileError as refused:
        return refused.code
    return 0


async def test_directories_of_a_payload(simulator: Simulator, host: Host, tmp_path: Path) -> None:
    bare = Simulated(simulator, host)
    assert (await configured(bare, tmp_path, "1.0.0")).error is None
    for path in (r"C:\k", r"C:\var\lib\kubelet\pki"):
        assert closed(host, path), path
    assert set(directory(host, r"C:\k\logs").acl) == {access.Ace(a.sid, a.rights, a.flags | access.INHERITED) for a in CLOSED}
    user = OrdinaryUser(host)
    for parent in (r"C:\var", r"C:\var\lib", r"C:\var\lib\kubelet"):
        assert user.list_names(parent)
        for move, arguments in (
            (user.rename, (parent, r"C:\old")),
            (user.make_directory, (rf"{parent}\x",)),
            (user.write, (rf"{parent}\x", b"")),
            (user.open_to_all, (parent,)),
        ):
            with pytest.raises(FileError, match="denied"):
                move(*arguments)
    # what the kubelet makes has what it would have elsewhere: a pod's user writes into its volume
    host.files.make_directories(r"C:\var\lib\kubelet\pods\1\volumes\data")
    user.write(r"C:\var\lib\kubelet\pods\1\volumes\data\a.txt", b"a")
    assert user.read(r"C:\var\lib\kubelet\pods\1\volumes\data\a.txt") == b"a"
    with pytest.raises(FileError, match="denied"):
        user.read(r"C:\k\bootstrap.kubeconfig")


@pytest.mark.parametrize("link", [False, True])
async def test_a_payload_is_not_placed_where_somebody_else_was_first(
    simulator: Simulator, host: Host, tmp_path: Path, *, link: bool
) -> None:
    host.files.make_directories(PRECIOUS)
    if link:
        OrdinaryUser(host).make_junction(r"C:\var", PRECIOUS)
    else:
        OrdinaryUser(host).make_directory(r"C:\var")
    for _ in range(2):
        refused = await configured(Simulated(simulator, host), tmp_path, "1.0.0")
        assert isinstance(refused.error, DirectoryNotOurs) and r"C:\var" in str(refused.error)
    assert not host.files.exists(r"C:\k\kubelet.exe")
