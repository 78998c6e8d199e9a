"""One host over time: histories that failed once, and some that nobody has thought of."""

import random
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.windows.planning.histories import (
    AddItem,
    Appear,
    Apply,
    Boot,
    Drift,
    Halt,
    History,
    SetMachine,
    SetWinHttp,
    Step,
    Trust,
    Vanish,
    Write,
    drawn,
)
from tests.windows.planning.life import fault, lived, shortest

from transom.proxy.objects import WindowsSettings
from transom.windows.ledger import PARTS

A, B, C = "http://a.ours.example:3128", "http://alice:hunter2@b.ours.example:3128", "http://alice:hunter3@c.ours.example:3128"
CONTAINERD, KUBELET, TWO = ("containerd",), ("containerd", "kubelet"), ("containerd", "cloud-node-manager")
OLD = ("http_proxy=http://old.theirs.example",)
REMOVED = Apply(services=CONTAINERD)


def proxied(url: str = A, services: tuple[str, ...] = CONTAINERD, **fields: object) -> Apply:
    return Apply(http=url, services=services, **fields)  # type: ignore[arg-type]


KEPT = Path(__file__).parent / "kept.json"

CASES: dict[str, tuple[Step, ...]] = {
    "an administrator's item after ours of its name": (
        Appear("containerd"),
        proxied(B),
        AddItem("containerd", "http_proxy=http://mine.theirs.example"),
    ),
    "the same where ours had replaced one": (
        Appear("containerd", OLD),
        proxied(B),
        AddItem("containerd", "http_proxy=http://mine.theirs.example"),
    ),
    "an administrator's item beside an empty one of ours": (
        Appear("containerd"),
        proxied(scope="Both", no_proxy=".ours.example"),
        Boot(),
        REMOVED,
        AddItem("containerd", "no_proxy=mine.theirs.example"),
    ),
    "the same, looked at after the boot": (
        Appear("containerd"),
        proxied(scope="Both", no_proxy=".ours.example"),
        Boot(),
        proxied(scope="Services"),
        Boot(),
        AddItem("containerd", "no_proxy=mine.theirs.example"),
        proxied(scope="Services"),
    ),
    "a service made anew without an environment": (
        Appear("containerd", OLD),
        proxied(),
        Vanish("containerd"),
        Appear("containerd"),
        proxied(),
    ),
    "a service made anew with another environment": (
        Appear("containerd", OLD),
        proxied(),
        Vanish("containerd"),
        Appear("containerd", ("B=2",)),
        proxied(),
    ),
    "a service made anew after a boot": (
        Appear("containerd", OLD),
        proxied(scope="Both"),
        Vanish("containerd"),
        Boot(),
        Appear("containerd"),
    ),
    "a service made anew, and no pass since": (
        Appear("containerd", OLD),
        proxied(),
        Vanish("containerd"),
        Appear("containerd"),
    ),
    "a service made anew, and another scope": (
        Appear("containerd", OLD),
        proxied(),
        Vanish("containerd"),
        Appear("containerd"),
        proxied(scope="Machine"),
    ),
    "a service managed later, with certificates alone": (
        Appear("containerd"),
        Appear("cloud-node-manager"),
        Apply(trust=(0,), services=CONTAINERD),
        Apply(trust=(0,), services=TWO),
    ),
    "a service managed later, after a proxy": (
        Appear("containerd"),
        Appear("cloud-node-manager"),
        proxied(trust=(0, 2)),
        Apply(trust=(0, 2), services=TWO),
    ),
    "a service managed again": (
        Appear("cloud-node-manager"),
        Apply(trust=(0,), services=TWO),
        Apply(trust=(0,), services=CONTAINERD),
        Apply(trust=(0, 1), services=CONTAINERD),
        Apply(trust=(0, 1), services=TWO),
    ),
    "a service managed later, by a pass that is cut": (
        Appear("containerd"),
        Appear("cloud-node-manager"),
        Apply(trust=(0,), services=CONTAINERD),
        Apply(trust=(0,), services=TWO, cut=3),
        Apply(trust=(0,), services=TWO),
    ),
    "a REG_SZ": (
        Appear("containerd"),
        Appear("kubelet"),
        Write("containerd", "HTTP_PROXY=x"),
        proxied(services=KUBELET, trust=(0,)),
        Halt("kubelet"),
        proxied(B, services=KUBELET, trust=(0, 1)),
        Write("containerd"),
        proxied(B, services=KUBELET, trust=(0, 1)),
    ),
    "a REG_SZ and nothing configured": (Appear("containerd"), Write("containerd", "x"), REMOVED),
    "a REG_SZ in the place of what was ours": (Appear("containerd", OLD), proxied(), Write("containerd", "x")),
    "a scope that changed after a boot": (Appear("containerd"), proxied(scope="Both"), Boot(), proxied(B)),
    "a variable of the machine changed twice in a boot": (
        Appear("containerd"),
        proxied(scope="Machine", no_proxy=".ours.example"),
        Boot(),
        proxied(B, scope="Machine", no_proxy="10.0.0.0/8,.ours.example"),
        proxied(B, scope="Machine"),
    ),
    "a restart that waits for a word, of a service that is not managed any more": (
        Appear("kubelet"),
        proxied(services=KUBELET),
        proxied(when="manual"),
        proxied(),
    ),
    "an item of ours that was doubled": (
        Appear("containerd", (*OLD, "B=2")),
        proxied(https=A),
        Drift("containerd", "HTTP_PROXY", "doubled"),
    ),
    "WinHTTP that somebody else changed": (proxied(win_http=True), SetWinHttp("abcd")),
    "a variable of the machine that somebody else changed": (
        proxied(scope="Machine"),
        Drift("", "HTTP_PROXY", "changed"),
        SetMachine("https_proxy", "m.theirs.example"),
    ),
    "a certificate that an administrator trusted first": (Trust(0, True), Apply(trust=(0, 1)), Trust(1, False)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", [(), ("HTTP_PROXY=old.theirs.example",)], ids=["bare", "with variables"])
def test_what_failed_once(name: str, machine: tuple[str, ...]) -> None:
    lived(History(CASES[name], machine=machine))


@pytest.mark.parametrize("history", msgspec.json.decode(KEPT.read_bytes(), type=list[History]))
def test_what_was_found_at_random(history: History) -> None:
    """Shortened histories that `benchmarks.histories` has kept."""
    lived(history)


def test_every_field_and_every_part_is_drawn() -> None:
    """A new field of spec.windows, or a new part, fails here until `histories.drawn` draws it."""
    some = [drawn(random.Random(seed), cuts=False) for seed in range(100)]
    applied = [step for history in some for step in history.steps if isinstance(step, Apply)]
    for field in msgspec.structs.fields(WindowsSettings):
        values = {getattr(step.egress().windows, field.name) for step in applied}
        # `restart` is decided before a plan is made, which has `when`
        assert len(values) > 1 or (field.name == "restart" and len({step.when for step in applied}) == 3), field.name
    assert frozenset[str]().union(*map(lived, some)) == {*PARTS, "masks"}
    assert {type(step) for history in some for step in history.steps} == set(get_args(Step))


@pytest.mark.parametrize("before", [None, "abc0"])
@pytest.mark.parametrize("cut", range(14))
def test_winhttp_comes_back_after_an_import_that_was_cut(cut: int, before: str | None) -> None:
    torn = proxied(B, win_http=True, cut=cut)
    lived(History((Appear("containerd"), proxied(win_http=True), torn), win_http=before))


@pytest.mark.parametrize("boots", [False, True])
@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("scope", ["Services", "Machine", "Both"])
def test_two_imports_in_a_row_that_were_cut(scope: str, before: tuple[str, ...] | None, boots: bool) -> None:
    """Every pair of places to cut in the import."""
    places = 12 if scope == "Both" else 8
    for first in range(places):
        for second in range(places):
            torn = proxied(B, scope=scope, cut=first, power=boots), proxied(C, scope=scope, cut=second)
            machine = ("HTTP_PROXY=old.theirs.example",) if before else ()
            lived(History((Appear("containerd", before), proxied(scope=scope), *torn), machine=machine))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**63), st.booleans())
def test_histories(seed: int, cuts: bool) -> None:
    history = drawn(random.Random(seed), cuts=cuts)
    assert fault(history) is None, f"{shortest(history)}: {fault(history)}"
