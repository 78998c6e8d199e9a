"""The proxy of Windows PowerShell: the block made of settings, and its way through plans, the ledger and interruptions."""

import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.powershell import find_syntax_errors
from tests.windows.userdata import PROXIED

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.parts.powershell import PROFILE
from transom.windows.parts.powershell_block import TARGET, build_block, format_block
from transom.windows.parts.profile_text import BEGIN, END
from transom.windows.planning import queries as questions
from transom.windows.planning.planner import Plan, build_desired_settings, plan, predict_state
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_dword, build_sz

SALT = b"0123456789abcdef"
ASKED = msgspec.structs.replace(PROXIED, trust=(), windows=WindowsSettings(services=(), power_shell=True))
CHANGED = msgspec.structs.replace(ASKED, no_proxy=".other.example")
NOTHING = Egress(windows=WindowsSettings(services=()))
THEIRS = b"Set-Alias ll Get-ChildItem\r\n"
FORMER = f"{BEGIN}: somebody's\r\n$a = 1\r\n{END}\r\n".encode()


def host(profile: bytes | None, registry: Registry = Registry()) -> ObservedState:  # noqa: B008  # frozen
    return ObservedState(registry, contents={} if profile is None else {PROFILE: profile})


def edited(state: ObservedState, edit: Callable[[bytes], bytes | None]) -> ObservedState:
    content = state.contents[PROFILE]
    assert content is not None
    return host(edit(content), state.registry)


def planned(state: ObservedState, egress: Egress) -> Plan:
    return plan(build_desired_settings(egress), state, SALT)


def done(state: ObservedState, egress: Egress) -> ObservedState:
    after = predict_state(state, planned(state, egress))
    assert not planned(after, egress), "the next plan is empty"
    return after


def profile(state: ObservedState) -> bytes | None:
    return state.contents.get(PROFILE)


def proxied(http: str | None, https: str | None) -> Egress:
    http_proxy, https_proxy = (Secret(item) if item else None for item in (http, https))
    return msgspec.structs.replace(ASKED, http_proxy=http_proxy, https_proxy=https_proxy, no_proxy=".svc")


A, B, TLS = "http://a.example:3128", "http://b.example:3128", "https://a.example:3129"


@pytest.mark.parametrize(
    ("http", "https", "told"),
    [
        (A, A, r"http://a.example:3128 bypass=^(?!(?:https|http)://)"),
        (B, A, r"http://a.example:3128 bypass=^(?!(?:https|http)://)"),
        (A, None, r"http://a.example:3128 bypass=^(?!(?:http)://)"),
        (None, A, r"http://a.example:3128 bypass=^(?!(?:https)://)"),
        (A, TLS, r"http://a.example:3128 bypass=^(?!(?:http)://)"),
        (None, "http://me:hunter2@[2001:db8::1]:3128", r"http://[2001:db8::1]:3128 bypass=^(?!(?:https)://)"),
        (None, "http://a.example", r"http://a.example:80 bypass=^(?!(?:https)://)"),
    ],
)
def test_the_proxy(http: str | None, https: str | None, told: str) -> None:
    block = build_block(proxied(http, https))
    assert format_block(block) == rf"{told};^[a-z]+://[^/:]*\.svc(?::[0-9]+)?$"
    assert block.isascii()
    assert "hunter2" not in block
    assert find_syntax_errors(block) == []


@pytest.mark.parametrize(("http", "https"), [(None, None), (None, TLS), (None, "http://bücher.example:1")])
def test_no_proxy_that_it_can_use(http: str | None, https: str | None) -> None:
    state = host(THEIRS)
    assert build_block(proxied(http, https)) == ""
    assert not planned(state, proxied(http, https)).writes


@pytest.mark.parametrize(
    "before",
    [
        None,
        b"",
        THEIRS,
        THEIRS.removesuffix(b"\r\n"),
        b"\xff\xfe" + "Write-Host 'ü'".encode("utf-16-le"),
        b"\xef\xbb\xbf",
        b"# \xe4\xff\n",
        FORMER,
        THEIRS + FORMER + b"$b",
    ],
)
def test_set_changed_kept_and_restored(before: bytes | None) -> None:
    state = done(host(before), ASKED)
    first = profile(state)
    assert first is not None
    state = done(state, CHANGED)
    assert profile(state) not in (None, first)
    state = done(state, NOTHING)
    assert profile(state) == before
    assert state.registry.find_key(LEDGER) is None


def test_what_a_person_adds_stays() -> None:
    state = edited(done(host(None), ASKED), lambda content: b"$before = 1\r\n" + content + b"$behind = 2")
    assert not planned(state, ASKED)
    state = done(state, CHANGED)
    assert profile(done(state, NOTHING)) == b"$before = 1\r\n$behind = 2"


def test_a_file_that_a_person_saves_otherwise_is_still_ours() -> None:
    state = done(host(THEIRS), ASKED)
    saved = edited(state, lambda content: b"\xff\xfe" + content.decode().replace("\r\n", "\n").encode("utf-16-le"))
    assert not planned(saved, ASKED)
    assert profile(done(saved, NOTHING)) == b"\xff\xfe" + THEIRS.decode().replace("\r\n", "\n").encode("utf-16-le")


EDITS: dict[str, Callable[[bytes], bytes | None]] = {
    "another proxy": lambda content: content.replace(b"$false", b"$true"),
    "the block is gone": lambda _: THEIRS,
    "the file is gone": lambda _: None,
    "its last line is gone": lambda content: content.replace(END.encode(), b""),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_a_person_changes_in_it_is_drift_and_stays_on_removal(edit: Callable[[bytes], bytes | None]) -> None:
    state = edited(done(host(THEIRS), ASKED), edit)
    (step,) = (step for step in planned(state, ASKED).steps if step.target == TARGET)
    assert step.reason.startswith("drift")
    content = profile(done(state, ASKED))
    assert content is not None
    assert b"$false" in content
    removed = done(state, NOTHING)
    assert profile(removed) == profile(state)
    assert removed.registry.find_key(LEDGER) is None


@pytest.mark.parametrize("before", [None, b"", THEIRS, FORMER])
@pytest.mark.parametrize("then", [ASKED, CHANGED, NOTHING])
@pytest.mark.parametrize("first", [NOTHING, ASKED])
def test_a_pass_that_ends_between_import_and_file(before: bytes | None, first: Egress, then: Egress) -> None:
    """The import writes the ledger first; where the block goes, the ledger's line goes after the file."""
    start = done(host(before), first) if first is ASKED else host(before)
    begun = planned(start, CHANGED)
    cut = host(profile(start), start.registry.apply_edits(begun.edits))
    assert profile(done(done(cut, then), NOTHING)) == before
    undone = planned(done(cut, ASKED), NOTHING)
    ended = done(cut, ASKED)
    assert [write.ledger_line for write in undone.writes] == ["PowerShell"]
    assert ledger.read(ended.registry.apply_edits(undone.edits)).powershell is not None, "until the file is written"
    written = host(profile(predict_state(ended, undone)), ended.registry.apply_edits(undone.edits))
    assert profile(done(written, NOTHING)) == before
    assert done(written, NOTHING).registry.find_key(LEDGER) is None


@pytest.mark.parametrize("content", [None, b"\xff\xfea", b"# SIG # Begin signature block\r\n"])
def test_a_profile_that_cannot_be_changed_is_left_and_told(content: bytes | None) -> None:
    state = ObservedState(Registry(), contents={PROFILE: content})
    result = planned(state, ASKED)
    assert (result.writes, PROFILE in result.profile_fault) == ((), True)
    kept = done(host(THEIRS), ASKED).registry
    result = planned(ObservedState(kept, contents={PROFILE: content}), NOTHING)
    assert (result.writes, PROFILE in result.profile_fault) == ((), True)
    assert ledger.read(kept.apply_edits(result.edits)).powershell is not None, "it is to be undone once that is possible"


def test_without_the_setting_the_profile_is_not_read() -> None:
    desired = build_desired_settings(NOTHING)
    assert questions.build_initial_queries(desired).files == ()
    assert planned(host(THEIRS), NOTHING).reads.files == ()
    assert questions.build_initial_queries(build_desired_settings(ASKED)).files == (PROFILE,)
    assert planned(done(host(THEIRS), ASKED), NOTHING).reads.files == (PROFILE,)


def test_a_ledger_without_it_can_be_read_by_the_transom_before() -> None:
    proxied_only = msgspec.structs.replace(ASKED, windows=WindowsSettings(services=(), win_http=True))
    state = predict_state(host(None), planned(host(None), proxied_only))
    version = state.registry.find_value(LEDGER, "Version")
    assert version is not None
    assert version.to_number() == 3


POLICY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Policies\Microsoft\Windows\PowerShell"
SHELL = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\PowerShell\1\ShellIds\Microsoft.PowerShell"


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([], None),
        ([SetValue(SHELL, "ExecutionPolicy", build_sz("RemoteSigned"))], None),
        ([SetValue(SHELL, "ExecutionPolicy", build_sz("AllSigned"))], "AllSigned"),
        ([SetValue(SHELL, "ExecutionPolicy", build_dword(1))], None),
        ([SetValue(POLICY, "EnableScripts", build_dword(0))], "Restricted"),
        (
            [
                SetValue(POLICY, "EnableScripts", build_dword(1)),
                SetValue(POLICY, "ExecutionPolicy", build_sz("RemoteSigned")),
                SetValue(SHELL, "ExecutionPolicy", build_sz("Restricted")),
            ],
            None,
        ),
    ],
)
def test_an_execution_policy_that_loads_no_profile_is_told(edits: list[SetValue], told: str | None) -> None:
    """By every plan: a policy can come after the block."""
    state = host(THEIRS, Registry().apply_edits(edits))
    result = planned(state, ASKED)
    assert result.reads.keys == (POLICY, SHELL)
    assert [f"policy {told} of" in text for text in result.warnings] == ([True] if told else [])
    after = planned(predict_state(state, result), ASKED)
    assert (bool(after), after.warnings) == (False, result.warnings)
    assert questions.build_follow_up_queries(questions.build_initial_queries(build_desired_settings(ASKED)), after) is None
    assert planned(predict_state(state, result), NOTHING).reads.keys == ()


EGRESSES = st.sampled_from([ASKED, CHANGED, NOTHING, proxied(None, A)])


@given(
    st.sampled_from([None, b"", THEIRS, THEIRS.rstrip(), b"\xfe\xff" + "$a".encode("utf-16-be"), FORMER]),
    st.lists(st.tuples(EGRESSES, st.booleans()), max_size=6),
)
def test_whatever_happens_the_file_comes_back(before: bytes | None, life: list[tuple[Egress, bool]]) -> None:
    """`life`: settings, and whether the pass ends after its import."""
    state = host(before)
    for egress, is_cut in life:
        result = planned(state, egress)
        state = host(profile(state), state.registry.apply_edits(result.edits)) if is_cut else predict_state(state, result)
    assert profile(done(state, NOTHING)) == before


def test_the_expressions_are_quoted_for_powershell() -> None:
    block = build_block(ASKED)
    assert not re.search(r"[`\"]", block)
    assert block.count("'") % 2 == 0
