"""What people read after a command on many hosts: grouped, short, whole words, and those that failed by name."""

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from rich.cells import cell_len
from tests.support.command import run

from transom.apply.report import STOPPED, HostReport, Report
from transom.apply.target import Target
from transom.cli.options import OptionGroup, with_option_groups
from transom.cli.progress import Progress
from transom.cli.tables import format_host_line, print_report
from transom.hosts.passes.base_pass import PassResult
from transom.proxy.labels import InvalidSelector, parse_selector
from transom.windows.host.host_state import Step

LIST = ".cluster.local,.svc,10.96.0.0/16,127.0.0.1,localhost"
PROXY = "http://***@proxy.corp.example:3128"
CA = f"ROOT: {'5F' * 20} CN=Corp Egress Root CA 2026,O=Example Corporation"
CHANGES = (
    *(
        Step("service-environment", f"{service}: {name}", "replace", "the egress settings changed", before, after)
        for service in ("containerd", "kubelet", "cloud-node-manager")
        for name, before, after in (
            ("HTTPS_PROXY", "http://old.corp.example:3128", PROXY),
            ("NO_PROXY", LIST, f"{LIST},.new.example"),
        )
    ),
    Step("certificate", CA, "add", "in the trust bundle"),
    Step("service", "containerd", "restart", "its environment changed"),
    Step("service", "kubelet", "restart", "containerd, which it depends on, is restarted"),
)


def host(number: int, **fields: object) -> HostReport:
    made = HostReport(
        f"win-{number}", f"10.0.{number // 250}.{number % 250}", "changed", CHANGES, ("containerd", "kubelet"), 4, 1.25
    )
    return msgspec.structs.replace(made, **fields)


def fleet(count: int, failing: tuple[int, ...] = ()) -> Report:
    reason = (
        "kubelet does not run, 60 s after its start. Every other service that should run was started; the next pass tries again"
    )
    return Report(
        tuple(host(number, result="failed", error=reason) if number in failing else host(number) for number in range(count))
    )


def printed(
    report: Report, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, planned: bool
) -> str:
    monkeypatch.setattr("transom.cli.terminal._FILE_WIDTH", width)
    print_report(report, planned=planned)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 100, 160, 200])
@pytest.mark.parametrize("planned", [False, True])
def test_no_word_is_cut_and_no_line_padded(
    width: int, planned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(fleet(30, (7, 8)), width, monkeypatch, capsys, planned=planned)
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    words = set(out.replace(",", " ").split())
    for step in CHANGES:
        assert set(f"{step.target} {step.reason}".replace(",", " ").split()) <= words
    # a word that is wider than the terminal is left whole: it is the terminal that folds it
    assert [line for line in out.splitlines() if cell_len(line) > width and len(line.split()) > 6] == []


@pytest.mark.parametrize("width", [60, 80, 110, 160])
def test_three_of_300_that_fail_are_on_one_screen(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(fleet(300, (7, 99, 250)), width, monkeypatch, capsys, planned=False)
    lines = out.splitlines()
    assert len(lines) <= 50
    assert lines[-1] == "300 hosts: 297 changed, 3 failed: win-7, win-99, win-250"
    failed = " ".join(" ".join(lines[next(at for at, line in enumerate(lines) if "3 hosts  failed" in line) :]).split())
    assert "win-7, win-99, win-250" in failed
    assert "kubelet does not run, 60 s after its start." in failed


def test_a_thousand_hosts_are_readable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where hosts differ one by one: a line for each, and the changes of the largest groups."""
    drifted = tuple(
        host(number, changes=(Step("service-environment", f"kubelet: V{number}", "replace", "drift"),)) for number in range(40)
    )
    out = printed(Report((*fleet(1000).hosts[40:], *drifted)), 100, monkeypatch, capsys, planned=False)
    assert len(out.splitlines()) < 100
    assert "960 hosts  changed, the same 9 changes on each, restarted containerd, kubelet" in out
    assert out.splitlines()[-1] == "1,000 hosts: 1,000 changed"


def test_a_diff_shows_what_a_value_was_and_will_be(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    other = Step("service-environment", "kubelet: HTTP_PROXY", "replace", "the egress settings changed", PROXY, PROXY)
    new = Step("machine-environment", "machine: NO_PROXY", "add", "set by the egress settings", None, LIST)
    bypass = "http=p.x:1;https=p.x:1 bypass=*.a;10.0.*"
    win_http = Step("windows", "WinHTTP proxy", "replace", "spec.windows.winHTTP", bypass, f"{bypass};*.b")
    expressions = r"http://p.x:1 bypass=^a$"
    profile = Step(
        "windows", "PowerShell proxy", "replace", "spec.windows.powerShell", expressions, rf"{expressions};^b\.[/:]$"
    )
    file = Step("file", r"C:\k\kubelet.exe", "replace", "the payload changed", "7 bytes, 0a1b2c3d4e5f", "8 bytes, f5e4d3c2b1a0")
    changes = (*CHANGES[:2], other, new, win_http, profile, file)
    out = printed(Report((host(1, changes=changes),)), 160, monkeypatch, capsys, planned=True)
    told = [line.strip() for line in out.splitlines()]
    assert told[1:] == [
        "env  replace containerd: HTTPS_PROXY  the egress settings changed",
        "- http://old.corp.example:3128",
        f"+ {PROXY}",
        "env  replace containerd: NO_PROXY     the egress settings changed",
        "+ .new.example",
        "env  replace kubelet: HTTP_PROXY      the egress settings changed",
        f"~ {PROXY}  (another user name or password)",
        "env  add     machine: NO_PROXY        set by the egress settings",
        f"+ {LIST}",
        "os   replace WinHTTP proxy            spec.windows.winHTTP",
        "+ *.b",
        "os   replace PowerShell proxy         spec.windows.powerShell",
        r"+ ^b\.[/:]$",
        r"file replace C:\k\kubelet.exe         the payload changed",
        "- 7 bytes, 0a1b2c3d4e5f",
        "+ 8 bytes, f5e4d3c2b1a0",
        "1 host: 1 would change",
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_300_hosts_that_were_not_reached_or_all_failed_are_on_one_screen(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a Ctrl-C it is to be seen what was done, and a proxy that is away fails on everybody."""
    hosts = [
        host(number) if number < 20 else host(number, changes=(), restarted=()).as_skipped(STOPPED) for number in range(300)
    ]
    stopped = printed(Report(tuple(hosts), stopped=True), width, monkeypatch, capsys, planned=False).splitlines()
    assert len(stopped) <= 50
    assert " ".join(stopped[-1:]).endswith("300 hosts: 20 changed, 280 skipped")
    failed = printed(fleet(300, tuple(range(300))), width, monkeypatch, capsys, planned=False).splitlines()
    assert len(failed) <= 50
    assert "and 290 more" in " ".join(failed[-3:])


def test_who_was_not_begun_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(2, "done")
    progress.print_host_result(host(1))
    progress.print_host_result(host(2).as_skipped(STOPPED))
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == ["win-1"]


def test_who_is_skipped_is_told_with_the_reason_and_before_who_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skipped = [host(number, changes=(), restarted=()).as_skipped("not changed: the rollout stopped") for number in range(2, 9)]
    report = Report((host(1, result="failed", error="no answer", changes=()), *skipped), stopped=True)
    lines = [line.strip() for line in printed(report, 100, monkeypatch, capsys, planned=False).splitlines()]
    assert lines[:3] == [
        "7 hosts  skipped",
        "win-2, win-3, win-4, win-5, win-6, win-7, win-8",
        "not changed: the rollout stopped",
    ]
    assert lines[-1] == "stopped by Ctrl-C: 8 hosts: 7 skipped, 1 failed: win-1"


def test_a_host_is_one_line_as_it_ends() -> None:
    assert format_host_line(host(1), planned=False) == "win-1: changed, 9 changes, restarted containerd, kubelet  1.2 s"
    assert format_host_line(host(1, restarted=()), planned=True) == "win-1: would change, 9 changes  1.2 s"
    assert (
        format_host_line(host(2, result="failed", error="no answer", restarted=()), planned=False)
        == "win-2: failed: no answer  1.2 s"
    )


def test_who_is_worked_on_longest_and_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("transom.cli.progress.time.monotonic", lambda: clock[0])
    progress = Progress(300, "done")
    assert progress.format_progress() == ""
    progress.set_wait_reason("the others wait for the first host")
    progress.on_start(named("win-1"))
    clock[0] += 12
    progress.on_start(named("win-2"))
    clock[0] += 12
    assert progress.format_progress() == "win-1 for 24 s; the others wait for the first host"
    for name in ("win-1", "win-2"):
        progress.on_end(named(name), PassResult())
    assert progress.format_progress() == "the others wait for the first host"
    for number in (3, 4):
        progress.print_host_result(host(number, result="failed", error="no answer"))
    assert progress.format_progress() == "2 failed: win-3, win-4; the others wait for the first host"


def named(name: str) -> Target:
    return cast(Target, SimpleNamespace(instance=SimpleNamespace(name=name)))


def test_a_group_of_options_is_one_value() -> None:
    class Group(OptionGroup, frozen=True):
        first: str = "a"
        second: int = 2

    seen: list[tuple[Group, bool]] = []

    @with_option_groups
    def command(group: Group, more: bool = False) -> None:
        seen.append((group, more))

    command(first="b", second=3, more=True)
    assert seen == [(Group("b", 3), True)]


LABELS = {"env": "prod", "zone": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("env=prod", True),
        ("env == prod", True),
        ("env=test", False),
        ("env!=test,zone=a", True),
        ("env!=prod", False),
        ("absent!=x", True),
        ("env in (test, prod)", True),
        ("env notin (prod),zone", False),
        ("zone,!absent", True),
        ("!zone", False),
        ("transom.dev/x=", False),
    ],
)
def test_labels_are_selected_as_kubectl_does(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["env=prod,=x", "a b", "env in prod", "env>1", "-x=y"])
def test_a_selector_that_is_none(text: str) -> None:
    with pytest.raises(InvalidSelector, match="for example env=prod"):
        parse_selector(text)


@pytest.mark.parametrize("command", ["apply", "rollback"])
def test_what_changes_hosts_is_told_which(command: str) -> None:
    told = run(command)
    assert (told.code, told.out) == (2, "")
    assert "-f PATH, or by --context NAME" in told.err
