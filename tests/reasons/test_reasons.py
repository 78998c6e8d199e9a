"""The table of reasons has what the source says, and nothing else."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from tests.support.pages import PAGES
from tests.support.repository import DOCS, ROOT
from website.reasons_page import render_page

import transom
from transom.controllers.egress.host_counts import WAITS
from transom.diagnosis.overview import NOT_OBSERVED, NOT_SEEN, STATUS_NEWER, STATUS_REFUSED, WAITING
from transom.hosts.errors import HostError
from transom.monitoring.alert import ALERTS
from transom.reasons.errors import ERRORS
from transom.reasons.hosts import HOSTS
from transom.reasons.reason_table import REASONS, find_reason_page, find_remedy
from transom.reasons.settings import SETTINGS


def errors(kind: type[HostError] = HostError) -> Iterator[str]:
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("transom."):
            yield subclass.__name__
        yield from errors(subclass)


@pytest.fixture(scope="module")
def kinds() -> set[str]:
    for module in pkgutil.walk_packages(transom.__path__, "transom."):
        if "errors" in module.name or module.name.startswith(("transom.controllers", "transom.apply", "transom.hosts")):
            importlib.import_module(module.name)
    return set(errors())


def literals() -> Iterator[ast.AST]:
    """Yield the nodes of all modules of Transom but those of the table."""
    for file in sorted((ROOT / "src/transom").rglob("*.py")):
        if file.parent.name != "reasons":
            yield from ast.walk(ast.parse(file.read_bytes()))


def test_reasons_of_the_source_are_in_the_table(kinds: set[str]) -> None:
    """Literal reasons: of `Condition("False", REASON, …)`, `reason=REASON` and `recorder.normal(object, REASON, …)`."""
    found = set()
    for node in literals():
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            if called in ("Condition", "normal", "warning"):
                values += node.args[1:2]
            found |= {value.value for value in values if isinstance(value, ast.Constant)}
    assert len(found) > 60
    assert {item for item in found if re.fullmatch("[A-Z][A-Za-z]+", str(item))} - REASONS.keys() - kinds == set()


def test_reasons_of_the_table_are_in_the_source(kinds: set[str]) -> None:
    constants = {node.value for node in literals() if isinstance(node, ast.Constant)}
    classes = {node.name for node in literals() if isinstance(node, ast.ClassDef)}
    assert REASONS.keys() - constants - classes - kinds == set()


def test_each_kind_of_error_is_in_the_table_and_nothing_else(kinds: set[str]) -> None:
    assert {reason.id for reason in REASONS.values() if "error" in reason.where} == kinds


def test_each_row_once_and_with_a_remedy_where_one_is_waited_for() -> None:
    rows = (*SETTINGS, *HOSTS, *ERRORS)
    assert len(rows) == len(REASONS)
    assert [row.id for row in rows if row.heals == "after" and not row.remedy] == []
    assert [row.id for row in rows if not row.meaning.endswith(".") or "\n" in row.meaning + row.remedy] == []
    assert [row.id for row in rows if "status" in row.where] == [NOT_OBSERVED, NOT_SEEN, STATUS_NEWER, STATUS_REFUSED]
    assert WAITS < WAITING < REASONS.keys()


def test_what_is_to_be_done_names_the_object() -> None:
    told = find_remedy("PendingRestart", "win-1", "transom-system")
    assert "transom restart win-1 -n transom-system" in told
    assert "verify host win-1.example" in find_remedy("Unreachable", "win-1", "ns", "win-1.example")
    assert "transom forget NAMESPACE -n ns --host-key" in find_remedy("HostKeyChanged", "NAMESPACE", "ns")
    assert "verify host ADDRESS" in find_remedy("Unreachable", "win-1", "transom-system")
    assert (find_remedy("KubeletNotReady", "win-1"), find_reason_page("KubeletNotReady"), find_remedy("Ready", "win-1")) == (
        "",
        "",
        "",
    )


def test_reasons_that_other_pages_name_are_rows() -> None:
    """Where a condition is named with its reason, `Ready=False/Pending`, and on the page of conditions."""
    named = {
        (page.name, reason)
        for page in PAGES
        for reason in re.findall(r"\b(?:True|False|Unknown)/([A-Z][A-Za-z]+)", page.read_text("utf-8"))
    }
    conditions = (DOCS / "conditions.md").read_text("utf-8").partition("\n## EgressProxy\n")[2]
    types = set(re.findall(r"^### ([A-Z][A-Za-z]+)$", conditions, re.MULTILINE))
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
    named |= {("conditions.md", reason) for reason in re.findall(r"`(?:Unknown/)?([A-Z][A-Za-z]+)`", conditions)}
    assert len(named) > 60
    assert {item for item in named if item[1] not in REASONS.keys() | types | kinds} == set()


def test_a_command_of_a_row_is_one_for_a_shell() -> None:
    assert REASONS["PendingRestart"].get_remedy_command("w", "n") == "transom restart w -n n"
    with pytest.raises(ValueError, match="Valid"):
        REASONS["Valid"].get_remedy_command("w", "n")


def test_the_page_tells_of_each_reason_and_each_alert_where_links_lead() -> None:
    text = (DOCS / "reasons.md").read_text("utf-8")
    assert text == render_page(), "run scripts/reference"
    sections = {title.lower(): body for title, body in re.findall(r"^### (.+)\n\n((?:.+\n|\n(?!##))+)", text, re.MULTILINE)}
    assert list(sections) == list(dict.fromkeys(sections))
    assert len(sections) == len(REASONS) + len(ALERTS)
    for reason in REASONS.values():
        told = sections[find_reason_page(reason.id).partition("docs/reasons.md#")[2]]
        assert reason.meaning in told
        assert ("**What to do**" in told) is bool(reason.remedy)
    for alert in ALERTS:
        told = sections[alert.name.lower()]
        assert alert.impact in told
        assert f"runbooks/{alert.runbook_file}" in told
        assert "**What to do**:\n\n- " in told
