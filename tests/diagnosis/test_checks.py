"""`transom doctor`: each check has a bad fixture that shows it, and a good one that does not (table.yaml)."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.bundles import certificate, private_key
from tests.support.repository import DOCS

from transom.cli import thin
from transom.diagnosis import OWN_KINDS, Observed
from transom.diagnosis.checks import CHECKS, diagnose, page_with_checks
from transom.diagnosis.reading import GROUPS, of_values, with_settings
from transom.kube.resources import Resource
from transom.sources.objects import ObjectReader

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TABLE: dict[str, Any] = yaml.load(Path(__file__).with_name("table.yaml").read_text(), yaml.CSafeLoader)
COMMON: list[dict[str, Any]] = TABLE.pop("common")
VERSIONS = {kind: f"{group}/v1alpha1" if group == "transom.dev" else f"{group}/v1".strip("/") for kind, group in GROUPS.items()}
THIN: dict[str, Resource[Any]] = {one.kind: one for one in (thin.PODS, thin.NODES, thin.NAMESPACES, thin.DAEMON_SETS)}
MADE = {
    "<key>": private_key(),
    "<sealed key>": private_key("hunter2"),
    "<root>": certificate("Root"),
    "<issuing>": certificate("Issuing", "Root"),
}


def observed(fixture: dict[str, Any]) -> Observed:
    """A cluster with the objects of a fixture, and the common ones."""
    own = fixture["objects"]
    named = {(one["kind"], one["metadata"]["name"]) for one in own}
    left_out = fixture.get("without", ())
    common = [one for one in COMMON if (one["kind"], one["metadata"]["name"]) not in named and one["kind"] not in left_out]
    values = [{"apiVersion": VERSIONS[one["kind"]], **filled(one)} for one in (*common, *own)]
    seen = of_values(values, "https://api.example", "transom-system", NOW)
    undefined = tuple(fixture.get("undefined", ()))
    known = {kind: kept(kind, listed) for kind, listed in seen.objects.items() if kind not in undefined}
    elsewhere = tuple(tuple(one) for one in fixture.get("elsewhere", ()))
    changed = msgspec.structs.replace(
        seen, live=True, objects=known, undefined=undefined, elsewhere=elsewhere, kubernetes="v1.36.3"
    )
    reader = ObjectReader("transom-system")
    for value in values:
        if value["kind"] not in undefined:
            reader.add(value, "", lambda _: (0, 0))
    return with_settings(changed, reader.objects(), "https://api.example:6443")


def kept(kind: str, listed: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """As `transom doctor` keeps what a server gives: with what a check looks at, and no more."""
    if kind not in THIN:
        return listed
    return tuple(THIN[kind].type.from_json(msgspec.json.encode(one)).value for one in listed)


def filled(value: Any) -> Any:
    if isinstance(value, str):
        for name, text in MADE.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, dict):
        return {key: filled(one) for key, one in value.items()}
    return [filled(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_a_check_finds_the_bad_and_not_the_good(case: str) -> None:
    row, id_ = TABLE[case], case.partition(" ")[0]
    found = diagnose(observed(row["bad"]))
    assert [one.id for one in found] == row["bad"].get("ids", [id_])
    assert [one.id for one in diagnose(observed(row["good"]))] == []
    for one in found:
        assert one.object
        assert one.evidence
        assert one.consequence
        assert one.command
        assert one.page.startswith("docs/reasons.md#" if one.id == "waits-for-you" else f"docs/doctor.md#{one.id}")
        assert "hunter2" not in str(one)
    for field in {"command", "object"} & row.keys():
        assert getattr(found[0], field) == row[field]
    assert row.get("evidence", "") in found[0].evidence


def test_each_check_has_its_fixtures_and_they_come_in_the_order_of_the_list() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    assert list(dict.fromkeys(case.partition(" ")[0] for case in TABLE)) == ids


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.id))
def test_what_could_not_be_read_is_no_finding(check: Any) -> None:
    """Nor an exception: a person may read some kinds, none of them, or what is not as it should be."""
    row = next(row for case, row in TABLE.items() if case.partition(" ")[0] == check.id)
    seen = observed(row["bad"])
    for kind in check.kinds:
        left = {name: listed for name, listed in seen.objects.items() if name != kind}
        part = msgspec.structs.replace(seen, objects=left, undefined=())
        assert check.id not in [one.id for one in diagnose(part)]
    nothing = Observed("x", "transom-system", NOW, {})
    assert diagnose(nothing) == ()
    for kind, listed in seen.objects.items():
        odd = tuple({"kind": kind, "metadata": {"name": one["metadata"]["name"]}, "spec": None, "status": 7} for one in listed)
        diagnose(msgspec.structs.replace(seen, objects=seen.objects | {kind: odd}, undefined=OWN_KINDS))


def test_the_page_has_each_check() -> None:
    page = (DOCS / "doctor.md").read_text()
    assert page_with_checks(page) == page
    for check in CHECKS:
        assert f"\n### {check.id}\n\n" in page


def test_a_directory_is_looked_at_without_what_reaches_hosts_and_servers() -> None:
    asked = "import sys, transom.diagnosis.checks; print({'asyncssh', 'aiohttp'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_no_secret_is_in_what_was_read() -> None:
    for row in TABLE.values():
        seen = observed(row["bad"])
        assert "hunter2" not in repr(seen.objects["Secret"])
        assert "PRIVATE KEY" not in repr(seen.objects["Secret"])
