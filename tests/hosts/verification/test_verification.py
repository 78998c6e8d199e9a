"""What each bench answers to the checks of `transom verify host`: anything else than `benches.yaml` is an error."""

import asyncio
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from lab.machine import Machine
from tests.hosts.attacks import SERVICE, change
from tests.hosts.egress import settings
from tests.hosts.machines import WineHost
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.hosts.verification import breakers
from tests.hosts.verification.breakers import Breaker
from tests.support.process import run
from tests.support.workers.hosts import everything, everything_of

from transom.cli.checks import Suite, print_results_and_exit, render_junit, report_check
from transom.cli.commands.verify import create_rehearsal, find_instance
from transom.cli.output import Format
from transom.cli.verification_record import (
    BEGIN,
    CLAIMS,
    END,
    MachineResults,
    NotWindows,
    add_to_record,
    parse_record,
    update_results_page,
)
from transom.common.check_results import CheckResult
from transom.hosts.passes import verification
from transom.hosts.passes.rehearsal import STEPS, run_rehearsal
from transom.hosts.passes.verification import LIFE, SystemIdentity, VerificationResult, verify_host
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.steps.change_checks import CLEAR, build_change_checks
from transom.hosts.steps.checks import CHECKS
from transom.hosts.steps.powershell_checks import POWERSHELL_CHECKS, POWERSHELL_START
from transom.windows.parts import execution_policy
from transom.windows.parts.powershell import PROFILE
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.values import build_dword, build_sz
from winsim import Host, Simulator
from winsim.editions import SERVER_2019, SERVER_2022, SERVER_2025, Edition
from winsim.programs import system

SEEN = parse_record(Path("docs/verified.yaml").read_bytes())
EDITIONS: dict[str, tuple[Edition, str]] = {
    "Server 2019": (SERVER_2019, "Administrator"),
    "Server 2022": (SERVER_2022, "Administrator"),
    "Server 2025": (SERVER_2025, "Administrator"),
    "German": (msgspec.structs.replace(SERVER_2022, language="German"), "Administrator"),
    "Japanese": (msgspec.structs.replace(SERVER_2019, language="Japanese"), "Administrator"),
    "renamed Administrator": (SERVER_2025, "Verwalter"),
    "domain member": (msgspec.structs.replace(SERVER_2022, domain="CORP"), "svc-transom"),
}
OF_WINDOWS: dict[str, tuple[str, ...]] = {"EventLog": (), "RpcSs": (), "Schedule": ("RpcSs",)}
"""Services that every Windows has."""
TRIALS = (*build_change_checks("", b""), CLEAR)
NOT_THERE = dict.fromkeys(("task-scheduler", "ledger-closed"), "not applicable")
"""What a simulated host does not have before a change: the service Schedule, a ledger."""


@pytest.fixture
async def host(simulator: Simulator) -> SimulatedHost:
    return SimulatedHost(simulator, await simulator.add_host(services=SERVICES))


def differing(found: tuple[CheckResult, ...]) -> dict[str, str]:
    return {item.id: item.verdict for item in found if item.verdict != "pass"}


def left(host: Host) -> tuple[object, ...]:
    """All that can be seen of a host."""
    return (*everything_of(host), dict(host.users), host.tasks.list_names(), dict(host.firewall), host.services.list_names())


@pytest.mark.parametrize("bench", EDITIONS)
async def test_each_windows_answers_as_it_is_written_down(simulator: Simulator, bench: str) -> None:
    edition, username = EDITIONS[bench]
    made = await simulator.add_host(services=SERVICES | OF_WINDOWS, edition=edition, username=username)
    host, before = SimulatedHost(simulator, made), left(made)
    found = await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal())
    assert {check.id: check.verdict for check in found.checks} == SEEN[f"simulated {bench}"].checks
    assert [check.id for check in found.checks] == _ids(CLAIMS)
    assert found.build == f"10.0.{edition.build}"
    assert left(made) == before and made.unknown == []


async def test_without_a_change_it_reads(host: SimulatedHost) -> None:
    before = left(host.simulated)
    found = await verify_host(host.access, NoHostKeys(), settings())
    assert _ids(found.checks) == _ids(CHECKS)
    assert differing(found.checks) == NOT_THERE
    assert left(host.simulated) == before


async def test_a_host_in_use_keeps_what_it_has(simulator: Simulator, host: SimulatedHost) -> None:
    host.simulated.add_service(SERVICE)
    assert (await change(simulator, host.simulated, "hunter2")).error is None
    before = left(host.simulated)
    starts = host.simulated.starts(SERVICE)
    told: list[CheckResult] = []
    found = await verify_host(host.access, NoHostKeys(), settings(), told.append, rehearsal=create_rehearsal())
    assert told == list(found.checks)
    unused = [trial.id for trial in (*(check for check in TRIALS if check.where == "unused"), *STEPS)]
    assert differing(found.checks) == dict.fromkeys(["task-scheduler", *unused], "not applicable")
    assert {check.seen for check in found.checks if check.id in unused} == {"the machine is in use: Transom works on it"}
    assert left(host.simulated) == before and host.simulated.starts(SERVICE) == starts


async def test_what_a_killed_one_left_goes(host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(host.simulated)
    with monkeypatch.context() as patch:
        # as if it had ended there: nothing is cleared
        patch.setattr(verification, "CLEAR", CHECKS[0])
        await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=_ids(TRIALS))
    assert left(host.simulated) != before
    await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=("rename-taken",))
    assert left(host.simulated) == before


async def test_a_profile_that_a_killed_one_left_goes_and_one_of_the_host_stays(host: SimulatedHost) -> None:
    for content, is_gone in ((POWERSHELL_START.files[0][1], True), (b"# theirs", False)):
        host.simulated.files.write(PROFILE, content)
        found = await verify_host(
            host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=("powershell-start",)
        )
        assert found.checks[0].verdict == ("pass" if is_gone else "not applicable")
        assert (host.simulated.files.find(PROFILE) is None) == is_gone


@pytest.mark.parametrize("policy", ["AllSigned", "Restricted", "RemoteSigned", "Bypass"])
async def test_a_policy_that_loads_no_profile_is_as_transom_reads_it(host: SimulatedHost, policy: str) -> None:
    """In whatever scope: group policy overrides the machine's."""
    scopes: tuple[Sequence[Edit], ...] = (
        [SetValue(execution_policy.MACHINE, "ExecutionPolicy", build_sz(policy))],
        [
            SetValue(execution_policy.MACHINE, "ExecutionPolicy", build_sz("Unrestricted")),
            SetValue(execution_policy.POLICY, "EnableScripts", build_dword(policy != "Restricted")),
            SetValue(execution_policy.POLICY, "ExecutionPolicy", build_sz(policy)),
        ],
    )
    for edits in scopes:
        host.simulated.edit(edits)
        only = ("powershell-policy", "powershell-start")
        found = await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=only)
        assert differing(found.checks) == {}
        assert policy in found.checks[0].seen and f"policy {policy}" in found.checks[1].seen


async def test_powershell_that_says_nothing_or_is_constrained_answers_nothing(
    host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = (*_ids(POWERSHELL_CHECKS), "powershell-start")
    host.simulated.constrained = True
    found = await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=only)
    assert differing(found.checks) == dict.fromkeys(("powershell-proxy", "powershell-start"), "not applicable")
    host.simulated.constrained = False
    monkeypatch.setattr(system, "run_session_command", lambda *_: 0)
    found = await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=only)
    assert differing(found.checks) == dict.fromkeys(only, "not applicable")


def _ids(checks: tuple[object, ...]) -> list[str]:
    return [check.id for check in checks]  # type: ignore[attr-defined]


def test_every_check_has_a_bench_that_breaks_it() -> None:
    assert list(breakers.CHECKS) == _ids(CHECKS)
    assert list(breakers.TRIALS) == _ids(TRIALS)
    assert list(breakers.LIFE) == _ids(STEPS)


def expected(check: str, broken: Mapping[str, Breaker], otherwise: str) -> dict[str, str]:
    return {check: "fail", **dict.fromkeys(broken[check].also, otherwise)}


@pytest.mark.parametrize("check", breakers.CHECKS)
async def test_what_is_broken_is_found(host: SimulatedHost, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breakers.CHECKS[check].breaks(host.simulated, monkeypatch)
    found = await verify_host(host.access, NoHostKeys(), settings())
    assert differing(found.checks) == NOT_THERE | expected(check, breakers.CHECKS, "fail")


@pytest.mark.parametrize("check", breakers.TRIALS)
async def test_what_is_broken_is_tried_out(host: SimulatedHost, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breakers.TRIALS[check].breaks(host.simulated, monkeypatch)
    found = await verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=_ids(TRIALS))
    assert differing(found.checks) == expected(check, breakers.TRIALS, "fail")


@pytest.mark.parametrize("check", breakers.LIFE)
async def test_what_is_broken_is_seen_in_a_workers_life(
    host: SimulatedHost, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breakers.LIFE[check].breaks(host.simulated, monkeypatch)
    found = await run_rehearsal(host.access, NoHostKeys(), settings(), create_rehearsal(), "", lambda _: None)
    assert differing(found) == expected(check, breakers.LIFE, "fail" if check == "removed" else "not applicable")


@pytest.mark.usefixtures("soon_again")
@pytest.mark.parametrize("at", range(4, 40, 4))
async def test_called_off_anywhere_it_leaves_nothing(host: SimulatedHost, at: int) -> None:
    before = left(host.simulated)
    running = asyncio.ensure_future(verify_host(host.access, NoHostKeys(), settings()))
    while not running.done() and len(host.simulated.traffic.requests) < at:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert left(host.simulated) == before


@pytest.mark.parametrize("trial", [check.id for check in TRIALS])
async def test_called_off_in_a_trial_it_leaves_nothing(host: SimulatedHost, trial: str) -> None:
    before = left(host.simulated)
    work = verify_host(host.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=_ids(TRIALS))
    running = asyncio.ensure_future(work)
    await _reached(host.simulated, "clear.cmd" if trial == "cleared" else f"{trial}.cmd", running)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    await host.simulated.background.wait_until_idle()
    assert left(host.simulated) == before


async def _reached(host: Host, script: str, running: asyncio.Future[object]) -> None:
    """Waits until a script has started its second program, or has ended."""
    wanted = 2 if script == "clear.cmd" else 1  # it runs at the beginning, too
    begun = 0
    while not running.done():
        ran = [line.endswith(f"\\{script}") for line in host.traffic.commands]
        if sum(ran) == wanted and not begun:
            begun = len(host.processes)
        if begun and (len(host.processes) >= begun + 2 or not ran[-1]):
            return
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", [step.id for step in STEPS])
async def test_called_off_in_a_workers_life_it_leaves_nothing(host: SimulatedHost, step: str) -> None:
    before = left(host.simulated)
    begun = [step.id for step in STEPS].index(step)
    told: list[CheckResult] = []
    running = asyncio.ensure_future(run_rehearsal(host.access, NoHostKeys(), settings(), create_rehearsal(), "", told.append))
    while not running.done() and (len(told) < begun or host.simulated.traffic.execs < 2 + begun * 2):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    await host.simulated.background.wait_until_idle()
    assert left(host.simulated) == before


@pytest.mark.lab
async def test_wine_answers_as_it_is_written_down(request: pytest.FixtureRequest) -> None:
    machine: Machine = request.getfixturevalue("machine")
    wine = WineHost(machine)
    await wine.restore()
    # nobody can be made there, which would be waited for; what a worker lives through there is tests/stories/nodes
    tried = [claim for claim in CLAIMS if claim.id != "user" and claim not in STEPS]
    before = everything(machine)
    found = await verify_host(wine.access, NoHostKeys(), settings(), rehearsal=create_rehearsal(), only=_ids(tried))
    assert {check.id: check.verdict for check in found.checks} == {
        name: "pass" if check == "stub" else check for name, check in SEEN["Wine"].checks.items() if name in _ids(tried)
    }
    stubs = [check.lines for check in (*CHECKS, *TRIALS) if SEEN["Wine"].checks[check.id] == "stub"]
    assert all(re.search("%(POWERSHELL|ICACLS|NETSH|SCHTASKS)%", lines) for lines in stubs)
    assert everything(machine) == before


def test_the_page_says_what_is_checked_and_where_it_was_seen() -> None:
    page = Path("docs/verified.md").read_text("utf-8")
    assert update_results_page(page, SEEN) == page, "scripts/reference was not run"
    assert all(list(item.checks) == _ids(CLAIMS) for item in SEEN.values() if not item.date)


def test_what_was_seen_is_recorded() -> None:
    one = CheckResult("certutil", "", "", "fail", "", 0)
    written = add_to_record(
        add_to_record(b"", VerificationResult((one,), "10.0.1.2"), "2026-11-21"),
        VerificationResult((one,), "10.0.3.4"),
        "2026-11-22",
    )
    assert parse_record(written)["Windows 10.0.3.4"] == MachineResults({"certutil": "fail"}, "2026-11-22")
    page = update_results_page(f"a{BEGIN}{END}b", parse_record(written))
    (row,) = [line for line in page.splitlines() if line.startswith("| `certutil`")]
    assert row.endswith("| not on Windows 10.0.1.2 (2026-11-21); not on Windows 10.0.3.4 (2026-11-22) |")
    assert (page[0], page[-1]) == ("a", "b")


def test_machines_that_differ_in_edition_language_or_ssh_server_have_entries_of_their_own() -> None:
    one = CheckResult("certutil", "", "", "pass", "", 0)
    origins = [
        SystemIdentity("ServerDatacenter", "0409", "OpenSSH_for_Windows_9.5"),
        SystemIdentity("ServerStandard", "0409", "OpenSSH_for_Windows_9.5"),
        SystemIdentity("ServerDatacenter", "0407", "OpenSSH_for_Windows_9.5"),
        SystemIdentity("ServerDatacenter", "0409", "OpenSSH_for_Windows_7.7"),
    ]
    text = b""
    for origin in (*origins, *origins):
        text = add_to_record(text, VerificationResult((one,), "10.0.1.2", origin), "2026-11-21")
    assert len(parse_record(text)) == len(origins)
    for stand_in in ("simulated", "Wine"):
        with pytest.raises(NotWindows, match=stand_in):
            add_to_record(text, VerificationResult((one,), "10.0.1.2", SystemIdentity(stand_in=stand_in)), "2026-11-21")


async def test_a_simulated_host_is_not_recorded_as_windows(simulator: Simulator) -> None:
    for edition, language in ((SERVER_2022, "0409"), (EDITIONS["German"][0], "0407"), (EDITIONS["Japanese"][0], "0411")):
        host = SimulatedHost(simulator, await simulator.add_host(services={}, edition=edition))
        verified = await verify_host(host.access, NoHostKeys(), settings(), only=("build",))
        assert verified.origin == SystemIdentity("ServerDatacenter", language, verified.origin.ssh_server, "simulated")
        assert verified.origin.ssh_server.startswith("OpenSSH_for_Windows")
        host.simulated.files.remove(host.simulated.files.find(r"C:\Windows\System32\winsim.exe"))
        host.simulated.files.write(r"C:\Windows\System32\winecfg.exe", b"MZ")
        assert (await verify_host(host.access, NoHostKeys(), settings(), only=("build",))).origin.stand_in == "Wine"


async def test_the_command_says_what_it_saw(host: SimulatedHost, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(host.access.keys[0].reveal())
    host.simulated.blocked.add("certutil.exe")
    where = ("verify", "host", host.access.address, "-p", str(host.access.port), "-u", host.access.username, "-i", str(key))
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "PATH": os.defpath}
    report = tmp_path / "report.xml"
    for form in ("json", "text"):
        ran = await asyncio.to_thread(run, *where, "-o", form, "--junit", str(report), environment=environment)
        assert (ran.returncode, ran.stderr) == (1, "")
        if form == "json":
            checks = {check["id"]: check["verdict"] for check in json.loads(ran.stdout)["checks"]}
            assert checks == {check.id: checks[check.id] for check in CHECKS} and checks["certutil"] == "fail"
        else:
            # what comes of the one that failed, and how many there were
            assert len(ran.stdout.splitlines()) == len(CHECKS) + 2
        assert ElementTree.fromstring(report.read_text().split("?>", 1)[1]).get("failures") == "1"
    ran = await asyncio.to_thread(run, *where, "--check", LIFE, "--change", environment=environment)
    *told, last = ran.stdout.splitlines()
    assert (ran.returncode, [line.split()[:2] for line in told]) == (0, [["pass", step.id] for step in (CLEAR, *STEPS)])
    assert last == f"{len(told)} checks: {len(told)} pass"
    ran = await asyncio.to_thread(run, *where, "--check", "held-file", environment=environment)
    assert ran.returncode == 2 and "add --change" in ran.stderr
    assert not host.has_base()


MANIFESTS = """
apiVersion: transom.dev/v1alpha1
kind: EgressProxy
metadata: {name: cluster}
spec: {httpsProxy: "http://proxy.corp.example:3128"}
---
apiVersion: transom.dev/v1alpha1
kind: WindowsInstance
metadata: {name: win-1, namespace: transom-system}
spec: {address: ADDRESS, port: PORT, username: Administrator}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud-private-key, namespace: transom-system}
stringData: {private-key.pem: KEY}
"""


async def test_the_settings_are_those_of_the_manifests(host: SimulatedHost, tmp_path: Path) -> None:
    before = left(host.simulated)
    values = {"ADDRESS": host.access.address, "PORT": str(host.access.port), "KEY": json.dumps(host.access.keys[0].reveal())}
    text = MANIFESTS
    for name, value in values.items():
        text = text.replace(name, value)
    (tmp_path / "all.yaml").write_text(text)
    access, rehearsal = find_instance([str(tmp_path)], "win-1")
    assert rehearsal.egress.https_proxy is not None and "corp.example" in rehearsal.egress.https_proxy.reveal()
    found = await verify_host(access, NoHostKeys(), settings(), rehearsal=rehearsal, only=(LIFE,))
    assert differing(found.checks) == {} and left(host.simulated) == before


def test_the_last_line_counts_and_a_failure_says_what_comes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = (CheckResult("a", "A", "", "pass", "", 0), CheckResult("b", "B", "", "fail", "x", 0, "no egress"))
    for item in found:
        report_check(item)
    with pytest.raises(SystemExit, match="1"):
        print_results_and_exit({}, found, Suite("host", "win-1"), None, Format.TEXT)
    _, _, so, last = capsys.readouterr().out.splitlines()
    assert (so.strip(), last) == ("so: no egress", "2 checks: 1 pass, 1 fail (b)")


def test_junit() -> None:
    found = (
        CheckResult("a", "A holds", "page", "pass", "x", 0.5),
        CheckResult("b", "B holds", "page", "fail", "\x1b<&", 0.25),
        CheckResult("c", "C holds", "page", "not applicable", "", 0),
    )
    suite = ElementTree.fromstring(render_junit(Suite("host", "win-1"), found))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]
