"""From a bare host to services that run, and what bad input and faults get: simulated hosts, and Wine."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from lab.machine import Machine
from tests.support.cuts import Cuts
from tests.support.waiting import until
from tests.support.workers.hosts import JOINING, SERVICES, VIP, BareHost, OnWine, Simulated

from transom.apply.host_pass import HostPass
from transom.apply.target import Target
from transom.hosts.errors import (
    ConnectionLost,
    DirectoryNotOurs,
    FileRefused,
    HashMismatch,
    HostError,
    InstallFailed,
    NotAdministrator,
    PutBack,
    RestartsFailed,
    ServiceDied,
)
from transom.hosts.owner import Owner
from transom.hosts.passes import configure as configuring
from transom.hosts.passes import removal
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec
from transom.hosts.passes.removal import RemovalResult
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh.known_hosts import KnownHostsFile, NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.hosts.steps.delivery import PassProgress
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.finding import Place as FindingPlace
from transom.proxy.objects import Meta, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.host.queries import SERVICES as SERVICE_KEYS
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from transom.windows.parts.files import FilePlace
from transom.windows.parts.powershell import PROFILE
from transom.windows.payload.worker import Artifact, Facts, WaitingService
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
from winsim import Fault, Host, Simulator
from winsim.computer import Invocation

URL = "http://alice:hunter2%25%5E@proxy.x:3128"
EGRESS = Egress(Secret(URL), Secret(URL), ".svc")
TOKEN = "abcdef.hunter2"
NODE = {"metadata": {"annotations": {"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}}}
PROVIDED = {"bootstrap-kubeconfig": Secret(f"token: {TOKEN}")}
WAITING = WaitingService("kube-proxy", "SUBNET", "the Node does not exist yet")
KUBELET, TOOL = r"C:\k\kubelet.exe", r"C:\k\tool.exe"


@pytest.fixture(params=["simulated", pytest.param("wine", marks=pytest.mark.lab)])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[BareHost]:
    if request.param == "wine":
        make: Callable[[str], Machine] = request.getfixturevalue("bare_machine")
        yield OnWine(make("WIN-B"))
    else:
        async with Simulator() as simulator:
            yield Simulated(simulator, await simulator.add_host("WIN-B", services={}))


@pytest.fixture
async def simulated() -> AsyncIterator[Simulated]:
    async with Simulator() as simulator:
        yield Simulated(simulator, await simulator.add_host("WIN-B", services={}))


def staged(artifact: Artifact) -> str:
    """Where kubelet.exe lies while it is being sent."""
    place = FilePlace(KUBELET, artifact.sha256, artifact.size, recorded="")
    return rf"C:\Windows\Transom\{place.staged}.part"


class Operator:
    """Who configures a host again and again."""

    def __init__(self, host: BareHost, path: Path, progress: float = 60) -> None:
        self.host, self.path = host, path
        self.payload: PayloadDirectory = host.payload(path / "payload")
        self.facts = Facts(provided=PROVIDED)
        self.egress, self.fetch_anyway = EGRESS, False
        patience = ServiceTimeouts(stop=60, start=20, steady=2)
        self.settings = PassSettings(Owner("transom", "test", 1), timeouts=Timeouts(progress=progress), patience=patience)
        self.reports: list[PassProgress] = []

    async def configure(self, **options: bool) -> ConfigureResult:
        keys = KnownHostsFile(self.path / "known_hosts")
        worker = WorkerSpec(self.payload, self.facts, self.egress, fetch_anyway=self.fetch_anyway)
        return await configuring.configure_worker(
            self.host.access, keys, self.settings, worker, report=self.reports.append, **options
        )

    async def remove(self) -> RemovalResult:
        return await removal.restore_host_state(self.host.access, KnownHostsFile(self.path / "known_hosts"), self.settings)

    async def reached(self) -> ConfigureResult:
        """A pass that has to succeed, and one after it that finds nothing to do."""
        result = await self.configure()
        assert result.error is None
        assert (await self.configure()).result == "unchanged"
        return result

    def joined(self) -> None:
        """The Node is there, and the bootstrap kubeconfig has served."""
        self.facts = Facts(node=NODE, provided={"bootstrap-kubeconfig": None})


async def test_from_a_bare_host_to_services_that_run_and_to_the_next_version(host: BareHost, tmp_path: Path) -> None:
    operator = Operator(host, tmp_path)
    bare = host.everything()
    host.mark()
    result = await operator.configure()
    assert (result.result, result.error, result.node_name, result.waits) == ("changed", None, "win-b", (WAITING,))
    connections, channels, _ = host.counted()
    assert connections == 1 and channels == result.channels <= 6
    assert host.running() == JOINING
    for name in ("containerd", "kubelet"):
        # the proxy is there at the very first start
        (first,) = host.environments(name)
        assert (first["HTTPS_PROXY"], first["NO_PROXY"]) == (URL, ".svc")
    assert host.environments("containerd")[0]["CONTAINERD_X"] == "1.0.0"
    assert host.content(r"C:\k\kubelet.yaml") == b"nodeIP: " + host.access.address.encode()
    assert host.content(r"C:\k\bootstrap.kubeconfig") == f"token: {TOKEN}".encode()
    assert [report.done for report in operator.reports if report.step == "send"][-1] == result.sent

    host.mark()
    assert (await operator.configure()).result == "unchanged"
    assert host.counted()[:2] == (1, 2)

    operator.joined()
    host.mark()
    result = await operator.reached()
    assert (result.waits, result.sent) == ((), len("subnet: 10.132.1.0/24"))
    assert host.running() == set(SERVICES)
    assert len(host.environments("kubelet")) == 1, "the removal of a file that has served restarts nobody"
    assert host.content(r"C:\k\bootstrap.kubeconfig") is None
    assert "HTTP_PROXY" not in host.environments("kube-proxy")[0]

    await _put_back(operator)

    # an upgrade sends and reconfigures what differs, and restarts that and who depends on it, once
    before = {name: len(host.environments(name)) for name in SERVICES}
    let_go = host.hold(r"C:\k\tool.exe")
    operator.payload = host.payload(tmp_path / "payload", "1.0.1", kubelet=b"new")
    host.mark()
    result = await operator.configure()
    connections, channels, _ = host.counted()
    assert (result.error, connections) == (None, 1) and channels == result.channels <= 8
    assert (await operator.configure()).result == "unchanged"
    artifacts = operator.payload.artifacts
    assert result.sent == artifacts["bin/kubelet.exe"].size + artifacts["bin/tool.exe"].size
    assert (host.content(r"C:\k\tool.exe") or b"").endswith(b"1.0.1"), "a program in use was renamed aside"
    let_go()
    assert (host.content(KUBELET) or b"").endswith(b"new")
    after = {name: len(host.environments(name)) for name in SERVICES}
    assert {name: after[name] - before[name] for name in SERVICES} == dict.fromkeys(SERVICES, 1)
    last = host.environments("containerd")[-1]
    assert (last["CONTAINERD_X"], last["HTTPS_PROXY"]) == ("1.0.1", URL), (
        "made anew or reconfigured, with all that its key held"
    )
    assert host.running() == set(SERVICES)
    assert result.after is not None and ledger.read(result.after.registry).installed.payload == "1.0.1"
    host.put(r"C:\k\kubelet.yaml", b"nodeIP: elsewhere")
    await operator.reached()
    assert not [name for name in host.names(r"C:\k") if "transom-old" in name]
    if isinstance(host, OnWine):
        _called_rightly(host.machine.read_calls())
        # each time one after the other: the network of hybrid-overlay-node is there before kube-proxy asks for its address
        for number in (0, -1):
            times = [datetime.fromisoformat(host.starts(name)[number].time) for name in SERVICES]
            assert times == sorted(times)
    await _given_back(operator, bare)
    assert not [line for line in host.asked().splitlines() if "hunter2" in line]
    assert "hunter2" not in repr(result)


async def _given_back(operator: Operator, before: tuple[set[str], set[str]]) -> None:
    """The host is as it was before Transom came, by one connection; a second time there is nothing to do."""
    host = operator.host
    host.mark()
    removed = await operator.remove()
    assert (removed.result, removed.error, removed.remains) == ("changed", None, ())
    connections, channels, _ = host.counted()
    assert connections == 1 and channels == removed.channels <= 4
    files, values = host.everything()
    assert (sorted(files - before[0]), sorted(before[0] - files)) == ([], [])
    assert (sorted(values - before[1]), sorted(before[1] - values)) == ([], [])
    assert (await operator.remove()).result == "unchanged"
    if isinstance(host, OnWine):
        calls = "\n".join(host.machine.read_calls())
        for name in ("Overlay", "External"):
            assert f"Get-HnsNetwork | Where-Object {{ $_.Name -eq '{name}' }} | Remove-HnsNetwork" in calls
        assert r"Where-Object { $_.Path -like 'C:\k\logs\*' } | Stop-Process -Force" in calls
        assert calls.count('netsh.exe" advfirewall firewall delete rule name="Transom TCP 10250"') == 2, "opened, and closed"


async def test_a_whole_life_under_a_virus_scanner(host: BareHost, tmp_path: Path) -> None:
    """It opens each file for 2 s after it was written: delivery, first configuration, put-back, upgrade, removal."""
    operator = Operator(host, tmp_path)
    bare = host.everything()
    host.scan(2)
    # what may hold a value goes in the same run
    assert (await operator.configure()).error is None
    assert {name.partition("-")[0] for name in host.names(BASE)} == {"gather", "generation"}
    await operator.reached()
    operator.joined()
    await operator.reached()
    await _put_back(operator)
    operator.payload = host.payload(tmp_path / "payload", "1.0.1", kubelet=b"new")
    await operator.reached()
    assert (host.content(KUBELET) or b"").endswith(b"new")
    host.scan(0)
    await _given_back(operator, bare)


@pytest.mark.server
async def test_what_is_read_when_it_should_go_goes_in_the_same_pass(simulated: Simulated, tmp_path: Path) -> None:
    operator = Operator(simulated, tmp_path)
    await operator.reached()
    simulated.scan(60)
    assert (await operator.configure()).result == "unchanged"
    assert {name.partition("-")[0] for name in simulated.names(BASE)} == {"gather", "generation"}


@pytest.mark.server
async def test_certutil_that_may_not_run_is_not_taken_for_another_hash(simulated: Simulated, tmp_path: Path) -> None:
    operator = Operator(simulated, tmp_path)
    simulated.host.blocked = {"certutil.exe", "Get-FileHash"}
    refused = await operator.configure()
    assert isinstance(refused.error, InstallFailed) and "certutil.exe" in str(refused.error)
    assert (simulated.running(), refused.sent > 0) == (set(), True)
    # what lies there is whole: it is not sent again
    simulated.host.blocked, simulated.host.unhashed = {"certutil.exe"}, True
    silent = await operator.configure()
    assert isinstance(silent.error, InstallFailed) and "certutil.exe" in str(silent.error)
    simulated.host.unhashed = False
    assert (await operator.reached()).sent == 0
    assert simulated.running() == JOINING


@pytest.mark.server
@pytest.mark.parametrize("runs", [True, False])
async def test_defender_leaves_out_containerd_where_it_runs(simulated: Simulated, tmp_path: Path, *, runs: bool) -> None:
    simulated.host.exclusions = {r"C:\theirs.exe"} if runs else None
    operator = Operator(simulated, tmp_path)
    await operator.reached()
    assert simulated.host.exclusions == ({r"C:\theirs.exe", r"C:\k\containerd.exe"} if runs else None)
    assert (await operator.remove()).error is None
    assert simulated.host.exclusions == ({r"C:\theirs.exe"} if runs else None)


@pytest.mark.server
async def test_a_payload_below_program_files(simulated: Simulated, tmp_path: Path) -> None:
    """Its parent is TrustedInstaller's."""
    operator = Operator(simulated, tmp_path)
    operator.payload = simulated.payload(tmp_path / "payload")
    file = tmp_path / "payload" / "payload.yaml"
    file.write_text(file.read_text().replace(TOOL, r"C:\Program Files\node\tool.exe"))
    operator.payload = PayloadDirectory.open(tmp_path / "payload")
    await operator.reached()
    assert simulated.content(r"C:\Program Files\node\tool.exe") is not None


@pytest.mark.server
async def test_a_host_that_is_asked_for_by_name_has_an_address(simulated: Simulated, tmp_path: Path) -> None:
    """A kubelet ignores a `--node-ip` that is a DNS name, and says so: kubernetes, component-helpers, node/util/ips.go."""
    simulated.access = msgspec.structs.replace(simulated.access, address="localhost")
    await Operator(simulated, tmp_path).reached()
    assert simulated.content(r"C:\k\kubelet.yaml") == b"nodeIP: 127.0.0.1"


def _called_rightly(calls: list[str]) -> None:
    """What Wine cannot do was asked for as Windows wants it, each thing once: ports, then the feature, then the directories."""
    tools = [re.sub(r'^"[^"]*\\(\w+)\.exe"', r"\1", call).strip() for call in calls]
    tools = [re.sub(r'^icacls "[^"]*\\made"', "icacls made", call) for call in tools]
    rule = 'netsh advfirewall firewall add rule name="Transom TCP 10250" dir=in action=allow protocol=TCP localport=10250'
    feature = "dism /online /enable-feature /featurename:Containers /all /norestart"
    assert tools.index(rule) < tools.index(feature) < tools.index("icacls made /setowner *S-1-5-32-544")
    assert all(tools.count(call) == 1 for call in (rule, feature))
    both = "/inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F"
    shown = [call for call in tools if call.startswith("icacls made /")]
    # C:\k, which holds the bootstrap kubeconfig, and the kubelet's keys; the directories above these
    assert shown.count(f"icacls made {both}") == 2
    assert shown.count(f"icacls made {both} *S-1-5-32-545:(OI)(CI)RX *S-1-3-0:(OI)(CI)(IO)F") == 3
    assert shown.count("icacls made /grant *S-1-5-32-545:(CI)(IO)(WD,AD)") == 3
    asked = [call for call in tools if call.startswith("powershell") and "-File" in call]
    script = r"C:\\Windows\\Transom\\p-[0-9a-f-]+\\SOURCE_VIP\.ps1"
    # once in a boot; the program that was held counts one
    assert len(asked) == 2
    for call in asked:
        assert re.fullmatch(rf'powershell -NoProfile -NonInteractive -ExecutionPolicy Bypass -File "{script}"', call)


async def _put_back(operator: Operator) -> None:
    """A version whose kubelet does not run: the host is as it was, without anybody; its former payload finds it so."""
    host, path = operator.host, operator.payload.path
    state = (await operator.configure()).before
    before, listed = {path: host.content(path) for path in (KUBELET, TOOL)}, host.names(r"C:\k")
    operator.payload = host.payload(path, "2.0.0", program=b"no program")
    result = await operator.configure()
    assert isinstance(result.error, PutBack), result.error
    assert (result.error.services, result.error.version, result.error.former) == (("kubelet",), "2.0.0", "1.0.0")
    assert str(result.error).endswith(": payload 1.0.0 was restored, and its services run")
    assert host.running() == set(SERVICES)
    assert ({path: host.content(path) for path in before}, host.names(r"C:\k")) == (before, listed)
    last = host.environments("containerd")[-1]
    assert (last["CONTAINERD_X"], last["HTTPS_PROXY"]) == ("1.0.0", URL)
    assert state is not None and result.after is not None
    assert ledger.read(result.after.registry).installed == ledger.read(state.registry).installed
    for name in SERVICES:
        key = rf"{SERVICE_KEYS}\{name}"
        assert result.after.registry.find_key(key) == state.registry.find_key(key), name
    operator.payload = host.payload(path, "1.0.0")
    withdrawn = await operator.reached()
    assert (withdrawn.sent, withdrawn.restarted) == (0, ())


@pytest.mark.server
async def test_what_somebody_changed_is_put_right(simulated: Simulated, tmp_path: Path) -> None:
    operator = Operator(simulated, tmp_path)
    await operator.configure()
    simulated.put(r"C:\k\kubelet.yaml", b"nodeIP: elsewhere")
    result = await operator.reached()
    assert [(s.target, s.reason) for s in result.plan.steps if s.kind == "file"] == [
        (r"C:\k\kubelet.yaml", "drift: changed after Transom sent it")
    ]
    assert len(simulated.environments("kubelet")) == 2 and len(simulated.environments("containerd")) == 1


@pytest.mark.server
async def test_a_file_that_was_there_before_is_kept_beside(simulated: Simulated, tmp_path: Path) -> None:
    simulated.put(r"C:\k\kubelet.yaml", b"theirs")
    await Operator(simulated, tmp_path).reached()
    assert simulated.content(r"C:\k\kubelet.yaml.transom-before") == b"theirs"


@pytest.mark.server
async def test_a_half_sent_or_damaged_file_is_never_used(simulated: Simulated, tmp_path: Path) -> None:
    operator = Operator(simulated, tmp_path)
    artifact = operator.payload.artifacts["bin/kubelet.exe"]
    simulated.put(staged(artifact), b"x" * (artifact.size - 5))
    result = await operator.configure()
    assert isinstance(result.error, HashMismatch) and KUBELET in str(result.error)
    assert simulated.content(KUBELET) is None and simulated.running() == set()
    assert (await operator.configure()).error is None
    assert simulated.running() == JOINING


@pytest.mark.server
async def test_a_transfer_goes_on_where_it_was_cut(simulated: Simulated, tmp_path: Path) -> None:
    operator = Operator(simulated, tmp_path)
    artifact = operator.payload.artifacts["bin/kubelet.exe"]
    content = (operator.payload.path / "bin" / "kubelet.exe").read_bytes()
    simulated.put(staged(artifact), content[: artifact.size // 2])
    result = await operator.reached()
    assert result.plan is not None
    assert result.sent == sum(place.size for place in result.plan.install.place) - artifact.size // 2
    assert simulated.content(KUBELET) == content


async def test_cut_anywhere_the_next_pass_converges(host: BareHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Operator(host, tmp_path / "first")
    if isinstance(host, Simulated):
        cuts = await Cuts.of(monkeypatch, host.host)
        host.mark()
        await operator.configure()
        count = host.counted()[2]
        for at in range(1, count + 1, 4):
            cuts.begin()
            await _cut_and_converge(operator, cuts, at, "after" if at % 8 == 1 else "cut")
        assert cuts.followed[0] > 10
    else:
        # a pass takes seconds here: cut in the middle of the transfer, then where the change script runs
        await _cut_and_converge(operator, await Cuts.of(monkeypatch, None), 60, "cut")


@pytest.mark.server
async def test_cut_anywhere_a_host_is_given_back_by_the_next_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Simulator() as simulator:
        host = Simulated(simulator, await simulator.add_host("WIN-B", services={"theirs": ()}))
        bare = host.everything()
        operator = Operator(host, tmp_path)
        await operator.reached()
        cuts = await Cuts.of(monkeypatch, host.host)
        at, came = 1, True
        while came:
            cuts.begin()
            host.fail(at, "after" if at % 2 else "cut")
            await operator.remove()
            came = host.came()
            if not await cuts.met():
                for _ in range(40):
                    # what the cut pass began may still be going on, and holds the host
                    again = await operator.remove()
                    if again.error is None:
                        break
                    await asyncio.sleep(0.05)
                assert again.error is None, at
                assert host.everything() == bare, at
            at += 5
        assert at > 20


async def _cut_and_converge(operator: Operator, cuts: Cuts, at: int, action: str) -> None:
    operator.host.fail(at, action)
    result = await operator.configure()
    if operator.host.came():
        assert result.error is not None or result.result == "changed"
    if await cuts.met():
        return
    for _ in range(40):
        # what the cut pass began may still be going on, and holds the host
        again = await operator.configure()
        if again.error is None:
            break
        await asyncio.sleep(0.05)
    assert again.error is None, at
    if await cuts.met():
        return
    assert operator.host.running() == JOINING, at
    assert (await operator.configure()).result == "unchanged", at
    assert all(len(operator.host.environments(name)) == 1 for name in ("containerd", "kubelet")), at
    assert "HTTPS_PROXY" in operator.host.environments("containerd")[0], at


async def upgraded(path: Path, simulator: Simulator) -> Operator:
    """A host with the first version, and the second to install; the Node is there."""
    operator = Operator(Simulated(simulator, await simulator.add_host("WIN-B", services={})), path)
    operator.joined()
    await operator.configure()
    operator.payload = operator.host.payload(path / "payload", "1.0.1", kubelet=b"new")
    return operator


async def _settled(operator: Operator) -> ConfigureResult:
    """A pass that succeeds: what a cut one began may still be going on, and holds the host."""
    for _ in range(100):
        result = await operator.configure()
        if result.error is None:
            return result
        await asyncio.sleep(0.05)
    raise AssertionError(result.error)


VERSIONS = {"1.0.0": b"old", "1.0.1": b"new"}


@pytest.mark.server
async def test_cut_anywhere_an_upgrade_goes_on_or_is_withdrawn(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        operator = await upgraded(tmp_path, simulator)
        host = operator.host
        host.mark()
        await operator.configure()
        count, version = host.counted()[2], "1.0.1"
        # every request was seen, with a step of one
        for at in range(1, count + 1, 3):
            other = next(iter(VERSIONS.keys() - {version}))
            operator.payload = host.payload(tmp_path / "payload", other, kubelet=VERSIONS[other])
            host.fail(at, "cut" if at % 4 < 2 else "after")
            await operator.configure()
            host.came()
            version = other if at % 2 else version
            operator.payload = host.payload(tmp_path / "payload", version, kubelet=VERSIONS[version])
            await _settled(operator)
            assert (await operator.configure()).result == "unchanged", at
            assert host.running() == set(SERVICES), at
            assert (host.content(KUBELET) or b"").endswith(VERSIONS[version]), at
            assert (host.content(TOOL) or b"").endswith(version.encode()), at
            assert host.environments("containerd")[-1]["CONTAINERD_X"] == version, at


@pytest.mark.server
async def test_power_lost_anywhere_while_a_version_that_does_not_run_is_put_back(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        operator = await upgraded(tmp_path, simulator)
        host, good = operator.host, operator.payload
        assert isinstance(host, Simulated)
        bad = host.payload(tmp_path / "bad", "2.0.0", program=b"MZends 23 after 1")
        await operator.configure()
        operator.payload, seen = bad, len(host.host.processes)
        result = await operator.configure()
        assert isinstance(result.error, PutBack) and "kubelet ended with exit code 23" in str(result.error)
        count = len(host.host.processes) - seen
        for at in range(count // 3, count, count // 12):
            operator.payload = bad
            await _lose_power(operator, host.host, at)
            operator.payload = good
            await _settled(operator)
            assert host.running() == set(SERVICES), at
            assert (host.content(KUBELET) or b"").endswith(b"new"), at
            assert (await operator.configure()).result == "unchanged", at


async def _lose_power(operator: Operator, host: Host, at: int) -> None:
    """The host boots when a pass has started as many programs as `at`."""

    def lose(_: str) -> None:
        if len(host.processes) - seen == at:
            asyncio.get_running_loop().call_soon(host.cut_power)

    seen = len(host.processes)
    host.watchers.add(lose)
    await operator.configure()
    host.watchers.clear()
    await host.boot()


@pytest.mark.server
async def test_nobody_connected_the_upgrade_is_finished(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        operator = await upgraded(tmp_path, simulator)
        assert isinstance(operator.host, Simulated)
        host = operator.host.host
        host.faults.schedule_fault(
            Fault(await _script_of(operator, tmp_path, simulator), "during", "cut", 'sc.exe stop "kube-proxy"')
        )
        result = await operator.configure()
        assert isinstance(result.error, ConnectionLost) and host.faults.ordered is None
        await until(lambda: host.files.find(r"C:\Windows\Transom\lock") is None)
        assert operator.host.running() == set(SERVICES)
        assert (operator.host.content(KUBELET) or b"").endswith(b"new")
        assert (await operator.configure()).result == "unchanged", "nothing is owed"


async def _script_of(operator: Operator, path: Path, simulator: Simulator) -> int:
    """The number of the request that runs the change script of an upgrade like this one."""
    other = await upgraded(path / "other", simulator)
    assert isinstance(other.host, Simulated)
    other.host.mark()
    await other.configure()
    requests = other.host.host.traffic.requests
    return next(number for number, request in enumerate(requests, 1) if re.match(r"exec .*change\.cmd", request))


@pytest.mark.server
@pytest.mark.parametrize("at", [2, 9, 30, 60, 75, 90, 120])
async def test_a_host_that_hangs_costs_its_own_pass(simulated: Simulated, tmp_path: Path, at: int) -> None:
    operator = Operator(simulated, tmp_path, progress=0.4)
    simulated.fail(at, "hang")
    result = await operator.configure()
    assert isinstance(result.error, HostError) and "no progress" in str(result.error)
    for _ in range(40):
        if (again := await operator.configure()).error is None:
            break
        await asyncio.sleep(0.05)
    assert again.error is None


@pytest.mark.server
class TestFaults:
    """What only a simulated host can be made to do."""

    async def test_a_user_without_administrator_rights(self, simulated: Simulated, tmp_path: Path) -> None:
        simulated.host.administrator = False
        result = await Operator(simulated, tmp_path).configure()
        assert isinstance(result.error, NotAdministrator)
        assert simulated.content(KUBELET) is None

    async def test_a_disk_without_room(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        program = b"MZservice kubelet".ljust(2_000_000, b".")
        operator.payload = simulated.payload(tmp_path / "payload", program=program)
        simulated.host.files.free = 1_500_000
        result = await operator.configure()
        assert isinstance(result.error, FileRefused)
        assert KUBELET in str(result.error) and "2000000 bytes are needed" in str(result.error)
        assert simulated.running() == set()
        simulated.host.files.free = None
        again = await operator.reached()
        assert simulated.running() == JOINING
        assert again.sent < len(program), "what was there was not sent again"

    async def test_a_file_in_use_that_cannot_be_renamed(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        await operator.configure()
        operator.payload = simulated.payload(tmp_path / "payload", "1.0.1", program=b"MZnew")
        holder = simulated.host.files.open(KUBELET)
        result = await operator.configure()
        assert isinstance(result.error, InstallFailed)
        assert f"{KUBELET} could not be put in its place" in str(result.error)
        assert simulated.running() == JOINING, "the old one goes on"
        holder.close()
        await operator.reached()
        assert simulated.content(KUBELET) == b"MZnew"

    async def test_a_service_that_does_not_start(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)

        def ruin(line: str) -> None:
            if 'start "kubelet"' in line:
                simulated.host.services.get("kubelet").starts_well = False

        simulated.host.watchers.add(ruin)
        result = await operator.configure()
        assert isinstance(result.error, RestartsFailed) and "kubelet does not run" in str(result.error)
        simulated.host.watchers.clear()
        simulated.host.services.get("kubelet").starts_well = True
        await operator.reached()

    async def test_a_service_that_starts_and_dies(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)

        def died(line: str) -> None:
            service = simulated.host.services.find("kubelet")
            if "export" in line and "ledger" in line and service is not None and service.starts:
                simulated.host.services.kill("kubelet")

        simulated.host.watchers.add(died)
        result = await operator.configure()
        assert isinstance(result.error, ServiceDied) and "kubelet" in str(result.error)
        simulated.host.watchers.clear()
        await operator.reached()

    async def test_a_directory_of_somebody_else(self, simulated: Simulated, tmp_path: Path) -> None:
        simulated.host.files.make_directories(r"C:\k")
        simulated.host.files.get_directory(r"C:\k").owner = "S-1-5-21-1-2-3-1001"
        result = await Operator(simulated, tmp_path).configure()
        assert isinstance(result.error, DirectoryNotOurs) and r"C:\k" in str(result.error)
        assert simulated.running() == set()

    async def test_windows_boots_for_the_feature_and_the_name_and_the_pass_goes_on(
        self, simulated: Simulated, tmp_path: Path
    ) -> None:
        host = simulated.host
        host.features.clear()
        operator = Operator(simulated, tmp_path)
        operator.facts = Facts(node_name="worker-1", rename=True, provided=PROVIDED)
        result = await operator.configure()
        assert (result.error, result.result) == (None, "changed")
        assert result.reboot == "the feature Containers was installed and the host got its node's name"
        assert simulated.running() == set() and simulated.content(KUBELET) is None
        pending = await operator.configure()
        assert (pending.reboot, pending.result) == ("Windows requires a reboot to complete its preparation", "unchanged")
        await configuring.request_reboot(simulated.access, KnownHostsFile(tmp_path / "known_hosts"), operator.settings)
        assert host.booting is not None
        await host.booting
        result = await operator.reached()
        assert (result.reboot, result.node_name, host.name) == ("", "worker-1", "worker-1")
        assert host.firewall == {"Transom TCP 10250": "10250"} and host.boot_id == 2

    async def test_windows_is_down_before_the_order_to_boot_is_cleared_away(self, simulated: Simulated, tmp_path: Path) -> None:
        host = simulated.host
        operator = Operator(simulated, tmp_path)
        await operator.configure()

        cuts: list[str] = []

        def cut_power() -> None:
            request = host.traffic.requests[-1]
            if host.booting is not None and request.startswith("remove "):
                cuts.append(request)
                host.cut_power()

        host.interlopers.add(cut_power)
        await configuring.request_reboot(simulated.access, KnownHostsFile(tmp_path / "known_hosts"), operator.settings)
        assert host.booting is not None and cuts
        host.interlopers.clear()
        await host.booting
        await operator.reached()

    async def test_without_a_proxy_no_variable_is_ever_written(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        operator.egress = Egress()
        await operator.reached()
        for name in ("containerd", "kubelet"):
            assert not {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} & set(simulated.environments(name)[0])
        held = ledger.read(simulated.host.registry)
        assert not held.environment.services and not held.trust

    async def test_windows_powershell_gets_the_proxy_and_loses_it(self, simulated: Simulated, tmp_path: Path) -> None:
        operator, files = Operator(simulated, tmp_path), simulated.host.files
        proxy = Secret("http://other.x:3128")
        operator.egress = Egress(proxy, proxy, ".svc", windows=WindowsSettings(power_shell=True))
        await operator.reached()
        assert b"'http://other.x:3128'" in files.read(PROFILE)
        operator.egress = Egress(proxy, proxy, ".svc")
        result = await operator.reached()
        assert result.restarted == () and files.find(PROFILE) is None

    async def test_a_proxy_that_changes_restarts_with_it_and_sends_nothing(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        await operator.configure()
        operator.egress = Egress(Secret("http://other.x:3128"), None, ".svc")
        result = await operator.reached()
        assert result.sent == 0 and result.channels <= 4
        first, second = simulated.environments("kubelet")
        assert (second["HTTP_PROXY"], "HTTPS_PROXY" in second, "HTTPS_PROXY" in first) == ("http://other.x:3128", False, True)

    async def test_a_dry_run_writes_nothing(self, simulated: Simulated, tmp_path: Path) -> None:
        result = await Operator(simulated, tmp_path).configure(dry_run=True)
        assert result.plan and result.sent == 0
        assert simulated.host.registry.find_key(LEDGER) is None and not simulated.host.services.list_names()

    async def test_an_adopted_service_is_never_ours(self, simulated: Simulated, tmp_path: Path) -> None:
        host = simulated.host
        host.add_service("containerd")
        await host.services.start("containerd")
        before = host.registry.find_value(rf"{SERVICE_KEYS}\containerd", "ImagePath")
        operator = Operator(simulated, tmp_path)
        await operator.reached()
        key = host.registry.find_key(rf"{SERVICE_KEYS}\containerd")
        assert key is not None and key.get("ImagePath") == before and key.get("Description") is None
        assert simulated.content(r"C:\k\containerd.exe") is None, "its files are not sent"
        assert simulated.environments("containerd")[-1]["HTTPS_PROXY"] == URL
        assert ledger.read(host.registry).installed.services["containerd"].adopted

    async def test_services_that_are_taken_over_run_on_where_the_payload_does_not(
        self, simulated: Simulated, tmp_path: Path
    ) -> None:
        """A person gave kubelet to Transom, and containerd not; programs that do not run leave all as it was found."""
        host = simulated.host
        for name in ("containerd", "kubelet"):
            host.add_service(name)
            await host.services.start(name)
        simulated.put(KUBELET, b"MZservice of another operator")
        keys = {name: host.registry.find_value(rf"{SERVICE_KEYS}\{name}", "ImagePath") for name in ("containerd", "kubelet")}
        operator = Operator(simulated, tmp_path)
        good, operator.payload = operator.payload, simulated.payload(tmp_path / "bad", program=b"MZends 23 after 1")
        operator.facts = Facts(provided=PROVIDED, takes=("Kubelet",))
        result = await operator.configure()
        assert isinstance(result.error, PutBack) and "kubelet ended with exit code 23" in str(result.error)
        assert {name: host.registry.find_value(rf"{SERVICE_KEYS}\{name}", "ImagePath") for name in keys} == keys
        assert simulated.content(KUBELET) == b"MZservice of another operator"
        assert simulated.running() == {"containerd", "kubelet"}
        assert not ledger.read(host.registry).installed.services
        operator.payload = good
        await operator.reached()
        services = ledger.read(host.registry).installed.services
        taken = services["kubelet"].taken
        assert taken is not None and keys["kubelet"] is not None and taken.command == keys["kubelet"].decode_text()
        assert services["containerd"].adopted and services["containerd"].taken is None
        assert (await operator.remove()).error is None
        assert host.services.list_names() == ("containerd",) and simulated.content(KUBELET) is None

    async def test_a_service_of_the_settings_that_the_payload_does_not_know(self, simulated: Simulated, tmp_path: Path) -> None:
        """What people name gets proxy and restarts, is never configured, and comes back; what is not there costs nothing."""
        host = simulated.host
        host.add_service("agent")
        await host.services.start("agent")
        before = simulated.everything()
        operator = Operator(simulated, tmp_path)
        windows = WindowsSettings(services=("containerd", "Agent", "kube-proxy", "nowhere"))
        operator.egress = msgspec.structs.replace(EGRESS, windows=windows)
        result = await operator.reached()
        assert "agent" in map(str.casefold, result.restarted)
        assert [start["HTTPS_PROXY"] for start in simulated.environments("agent")[1:]] == [URL]
        assert "HTTPS_PROXY" in simulated.environments("kubelet")[0], "the payload says so for its own services"
        operator.joined()
        await operator.reached()
        assert "HTTPS_PROXY" not in simulated.environments("kube-proxy")[0]
        assert (await operator.remove()).error is None
        assert simulated.everything() == before
        assert "HTTPS_PROXY" not in simulated.environments("agent")[-1]

    async def test_a_command_beside_the_operator_finds_nothing_to_do(self, simulated: Simulated, tmp_path: Path) -> None:
        """`transom apply` knows no payload: what that gives its services stays, or changes with all the others."""
        operator = Operator(simulated, tmp_path)
        text = (
            (operator.payload.path / "payload.yaml").read_text().replace("  dependsOn: [hybrid-overlay-node]", "  egress: true")
        )
        (operator.payload.path / "payload.yaml").write_text(text)
        operator.payload = PayloadDirectory.open(operator.payload.path)
        operator.joined()
        await operator.reached()
        access, place = simulated.access, FindingPlace("", "WindowsInstance/win")
        spec = WindowsInstanceSpec(access.address, access.port, access.username, host_key=access.host_key)
        instance = WindowsInstance(Meta("win"), place, spec)

        async def applied(url: str | None) -> PassResult:
            proxy = Secret(url) if url else None
            egress = Egress(proxy, proxy, ".svc" if url else "", api_server_known=True)
            found = await HostPass(NoHostKeys(), operator.settings).run(Target(instance, egress, access.keys[0]))
            assert found.error is None
            return found

        for _ in range(2):
            assert (await applied(URL)).result == "unchanged"
            assert (await operator.configure()).result == "unchanged"
        other = "http://other.x:3128"
        assert set((await applied(other)).restarted) == set(SERVICES)
        proxied = ("containerd", "kubelet", "kube-proxy")
        assert [simulated.environments(name)[-1]["HTTPS_PROXY"] for name in proxied] == [other] * 3
        assert (await applied(other)).result == "unchanged"
        await applied(None)
        assert not [name for name in SERVICES if "HTTPS_PROXY" in simulated.environments(name)[-1]]
        assert simulated.running() == set(SERVICES)
        await operator.reached()
        assert [simulated.environments(name)[-1]["HTTPS_PROXY"] for name in proxied] == [URL] * 3

    async def test_a_node_that_is_not_ready_may_join_again_and_keeps_its_kubelet(
        self, simulated: Simulated, tmp_path: Path
    ) -> None:
        """Its token is there for the case that its certificate has run out; another token each hour restarts nobody."""
        operator = Operator(simulated, tmp_path)
        await operator.reached()
        # while there is no Node, the kubelet has to read another one
        operator.facts = Facts(provided={"bootstrap-kubeconfig": Secret("token: abcdef.hunter2another")})
        assert "kubelet" in (await operator.reached()).restarted
        operator.joined()
        await operator.reached()
        starts = len(simulated.environments("kubelet"))
        for token in ("one", "two"):
            operator.facts = Facts(node=NODE, provided={"bootstrap-kubeconfig": Secret(f"token: abcdef.hunter2{token}")})
            assert (await operator.reached()).restarted == ()
            assert (simulated.content(r"C:\k\bootstrap.kubeconfig") or b"").endswith(token.encode())
        operator.joined()
        await operator.reached()
        assert simulated.content(r"C:\k\bootstrap.kubeconfig") is None
        assert len(simulated.environments("kubelet")) == starts

    async def test_scripts_are_not_asked_again_in_one_boot(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        operator.joined()
        operator.facts = Facts(node=NODE, provided=PROVIDED)
        await operator.reached()
        asked = sum("SOURCE_VIP.ps1" in line for line in simulated.host.processes)
        assert asked == 1
        simulated.host.powershell = lambda call: call.write_output("10.9.9.9\r\n") or 0
        await simulated.host.boot()
        await operator.reached()
        image = simulated.host.services.get("kube-proxy").image
        assert "10.9.9.9" in image and VIP not in image
        assert simulated.host.registry.find_value(rf"{SERVICE_KEYS}\kube-proxy", "Description") == build_sz(
            "kube-proxy, made by Transom"
        )

    async def test_a_long_name_of_the_host_is_the_node_s(self, simulated: Simulated, tmp_path: Path) -> None:
        name = "Windows-Worker-In-Rack-17"
        simulated.host.edit([SetValue(rf"{SERVICE_KEYS}\Tcpip\Parameters", "Hostname", build_sz(name))])
        assert (await Operator(simulated, tmp_path).reached()).node_name == name.lower()

    async def test_the_routes_to_the_metadata_service_outlive_the_network(self, simulated: Simulated, tmp_path: Path) -> None:
        """OCPBUGS-15988: a host of windows-instances, whose first boot was not by Transom's user data."""
        launch = r"C:\Program Files\Amazon\EC2Launch\EC2Launch.exe"
        simulated.host.files.write(launch, simulated.host.files.read(r"C:\Windows\System32\hostname.exe"))
        operator = Operator(simulated, tmp_path)

        def asked() -> int:
            return sum("add-routes --persistent" in line for line in simulated.host.processes)

        await operator.reached()
        assert asked() == 1
        operator.joined()
        await operator.reached()
        assert asked() == 1
        assert (await operator.remove()).error is None
        assert asked() > 1

    async def test_the_metadata_service_is_asked_before_the_facts(self, simulated: Simulated, tmp_path: Path) -> None:
        """AWS: the Node has the instance's private DNS name, and the next pass does not ask again."""
        operator, name, states = Operator(simulated, tmp_path), "ip-10-0-1-2.ec2.internal", list[ObservedState]()

        def answer(call: Invocation) -> int:
            call.write_output(f"{name}\r\n" if "METADATA_NAME" in " ".join(call.arguments) else f"{VIP}\r\n")
            return 0

        async def know(state: ObservedState) -> Facts:
            states.append(state)
            return Facts(provided=PROVIDED, node_name=name)

        simulated.host.powershell = answer
        domain = SetValue(rf"{SERVICE_KEYS}\Tcpip\Parameters", "Domain", build_sz("corp.example"))
        simulated.host.edit([domain])
        keys = KnownHostsFile(tmp_path / "known_hosts")
        results = [
            await configuring.configure_worker(
                simulated.access, keys, operator.settings, WorkerSpec(operator.payload, know, EGRESS, name_script=script)
            )
            for script in ("node-name-aws.ps1", None)
        ]
        assert [(result.error, result.node_name, result.result) for result in results] == [
            (None, name, "changed"),
            (None, name, "unchanged"),
        ]
        assert [(state.metadata_name, state.dns_domain) for state in states] == [(name, "corp.example"), ("", "corp.example")]

    async def test_a_metadata_service_that_does_not_answer_is_told_to_who_decides(
        self, simulated: Simulated, tmp_path: Path
    ) -> None:
        operator = Operator(simulated, tmp_path)

        def refuse(call: Invocation) -> int:
            call.write_error("Unable to connect to the remote server\r\n")
            return 1

        async def know(state: ObservedState) -> Facts:
            raise HostError(f"[{state.metadata_name}] {state.metadata_complaint}")

        simulated.host.powershell = refuse
        worker = WorkerSpec(operator.payload, know, EGRESS, name_script="node-name-gcp.ps1")
        result = await configuring.configure_worker(
            simulated.access, KnownHostsFile(tmp_path / "known_hosts"), operator.settings, worker
        )
        assert str(result.error) == "[] Unable to connect to the remote server"
        assert (result.sent, simulated.running()) == (0, set())

    async def test_the_host_fetches_after_a_change_and_where_it_is_asked(self, simulated: Simulated, tmp_path: Path) -> None:
        simulated.host.fetch = lambda call: call.write_output("transom-fetched 204 200\r\n") or 0
        operator = Operator(simulated, tmp_path)
        operator.egress = msgspec.structs.replace(EGRESS, readiness_endpoints=("https://probe.x/",))
        assert (await operator.configure()).fetched == (FetchAttempt(0, 0, 204, 200),)
        assert (await operator.configure()).fetched == ()
        operator.fetch_anyway = True
        again = await operator.configure()
        assert (again.result, again.fetched) == ("unchanged", (FetchAttempt(0, 0, 204, 200),))

    async def test_nothing_unknown_was_asked_of_the_host(self, simulated: Simulated, tmp_path: Path) -> None:
        operator = Operator(simulated, tmp_path)
        await operator.configure()
        operator.joined()
        await operator.configure()
        assert simulated.host.unknown == []
