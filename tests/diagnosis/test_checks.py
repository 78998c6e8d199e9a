"""`transom doctor`: each check has a bad fixture that shows it, and a good one that does not (table.yaml)."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.bundles import certificate, private_key, write
from tests.support.command import run
from tests.support.repository import DOCS

from transom.cli import projected_objects
from transom.diagnosis.checks import CHECKS, diagnose, list_skipped, update_doctor_page
from transom.diagnosis.observed_state import GROUPS, observe_values, with_settings
from transom.diagnosis.snapshot import OWN_KINDS, ClusterSnapshot
from transom.kube.resources import Resource
from transom.sources.objects import ObjectReader

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TABLE: dict[str, Any] = yaml.load(Path(__file__).with_name("table.yaml").read_text(), yaml.CSafeLoader)
COMMON: list[dict[str, Any]] = TABLE.pop("common")
VERSIONS = {kind: f"{group}/v1alpha1" if group == "transom.dev" else f"{group}/v1".strip("/") for kind, group in GROUPS.items()}
THIN: dict[str, Resource[Any]] = {
    item.kind: item
    for item in (
        projected_objects.PODS,
        projected_objects.NODES,
        projected_objects.NAMESPACES,
        projected_objects.DAEMON_SETS,
        projected_objects.SERVICES,
    )
}
MADE = {
    "<key>": private_key(),
    "<sealed key>": private_key("hunter2"),
    "<root>": certificate("Root"),
    "<issuing>": certificate("Issuing", "Root"),
    "<expired>": certificate("Old", ends="2021-01-01"),
    "<leaf>": certificate("proxy.corp.example", authority=False),
    "<ending>": certificate("Old", ends="2026-12-01"),
}


def observed(fixture: dict[str, Any]) -> ClusterSnapshot:
    """A cluster with the objects of a fixture, and the common ones."""
    own = fixture["objects"]
    named = {(item["kind"], item["metadata"]["name"]) for item in own}
    left_out = fixture.get("without", ())
    common = [item for item in COMMON if (item["kind"], item["metadata"]["name"]) not in named and item["kind"] not in left_out]
    values = [{"apiVersion": VERSIONS[item["kind"]], **filled(item)} for item in (*common, *own)]
    seen = observe_values(values, "https://api.example", "transom-system", NOW)
    undefined = tuple(fixture.get("undefined", ()))
    known = {kind: kept(kind, listed) for kind, listed in seen.objects.items() if kind not in undefined}
    elsewhere = tuple(tuple(item) for item in fixture.get("elsewhere", ()))
    refusal = fixture.get("write_refusal", "")
    changed = msgspec.structs.replace(
        seen,
        live=True,
        objects=known,
        undefined=undefined,
        elsewhere=elsewhere,
        write_refusal=refusal,
        kubernetes="v1.36.3",
    )
    reader = ObjectReader("transom-system")
    for value in values:
        if value["kind"] not in undefined:
            reader.add(value, "", lambda _: (0, 0))
    # the server of the kubeconfig, which nothing says of a directory
    server = "https://api.example:6443" if fixture.get("server", True) else None
    return with_settings(changed, reader.build_objects(), server)


def kept(kind: str, listed: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """As `transom doctor` keeps what a server gives: with what a check looks at, and no more."""
    if kind not in THIN:
        return listed
    return tuple(THIN[kind].type.from_json(msgspec.json.encode(item)).value for item in listed)


def filled(value: Any) -> Any:
    if isinstance(value, str):
        for name, text in MADE.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    return [filled(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_a_check_finds_the_bad_and_not_the_good(case: str) -> None:
    row, id_ = TABLE[case], case.partition(" ")[0]
    found = diagnose(observed(row["bad"]))
    assert [item.id for item in found] == row["bad"].get("ids", [id_])
    assert [item.id for item in diagnose(observed(row["good"]))] == []
    for entry in found:
        assert entry.object
        assert entry.evidence
        assert entry.consequence
        assert entry.command
        assert entry.page.startswith("docs/reasons.md#" if entry.id == "waits-for-you" else f"docs/doctor.md#{entry.id}")
        assert "hunter2" not in str(entry)
    assert row.get("object", found[0].object) == found[0].object
    assert row.get("command", "") in found[0].command
    assert row.get("evidence", "") in found[0].evidence


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_in_a_directory_nothing_that_is_wrong_counts_as_looked_at(case: str, tmp_path: Path) -> None:
    """What a cluster would show is found in the manifests that it was made of, or named as not made; never passed over."""
    row, id_ = TABLE[case], case.partition(" ")[0]
    own = row["bad"]["objects"]
    named = {(item["kind"], item["metadata"]["name"]) for item in own}
    left_out = ("Lease", "Deployment", "MutatingWebhookConfiguration", "Node", *row["bad"].get("without", ()))
    common = [item for item in COMMON if (item["kind"], item["metadata"]["name"]) not in named and item["kind"] not in left_out]
    values = [{"apiVersion": VERSIONS[item["kind"]], **filled(item)} for item in (*common, *own)]
    for value in values:
        value.pop("status", None)
        value["metadata"] = {key: each for key, each in value["metadata"].items() if key != "managedFields"}
    ran = run("doctor", "-f", write(tmp_path, *values), "-o", "json")
    found = {finding["id"] for finding in ran.json["findings"]}
    left = {item["id"] for item in ran.json["notMade"]}
    assert id_ in found | left
    assert ran.code == (1 if found else 0)
    assert set(ran.json["checks"]) | left == {check.id for check in CHECKS}
    assert not set(ran.json["checks"]) & left
    # who has no cluster has no use for its commands
    assert "kubectl" not in str(ran.json["findings"])
    assert "hunter2" not in ran.out + ran.err


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
        assert check.id not in [item.id for item in diagnose(part)]
    nothing = ClusterSnapshot("x", "transom-system", NOW, {})
    assert diagnose(nothing) == ()
    for kind, listed in seen.objects.items():
        odd = tuple(
            {"kind": kind, "metadata": {"name": item["metadata"]["name"]}, "spec": None, "status": 7} for item in listed
        )
        diagnose(msgspec.structs.replace(seen, objects=seen.objects | {kind: odd}, undefined=OWN_KINDS))


def test_who_may_not_read_the_cas_knows_their_end_from_the_status() -> None:
    seen = msgspec.structs.replace(observed(TABLE["certificate-ends (soon)"]["bad"]), settings=None, bundles=None)
    found = diagnose(seen)
    assert [item.id for item in found] == ["certificate-ends"]
    assert "2026-12-01" in found[0].evidence
    left = {item.id for item in list_skipped(seen, found)}
    assert {"intermediate-without-issuer", "https-without-proxy"} <= left
    assert "certificate-ends" not in left


def test_the_page_has_each_check() -> None:
    page = (DOCS / "doctor.md").read_text()
    assert update_doctor_page(page) == page
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
