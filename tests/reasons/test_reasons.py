"""The table of reasons has what the source says, and nothing else."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from tests.reasons.said import ANY_ERROR, Said, Source, Unresolved, texts
from tests.support.pages import PAGES
from tests.support.repository import DOCS, ROOT
from website.reasons_page import page

import transom
from transom.controllers.egress.host_counts import WAITS
from transom.diagnosis.overview import NOT_SEEN, WAITING
from transom.hosts.errors import HostError
from transom.monitoring.alert import ALERTS
from transom.reasons import REASONS, next_step, page_of
from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.settings import SETTINGS

HANDED_ON = {
    ("transom.controllers.instance", "said[type_].reason"): (),
    ("transom.controllers.egress", "superseded.reason"): ("OpenShiftProxy",),
    ("transom.controllers.egress", "condition.reason"): (),
    ("transom.controllers.hosts", "configured.reason"): (),
    ("transom.controllers.instance", "conditions['Configured'].reason"): (),
    ("transom.controllers.instance", "said.reason"): (),
    ("transom.controllers.nodes", "incomplete.reason"): (),
    # a kubelet's own word, checked for its form
    ("transom.controllers.instance", "ready.reason"): (),
    # the names of errors, but for one
    ("transom.controllers.instance", "identity.refusal"): ("OtherCluster",),
}
"""What hands on the reason of another Condition, with what comes by no other way."""


def errors(kind: type[HostError] = HostError) -> Iterator[str]:
    for one in kind.__subclasses__():
        if one.__module__.startswith("transom."):
            yield one.__name__
        yield from errors(one)


@pytest.fixture(scope="module")
def said() -> set[Said]:
    source = Source(texts(ROOT / "src/transom", "transom"), HANDED_ON)
    found = source.said()
    assert source.used == set(HANDED_ON), "no longer in the source"
    return found


@pytest.fixture(scope="module")
def kinds() -> set[str]:
    for module in pkgutil.walk_packages(transom.__path__, "transom."):
        if "errors" in module.name or module.name.startswith(("transom.controllers", "transom.apply", "transom.hosts")):
            importlib.import_module(module.name)
    return set(errors())


def test_what_the_source_says_is_in_the_table_and_nothing_else(said: set[Said], kinds: set[str]) -> None:
    found = {(one.reason, one.where) for one in said if one.reason not in {*kinds, ANY_ERROR}}
    told = {(one.id, where) for one in REASONS.values() for where in one.where if where in ("condition", "event")}
    missing = {one for one in said if (one.reason, one.where) in found - told}
    assert (missing, told - found) == (set(), set())


def test_each_kind_of_error_is_in_the_table_and_nothing_else(kinds: set[str]) -> None:
    assert {one.id for one in REASONS.values() if "error" in one.where} == kinds


def test_each_row_once_and_with_a_remedy_where_one_is_waited_for() -> None:
    rows = (*SETTINGS, *HOSTS, *ERRORS)
    assert len(rows) == len(REASONS)
    assert [one.id for one in rows if one.heals == "after" and not one.remedy] == []
    assert [one.id for one in rows if not one.meaning.endswith(".") or "\n" in one.meaning + one.remedy] == []
    assert [one.id for one in rows if "status" in one.where] == [NOT_SEEN]
    assert WAITS < WAITING < REASONS.keys()


def test_what_is_to_be_done_names_the_object() -> None:
    told = next_step("PendingRestart", "win-1", "transom-system")
    assert told.endswith('kubectl annotate windowsinstance win-1 -n transom-system --overwrite transom.dev/restart="$(date)"')
    assert "verify host win-1.example;" in next_step("Unreachable", "win-1", "ns", "win-1.example")
    assert "windowsinstance NAMESPACE -n ns" in next_step("HostKeyChanged", "NAMESPACE", "ns")
    assert "verify host ADDRESS" in next_step("Unreachable", "win-1", "transom-system")
    assert (next_step("KubeletNotReady", "win-1"), page_of("KubeletNotReady"), next_step("Ready", "win-1")) == ("", "", "")


def test_reasons_that_other_pages_name_are_rows() -> None:
    """Where a condition is named with its reason, `Ready=False/Pending`, and in the table of conditions."""
    named = {
        (page.name, reason)
        for page in PAGES
        for reason in re.findall(r"\b(?:True|False|Unknown)/([A-Z][A-Za-z]+)", page.read_text("utf-8"))
    }
    table = (DOCS / "operator.md").read_text("utf-8").partition("| condition of an EgressProxy |")[2].partition("\n### ")[0]
    types = set(re.findall(r"^\| `([A-Z][A-Za-z]+)` \|", table, re.MULTILINE))
    kinds = {
        "EgressProxy",
        "WindowsInstance",
        "Proxy",
        "ConfigMap",
        "Secret",
        "True",
        "False",
        "Unknown",
        "Disallowed",
        "Report",
    }
    named |= {("operator.md", reason) for reason in re.findall(r"`(?:Unknown/)?([A-Z][A-Za-z]+)`", table)}
    assert len(named) > 60
    assert {one for one in named if one[1] not in REASONS.keys() | types | kinds} == set()


def test_a_command_of_a_row_is_one_for_a_shell() -> None:
    assert REASONS["PendingRestart"].command("w", "n") == (
        'kubectl annotate windowsinstance w -n n --overwrite transom.dev/restart="$(date)"'
    )
    with pytest.raises(ValueError, match="Valid"):
        REASONS["Valid"].command("w", "n")


def test_the_page_tells_of_each_reason_and_each_alert_where_links_lead() -> None:
    text = (DOCS / "reasons.md").read_text("utf-8")
    assert text == page(), "run scripts/reference"
    sections = {title.lower(): body for title, body in re.findall(r"^### (.+)\n\n((?:.+\n|\n(?!##))+)", text, re.MULTILINE)}
    assert list(sections) == list(dict.fromkeys(sections))
    assert len(sections) == len(REASONS) + len(ALERTS)
    for one in REASONS.values():
        told = sections[page_of(one.id).partition("docs/reasons.md#")[2]]
        assert one.meaning in told
        assert ("**Do**" in told) is bool(one.remedy)
    for alert in ALERTS:
        told = sections[alert.name.lower()]
        assert alert.impact in told
        assert f"runbooks/{alert.page}" in told
        assert "**Do**:\n\n- " in told


FORMS = {
    "literal": ('Condition("False", "A", m)', {"A"}),
    "by name": ('Condition(status="False", reason="A", message=m)', {"A"}),
    "choice": ('r = "A" if x else "B"\n    Condition("False", r, m)', {"A", "B"}),
    "later": ('r = "A"\n    if x:\n        r = "B"\n    Condition("False", r, m)', {"A", "B"}),
    "unpacked": ('r, why = "A", m\n    Condition("False", r, why)', {"A"}),
    "of a class": ('Condition("False", Fault.__name__, m)', {"Fault"}),
    "of an error": ('Condition("False", type(error).__name__, m)', {ANY_ERROR}),
    "of a table": ('Condition("False", TABLE[x], m)', {"A", "B"}),
    "of a table's tuple": ('r, why = PAIRS.get(x, ("C", m))\n    Condition("False", r, why)', {"A", "B", "C"}),
    "of another module": ('Condition("False", FAR, m)', {"Z"}),
    "of a caller": ('inner("A")\ndef inner(r):\n    return Condition("False", r, m)', {"A"}),
    "of a function": ('Condition("False", chosen(), m)\ndef chosen():\n    return "A" if x else "B"', {"A", "B"}),
    "event": ('self.recorder.normal(regarding, "A", m)', {"A"}),
    "event by another name": ('tell = on.recorder.normal if x else on.recorder.warning\n    tell(regarding, "A", m)', {"A"}),
    "starred": ('p = None\n    if x:\n        p = "A", m\n    self.recorder.warning(regarding, *p)', {"A"}),
    "as data": ('{"type": "T", "status": "True", "reason": "A"}', {"A"}),
}


@pytest.mark.parametrize(("text", "reasons"), FORMS.values(), ids=FORMS)
def test_each_form_is_followed(text: str, reasons: set[str]) -> None:
    head = 'from far import FAR\nTABLE = {1: "A", 2: "B"}\nPAIRS = {1: ("A", "a"), 2: ("B", "b")}\n'
    source = Source({"near": f"{head}def f(self, x):\n    {text}\n", "far": 'FAR = "Z"\n'}, {})
    assert {one.reason for one in source.said()} == reasons


@pytest.mark.parametrize("expression", ["other.reason", "x", "read()", "x + 'A'", "f'{x}'"])
def test_what_cannot_be_followed_is_told(expression: str) -> None:
    source = Source({"near": f'def f(self):\n    Condition("False", {expression}, m)\n'}, {})
    with pytest.raises(Unresolved):
        source.said()
