"""docs/json.md names every field of what commands print."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.bundles import certificate, config_map, egress_proxy, write
from tests.support.command import run
from tests.support.repository import DOCS

from transom.apply.report import HostReport, Report
from transom.capi.image.inputs import Download
from transom.cli.host_requests import HostRequestResult, RequestReport
from transom.cli.operator_presence import OperatorPresence
from transom.common.check_results import CheckResult
from transom.controllers.clusters import adoption as fleet
from transom.controllers.clusters.bootstrap import ObjectsReport
from transom.controllers.clusters.objects import ObjectResult
from transom.controllers.inventory import adoption as windows
from transom.diagnosis import host_details, overview
from transom.diagnosis.installation import InstallCheck
from transom.diagnosis.snapshot import Diagnosis, ReadFailure
from transom.diagnosis.unready_items import UnreadyItem
from transom.pods.outdated_pods import OutdatedWorkload
from transom.proxy.clients.decision import Decision
from transom.proxy.clients.lint import LintFinding
from transom.windows.host.host_state import Step

STATUS = (
    overview.ObjectStatus,
    overview.RolloutStatus,
    overview.ClusterStatus,
    overview.Expiry,
    overview.WebhookState,
    overview.Leader,
    overview.DeploymentState,
)
STORY = (host_details.HostSettings, host_details.NodeRow, host_details.ConditionRow, host_details.EventRow)
PAGE = DOCS / "json.md"
SECTIONS: dict[str, str] = {
    name: section.partition("\n")[2]
    for section in PAGE.read_text().split("\n## ")[1:]
    for name in re.findall(r"`([^`]+)`", section.partition("\n")[0])
}
"""The text below each heading, by the commands that the heading names."""


def told(command: str) -> set[str]:
    return set(re.findall(r"`([A-Za-z0-9_-]+)`", SECTIONS[command]))


@pytest.mark.parametrize(
    ("command", "structs"),
    [
        ("apply", (Report, HostReport, Step)),
        ("diff", (Report, HostReport, Step)),
        ("rollback", (Report, HostReport, Step)),
        ("apply --objects", (ObjectsReport, ObjectResult)),
        ("status", (overview.Overview, *STATUS)),
        ("status host", (host_details.HostDetails, *STORY)),
        ("doctor", (Diagnosis, ReadFailure)),
        ("adopt", (fleet.PeerObject, windows.PeerLeftover)),
        ("verify host", (CheckResult,)),
        ("no-proxy check", (Decision,)),
        ("no-proxy lint", (LintFinding,)),
        ("pods outdated", (OutdatedWorkload,)),
        ("pause", (RequestReport, HostRequestResult, OperatorPresence)),
        ("status --wait", (UnreadyItem,)),
        ("check", (InstallCheck,)),
        ("capi image", (Download,)),
    ],
)
def test_each_field_of_a_report_is_on_the_page(command: str, structs: tuple[type[msgspec.Struct], ...]) -> None:
    fields = {field.encode_name for struct in structs for field in msgspec.structs.fields(struct)}
    assert fields - told(command) == set()


def test_every_word_of_a_report_is_on_the_page() -> None:
    assert _words(Step.__annotations__["kind"], Step.__annotations__["action"]) - told("apply") == set()
    assert _words(ObjectResult.__annotations__["result"]) - told("apply --objects") == set()


def _words(*literals: Any) -> set[str]:
    return {word for literal in literals for word in literal.__args__}


def test_what_is_printed_is_on_the_page(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"httpProxy": "http://p.x:1", "noProxy": "10.0.0", "trustedCA": {"name": "ca"}}
    directory = write(tmp_path, egress_proxy(spec), config_map("ca", {"ca-bundle.crt": certificate("Root")}), pod)
    (tmp_path / "ca.pem").write_text(certificate("Root"))
    for command, arguments in (
        ("validate", ("-f", directory)),
        ("no-proxy merge", ("-f", directory)),
        ("no-proxy check", ("http://a.b", "--client", "go", "--no-proxy", "")),
        ("trust inspect", (str(tmp_path / "ca.pem"),)),
        ("pods explain", ("-f", directory)),
    ):
        found = run(*command.split(), *arguments, "-o", "json").json
        assert found
        assert _keys(found) - told(command) == set(), command


def _keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return {key for item in value for key in _keys(item)}
    if not isinstance(value, dict):
        return set()
    inner = set() if "op" in value else _keys(list(value.values()))
    return set(value) | inner


def test_every_command_that_has_json_is_on_the_page() -> None:
    from tests.cli.tree import GROUPS, WITHOUT_DATA, commands

    named = {" ".join((*group, name)) for group in GROUPS for name, _ in commands(group) if name not in WITHOUT_DATA}
    assert named - {group[0] for group in GROUPS if group} - set(SECTIONS) == set()
