"""What is written into scripts: names and numbers, nothing that cmd would read as something else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.rendered import ALICE, ALL, changing, rendered

from transom.hosts.errors import NotExpressible
from transom.hosts.owner import Owner
from transom.hosts.scripts import host_scripts
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import RESTARTS, Queries
from transom.windows.payload.payload import Payload, PayloadService
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_sz


@pytest.mark.parametrize("made", rendered(), ids=lambda made: made.name)
def test_a_script_is_whole_and_has_no_value_in_it(made: host_scripts.Script) -> None:
    text = made.content.decode("ascii")
    assert text.count("\r\n") == text.count("\n")
    assert not re.search("@[A-Z]+@", text)
    assert "hunter2" not in text
    labels = [line[1:] for line in text.split("\r\n") if line.startswith(":")]
    assert len(labels) == len(set(labels))
    used = set(re.findall(r"(?:goto |call :)([a-z]+)", text))
    assert used - {"job"} <= set(labels)


@pytest.mark.parametrize("made", rendered(), ids=lambda made: made.name)
def test_programs_have_their_full_path_and_reg_its_options(made: host_scripts.Script) -> None:
    lines = made.content.decode("ascii").split("\r\n")
    for line in (line for line in lines if not line.startswith("rem ")):
        assert not re.search(r"(?:^|[ (])(?:reg|sc|ping|icacls|powershell|cmd)(?:\.exe)? ", line), line
        if '"%REG%" ' in line:
            assert "/reg:64" in line
        if '"%REG%" export' in line:
            assert " /y" in line


def test_the_name_of_a_gather_script_tells_its_content_apart() -> None:
    names = {
        host_scripts.build_gather_script(q, owner, base).name
        for q in (ALL, Queries())
        for owner in (ALICE, Owner("bob@x", "p"))
        for base in ("made", "found")
    }
    assert len(names) == 8
    assert all(re.fullmatch(r"gather-[0-9a-f]{12}\.cmd", name) for name in names)


@pytest.mark.parametrize("name", ["a b", "a%b", 'a"b', "a&b", "a|b", "ä", "", "a\nb", "$x"])
def test_a_service_that_is_asked_about_has_a_plain_name(name: str) -> None:
    with pytest.raises(NotExpressible):
        host_scripts.build_gather_script(Queries(services=(name,)), ALICE)


@pytest.mark.parametrize(
    "name", ["a%b", 'a"b', "a!b", "a^b", "a&b", "a|b", "a<b", "a>b", "ä", "a\nb", "", "a\\b", "a*b", "a?b"]
)
def test_a_service_that_is_restarted_has_nothing_in_its_name_that_cmd_reads(name: str) -> None:
    with pytest.raises(NotExpressible):
        changing(Plan(stop=(name,)))


@pytest.mark.parametrize(
    "path", ["HKLM\\X", "HKEY_LOCAL_MACHINE", r"HKEY_LOCAL_MACHINE\a%b", 'HKEY_LOCAL_MACHINE\\a"b', "HKEY_LOCAL_MACHINE\\a\nb"]
)
def test_a_key_that_is_asked_about_is_below_hklm_and_plain(path: str) -> None:
    with pytest.raises(NotExpressible):
        host_scripts.build_gather_script(Queries(keys=(path,)), ALICE)


@given(st.text(max_size=40))
def test_the_shell_is_asked_for_nothing_but_a_plain_path(path: str) -> None:
    try:
        line = host_scripts.build_command(path)
    except NotExpressible:
        return
    assert re.fullmatch(r"cmd\.exe /d /c [A-Za-z0-9\\:._-]+", line)


def test_notes_decide_what_the_job_does() -> None:
    before = ObservedState(Registry().apply_edits([SetValue(RESTARTS, "owed", build_sz("running"))]))
    plan = Plan(
        edits=(SetValue(RESTARTS, "maybe", build_sz("check")), SetValue(RESTARTS, "sure", build_sz("running"))),
        stop=("maybe", "sure"),
        start=("sure", "maybe", "owed"),
    )
    made = changing(plan, before, ServiceTimeouts(stop=7, start=9, services={"sure": 11}))
    lines = made.content.decode("ascii").split("\r\n")
    assert 'call :stop 0 "maybe" check 7 7 660' in lines
    assert 'call :stop 1 "sure" running 11 11 660' in lines
    assert [line for line in lines if line.startswith("call :start")] == [
        'call :start 1 "sure" 11 11 660',
        'call :start 0 "maybe" 9 9 660',
        'call :start 2 "owed" 9 9 660',
    ]
    assert 'set "SKIP_0=1"' in lines
    assert 'set "DONE_2=1"' in lines


def test_the_seconds_of_an_option_and_of_a_payload() -> None:
    payload = Payload(services=(PayloadService("Kubelet", timeout_seconds=900), PayloadService("containerd")))
    patience = ServiceTimeouts.from_seconds(120.4).with_payload(payload)
    assert [patience.get_stop_seconds(name) for name in ("kubelet", "CONTAINERD")] == [900, 121]
    assert [patience.get_start_seconds(name) for name in ("KUBELET", "other")] == [900, 121]
    # what a new payload needs to run is waited for before the former one comes back
    assert [patience.get_start_seconds(name, needed=True) for name in ("kubelet", "containerd")] == [900, 600]


def test_who_may_be_an_owner() -> None:
    assert re.fullmatch("[0-9a-f]{8}", ALICE.tag)
    for identity, process in [("a b", "pid 1"), ("", "pid 1"), ("a&b", "pid 1"), ("a", "pid  1"), ("a", ""), ("a", "%x")]:
        with pytest.raises(ValueError, match="letters"):
            Owner(identity, process)
