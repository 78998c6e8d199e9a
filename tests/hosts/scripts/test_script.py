"""What is written into scripts: names and numbers, nothing that cmd would read as something else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.rendered import ALICE, ALL, changing, rendered

from transom.hosts import scripts
from transom.hosts.errors import NotExpressible
from transom.hosts.owner import Owner
from transom.hosts.scripts import Patience
from transom.windows.host import ObservedState
from transom.windows.host.queries import RESTARTS, Queries
from transom.windows.planning import Plan
from transom.windows.registry import Registry
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import sz


@pytest.mark.parametrize("made", rendered(), ids=lambda made: made.name)
def test_a_script_is_whole_and_has_no_value_in_it(made: scripts.Script) -> None:
    text = made.content.decode("ascii")
    assert text.count("\r\n") == text.count("\n")
    assert not re.search("@[A-Z]+@", text)
    assert "hunter2" not in text
    labels = [line[1:] for line in text.split("\r\n") if line.startswith(":")]
    assert len(labels) == len(set(labels))
    used = set(re.findall(r"(?:goto |call :)([a-z]+)", text))
    assert used - {"job"} <= set(labels)


@pytest.mark.parametrize("made", rendered(), ids=lambda made: made.name)
def test_programs_have_their_full_path_and_reg_its_options(made: scripts.Script) -> None:
    lines = made.content.decode("ascii").split("\r\n")
    for line in (line for line in lines if not line.startswith("rem ")):
        assert not re.search(r"(?:^|[ (])(?:reg|sc|ping|icacls|powershell|cmd)(?:\.exe)? ", line), line
        if '"%REG%" ' in line:
            assert "/reg:64" in line
        if '"%REG%" export' in line:
            assert " /y" in line


def test_the_name_of_a_gather_script_tells_its_content_apart() -> None:
    names = {
        scripts.gather(q, owner, base).name
        for q in (ALL, Queries())
        for owner in (ALICE, Owner("bob@x", "p"))
        for base in ("made", "found")
    }
    assert len(names) == 8
    assert all(re.fullmatch(r"gather-[0-9a-f]{12}\.cmd", name) for name in names)


@pytest.mark.parametrize("name", ["a b", "a%b", 'a"b', "a&b", "a|b", "ä", "", "a\nb", "$x"])
def test_a_service_that_is_asked_about_has_a_plain_name(name: str) -> None:
    with pytest.raises(NotExpressible):
        scripts.gather(Queries(services=(name,)), ALICE)


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
        scripts.gather(Queries(keys=(path,)), ALICE)


@given(st.text(max_size=40))
def test_the_shell_is_asked_for_nothing_but_a_plain_path(path: str) -> None:
    try:
        line = scripts.command(path)
    except NotExpressible:
        return
    assert re.fullmatch(r"cmd\.exe /d /c [A-Za-z0-9\\:._-]+", line)


def test_notes_decide_what_the_job_does() -> None:
    before = ObservedState(Registry().apply([SetValue(RESTARTS, "owed", sz("running"))]))
    plan = Plan(
        edits=(SetValue(RESTARTS, "maybe", sz("check")), SetValue(RESTARTS, "sure", sz("running"))),
        stop=("maybe", "sure"),
        start=("sure", "maybe", "owed"),
    )
    made = changing(plan, before, Patience(stop=7, start=9, services={"sure": 11}))
    lines = made.content.decode("ascii").split("\r\n")
    assert 'call :stop 0 "maybe" check 7' in lines
    assert 'call :stop 1 "sure" running 11' in lines
    assert [line for line in lines if line.startswith("call :start")] == [
        'call :start 1 "sure" 11',
        'call :start 0 "maybe" 9',
        'call :start 2 "owed" 9',
    ]
    assert 'set "SKIP_0=1"' in lines
    assert 'set "DONE_2=1"' in lines


def test_who_may_be_an_owner() -> None:
    assert re.fullmatch("[0-9a-f]{8}", ALICE.tag)
    for identity, process in [("a b", "pid 1"), ("", "pid 1"), ("a&b", "pid 1"), ("a", "pid  1"), ("a", ""), ("a", "%x")]:
        with pytest.raises(ValueError, match="letters"):
            Owner(identity, process)
