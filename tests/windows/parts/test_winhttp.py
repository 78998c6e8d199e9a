"""WinHTTP's proxy: the value as netsh writes it, and its way through plans and the ledger."""

import json
import struct

import msgspec
import pytest
from tests.windows.userdata import KEY as PUBLIC_KEY
from tests.windows.userdata import PROXIED, powershell

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.windows import ledger
from transom.windows.firstboot import build_user_data
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.parts import winhttp, winhttp_value
from transom.windows.planning import queries as questions
from transom.windows.planning.planner import build_desired_settings, plan, predict_state
from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import Value, build_binary, build_sz

SALT = b"0123456789abcdef"
DIRECT = build_binary(bytes.fromhex("1800000000000000010000000000000000000000"))
THEIRS = build_binary(bytes.fromhex("18000000000000000300000003000000613a3100000000"))
ASKED = msgspec.structs.replace(PROXIED, trust=(), windows=WindowsSettings(services=(), win_http=True))
NOTHING = Egress(windows=WindowsSettings(services=()))


def host(value: Value | None) -> ObservedState:
    edits = [CreateKey(winhttp.KEY)] + ([SetValue(winhttp.KEY, winhttp_value.VALUE, value)] if value else [])
    return ObservedState(Registry().apply_edits(edits))


def proxy(state: ObservedState) -> Value | None:
    return state.registry.find_value(winhttp.KEY, winhttp_value.VALUE)


def test_the_value() -> None:
    settings = winhttp_value.build_winhttp_value(ASKED)
    assert settings is not None
    assert settings[:12] == bytes.fromhex("180000000000000003000000")
    assert b"http=proxy.corp.example:3128;https=proxy.corp.example:3128" in settings
    assert settings.endswith(b"*.cluster.local;10.0.*")


@pytest.mark.parametrize("proxy_url", ["https://proxy.corp.example:3128", None])
def test_a_proxy_that_winhttp_cannot_speak_to(proxy_url: str | None) -> None:
    assert winhttp_value.build_winhttp_value(Egress(https_proxy=Secret(proxy_url) if proxy_url else None)) is None


@pytest.mark.parametrize("before", [None, DIRECT, THEIRS])
def test_set_kept_and_put_back(before: Value | None) -> None:
    start = host(before)
    done = predict_state(start, plan(build_desired_settings(ASKED), start, SALT))
    settings = winhttp_value.build_winhttp_value(ASKED)
    assert settings is not None
    assert proxy(done) == build_binary(settings)
    assert not plan(build_desired_settings(ASKED), done, SALT)
    assert questions.build_follow_up_queries(
        questions.build_initial_queries(build_desired_settings(NOTHING)), plan(build_desired_settings(NOTHING), done, SALT)
    )
    undone = predict_state(done, plan(build_desired_settings(NOTHING), done, SALT))
    assert proxy(undone) == before
    assert undone.registry.find_key(LEDGER) is None


CREDENTIALS = build_binary(struct.pack("<IIII", 24, 0, 3, 25) + b"http=me:hunter2@proxy.x:1" + struct.pack("<I", 0))


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (None, None),
        (DIRECT, "direct"),
        (THEIRS, "a:1"),
        (CREDENTIALS, "***@proxy.x:1"),
        (build_binary(b"\x18\x00"), None),
        (build_binary(THEIRS.data[:-4] + b"\xff\xff\xff\xff"), None),
    ],
)
def test_what_it_was_and_will_be_is_told(before: Value | None, told: str | None) -> None:
    wanted = "http=proxy.corp.example:3128;https=proxy.corp.example:3128 bypass=*.cluster.local;10.0.*"
    start = host(before)
    planned = plan(build_desired_settings(ASKED), start, SALT)
    assert [(step.before, step.after) for step in planned.steps if step.target == winhttp.TARGET] == [(told, wanted)]
    done = predict_state(start, planned)
    undone = plan(build_desired_settings(NOTHING), done, SALT)
    assert [(step.before, step.after) for step in undone.steps if step.target == winhttp.TARGET] == [(wanted, told)]


def test_what_a_person_changed_since_stays() -> None:
    start = host(DIRECT)
    done = predict_state(start, plan(build_desired_settings(ASKED), start, SALT))
    changed = ObservedState(done.registry.apply_edits([SetValue(winhttp.KEY, winhttp_value.VALUE, THEIRS)]))
    assert plan(build_desired_settings(ASKED), changed, SALT).steps[0].reason.startswith("drift")
    assert proxy(predict_state(changed, plan(build_desired_settings(NOTHING), changed, SALT))) == THEIRS


@pytest.mark.parametrize("before", [None, DIRECT])
def test_the_note_of_the_first_boot_is_one_of_the_ledger(before: Value | None) -> None:
    """The script's texts put together as PowerShell does; the first pass puts back what was there."""
    script = powershell(build_user_data(PUBLIC_KEY, PROXIED).text)
    assert """',"was":{"name":"WinHttpSettings","type":3,"data":"' + $data + '"}'""" in script
    settings = winhttp_value.build_winhttp_value(PROXIED)
    assert settings is not None
    note: dict[str, object] = {"set": settings.hex()}
    if before is not None:
        note["was"] = {"name": "WinHttpSettings", "type": 3, "data": before.data.hex()}
    registry = host(build_binary(settings)).registry.apply_edits([SetValue(LEDGER, "WinHTTP", build_sz(json.dumps(note)))])
    assert ledger.read(registry).winhttp is not None
    assert (
        proxy(predict_state(ObservedState(registry), plan(build_desired_settings(NOTHING), ObservedState(registry), SALT)))
        == before
    )
