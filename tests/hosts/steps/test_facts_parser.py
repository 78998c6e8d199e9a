"""The file that a gather brings back, as a state."""

import pytest

from transom.hosts.errors import ScriptFailed, Unreadable
from transom.hosts.steps import facts_parser as answers
from transom.hosts.steps.facts_parser import GatheredFacts
from transom.windows.host.host_state import ObservedState, Service, ServiceState
from transom.windows.host.queries import BOOT, ENVIRONMENT, LEDGER, SERVICES, STORES, Queries
from transom.windows.ledger import MOST_ENTRIES
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_dword, build_sz

ROOT = STORES + r"\ROOT\Certificates"
# as Windows Server 2022 prints it, German texts included: the numbers are what counts
RUNNING = (
    b"\r\nSERVICE_NAME: containerd \r\n        TYP                : 10  WIN32_OWN_PROCESS  \r\n"
    b"        STATUS             : 4  RUNNING \r\n"
    b"                                (STOPPABLE, NOT_PAUSABLE, ACCEPTS_SHUTDOWN)\r\n"
    b"        WIN32_EXIT_CODE    : 0  (0x0)\r\n"
)
STOPPED = (
    b"SERVICE_NAME: x\r\n        TYPE               : 10  WIN32_OWN_PROCESS  \r\n        STATE              : 1  STOPPED \r\n"
    b"        WIN32_EXIT_CODE    : 1077  (0x435)\r\n"
)
NO_SERVICE = (
    b"[SC] EnumQueryServicesStatus:OpenService FEHLER 1060:\r\n\r\nDer angegebene Dienst ist kein installierter Dienst.\r\n"
)
MISSING = b"ERROR: The system was unable to find the specified registry key or value.\r\n"
DENIED = b"ERROR: Access is denied.\r\n"


def gathered(*entries: tuple[str, bytes | None], missing: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> bytes:
    index = "".join(f"missing {name}\r\n" for name in missing) + "".join(f"absent {name}\r\n" for name in absent)
    index += "".join(f"part {name} {len(data or b'')}\r\n" for name, data in entries)
    return index.encode() + b"end\r\n" + b"".join(data or b"" for _, data in entries)


def export(path: str, **values: str) -> bytes:
    return reg.render([SetValue(path, name, build_sz(text)) for name, text in values.items()])


LEDGERLESS = ("ledger.err", MISSING)


def read(questions: Queries, *entries: tuple[str, bytes | None], **also: tuple[str, ...]) -> ObservedState:
    return GatheredFacts.from_bytes(gathered(LEDGERLESS, *entries, **{"missing": ("ledger",), **also})).parse_state(questions)


def test_nothing_there() -> None:
    assert read(Queries()) == ObservedState(Registry())


def test_everything() -> None:
    questions = Queries(
        services=("containerd", "kubelet"), environment=True, boot=True, stores=(ROOT,), keys=(BOOT,), dependants=True
    )
    dependants = (
        rf"{SERVICES}\kubelet".encode() + b"\r\n    DependOnService    REG_MULTI_SZ    containerd\\0Tcpip\r\n\r\nfertig\r\n"
    )
    state = GatheredFacts.from_bytes(
        gathered(
            ("ledger.reg", export(LEDGER, Version="1")),
            ("environment.reg", export(ENVIRONMENT, HTTP_PROXY="http://hunter2")),
            ("boot.txt", BOOT.encode() + b"\r\n    BootId    REG_DWORD    0x1f\r\n\r\n"),
            ("dependants.txt", dependants),
            ("store-0.txt", rf"{ROOT}\0123456789ABCDEF".encode() + b"\r\n"),
            ("key-0.reg", export(BOOT, Other="x")),
            ("service-0.txt", RUNNING),
            ("service-0.reg", export(SERVICES + r"\ContainerD", ImagePath="x") + b""),
            ("service-1.txt", NO_SERVICE),
            absent=("service-1",),
        )
    ).parse_state(questions)
    assert state.services == (Service("ContainerD", ServiceState.RUNNING),)
    assert state.boot == 31
    assert state.dependencies == {"kubelet": ("containerd", "Tcpip")}
    assert state.registry.find_value(ENVIRONMENT, "http_proxy") == build_sz("http://hunter2")
    assert state.registry.list_children(ROOT) == ("0123456789ABCDEF",)
    listed = state.registry.find_key(ROOT + r"\0123456789ABCDEF")
    assert listed is not None
    assert listed.values is None
    assert state.registry.find_value(BOOT, "Other") == build_sz("x")
    assert state.registry.find_value(LEDGER, "Version") == build_sz("1")


def test_a_service_that_windows_and_one_that_wine_does_not_know() -> None:
    found = read(
        Queries(services=("a", "b")), ("service-0.txt", NO_SERVICE), ("service-1.txt", b""), absent=("service-0", "service-1")
    )
    assert found.services == ()


@pytest.mark.parametrize(
    ("questions", "entries", "also", "message"),
    [
        (
            Queries(environment=True),
            [("environment.err", MISSING)],
            {"missing": ("ledger", "environment")},
            "Environment cannot be read",
        ),
        (Queries(keys=(BOOT,)), [("key-0.err", DENIED)], {"missing": ("ledger", "key-0")}, "access is denied"),
        (Queries(stores=(ROOT,)), [("store-0.err", DENIED)], {"missing": ("ledger", "store-0")}, "access is denied"),
        (
            Queries(services=("x",)),
            [("service-0.txt", STOPPED), ("service-0.err", DENIED)],
            {"missing": ("ledger", "service-0")},
            "access is denied",
        ),
        (
            Queries(services=("x",)),
            [("service-0.txt", STOPPED), ("service-0.err", b"?")],
            {"missing": ("ledger", "service-0")},
            "but the service exists",
        ),
        (
            Queries(services=("x",)),
            [("service-0.txt", b"[SC] OpenService FAILED 5:\r\n\r\nAccess is denied.\r\n")],
            {"absent": ("service-0",)},
            "error 5",
        ),
        (
            Queries(services=("x",)),
            [("service-0.txt", STOPPED.replace(b": 1 ", b": 9 ")), ("service-0.reg", export(SERVICES + r"\x", A="b"))],
            {},
            "no state that is known",
        ),
        (Queries(services=("x",)), [("service-0.txt", b"?")], {}, "no state that is known"),
        (Queries(keys=(BOOT,)), [("key-0.reg", b"\xff\xfeW\x00")], {}, "not in the .reg format"),
    ],
)
def test_what_cannot_be_read_is_said(
    questions: Queries, entries: list[tuple[str, bytes | None]], also: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(Unreadable, match=message):
        read(questions, *entries, **also)


@pytest.mark.parametrize(
    "data", [b"", b"end\r\n", b"part ledger.reg 5\r\nend\r\n", gathered(LEDGERLESS)[:-1], gathered(LEDGERLESS) + b"x"]
)
def test_an_incomplete_file_is_never_used(data: bytes) -> None:
    with pytest.raises(ScriptFailed):
        GatheredFacts.from_bytes(data).parse_state(Queries())


@pytest.mark.parametrize(("values", "taken"), [(MOST_ENTRIES - 2, True), (2 * MOST_ENTRIES + 1, False)])
def test_a_ledger_of_more_than_transom_writes_is_not_parsed(values: int, taken: bool) -> None:
    keys = [SetValue(rf"{LEDGER}\K{number}", "V", build_sz("x")) for number in range(values // 2)]
    given = gathered(
        ("ledger.reg", reg.render(keys + [SetValue(LEDGER, f"V{number}", build_sz("x")) for number in range(values // 2)]))
    )
    if taken:
        assert len(GatheredFacts.from_bytes(given).parse_state(Queries()).registry.list_keys_below(LEDGER)) == values // 2
    else:
        with pytest.raises(Unreadable, match="more than 5,000 keys and values"):
            GatheredFacts.from_bytes(given).parse_state(Queries())


def test_a_question_without_answer_is_no_missing_key() -> None:
    with pytest.raises(ScriptFailed, match="no answer"):
        read(Queries(keys=(BOOT,)))


def test_merged_states_keep_what_the_second_does_not_know() -> None:
    first = ObservedState(
        Registry().apply_edits([SetValue(LEDGER, "Version", build_dword(1))]),
        (Service("a", ServiceState.RUNNING),),
        boot=3,
        dependencies={"a": ("b",)},
    )
    second = ObservedState(
        Registry().apply_edits([SetValue(BOOT, "x", build_dword(2))]),
        (Service("A", ServiceState.STOPPED), Service("b", ServiceState.PAUSED)),
    )
    both = answers.merge_states(first, second)
    assert both.registry.find_value(LEDGER, "Version") == build_dword(1)
    assert both.registry.find_value(BOOT, "x") == build_dword(2)
    assert both.services == (Service("A", ServiceState.STOPPED), Service("b", ServiceState.PAUSED))
    assert (both.boot, both.dependencies) == (3, {"a": ("b",)})
