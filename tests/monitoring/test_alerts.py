"""The alerts: promtool reads them, each fires by what is wrong and not before its time, and ends with it."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from tests.support.repository import DOCS

from lab import prometheus
from transom.monitoring.alert import ALERTS, BY_NAME, build_rules
from transom.monitoring.page import render_pages

DAY: Final = 86_400


class Fault(msgspec.Struct, frozen=True):
    """Series by minutes: what is wrong for as long as twice the alert's time, and then right. The labels that are told."""

    wrong: dict[str, str]
    right: dict[str, str]
    labels: dict[str, str] = {}
    value: str = ""


HOSTS = 'transom_hosts{condition="Configured",status="True"}'
FAULTS: Final[dict[str, Fault]] = {
    "TransomNoLeader": Fault({"transom_leader": "0"}, {"transom_leader": "1"}),
    "TransomSettingsInvalid": Fault(
        {'transom_egress_proxies{condition="Valid",status="False"}': "1"},
        {'transom_egress_proxies{condition="Valid",status="False"}': "0"},
    ),
    "TransomHostsNotConfigured": Fault(
        {
            'transom_hosts_unconfigured{reason="Unreachable"}': "3",
            'transom_hosts_unconfigured{reason="UpgradePending"}': "9",
        },
        {
            'transom_hosts_unconfigured{reason="Unreachable"}': "0",
            'transom_hosts_unconfigured{reason="UpgradePending"}': "9",
        },
        value="3",
    ),
    "TransomRolloutHalted": Fault(
        {'transom_egress_proxies{condition="RolloutHalted",status="True"}': "1"},
        {'transom_egress_proxies{condition="RolloutHalted",status="True"}': "0"},
        {"condition": "RolloutHalted", "status": "True"},
    ),
    "TransomCertificateExpires": Fault(
        {'transom_trust_certificate_expiry_timestamp_seconds{sha256="aa"}': str(29 * DAY)},
        {'transom_trust_certificate_expiry_timestamp_seconds{sha256="aa"}': str(99 * DAY)},
        {"sha256": "aa"},
    ),
    "TransomWebhookCertificateExpires": Fault(
        {"transom_webhook_certificate_expiry_timestamp_seconds": str(13 * DAY)},
        {"transom_webhook_certificate_expiry_timestamp_seconds": str(99 * DAY)},
    ),
    "TransomPassesStale": Fault(
        {"transom_last_host_pass_timestamp_seconds": "-6000", "transom_check_interval_seconds": "1800", HOSTS: "5"},
        {"transom_last_host_pass_timestamp_seconds": "3600", "transom_check_interval_seconds": "1800", HOSTS: "5"},
    ),
    "TransomQueueStuck": Fault(
        {'transom_queue_depth{controller="hosts"}': "40", "transom_leader": "1"},
        {'transom_queue_depth{controller="hosts"}': "3", "transom_leader": "1"},
        {"controller": "hosts"},
    ),
    "TransomApiErrors": Fault(
        {'transom_api_requests_total{code="none"}': "+60", 'transom_api_requests_total{code="200"}': "+60"},
        {'transom_api_requests_total{code="none"}': "+0", 'transom_api_requests_total{code="200"}': "+60"},
    ),
    "TransomRequestsRefused": Fault(
        {'transom_requests_refused{reason="RightMissing"}': "1", 'transom_requests_refused{reason="WriteRefused"}': "2"},
        {'transom_requests_refused{reason="RightMissing"}': "0", 'transom_requests_refused{reason="WriteRefused"}': "0"},
        value="3",
    ),
    "TransomPodsRefused": Fault({"transom_pods_refused": "1"}, {"transom_pods_refused": "0"}),
    "TransomPodsNotInjected": Fault(
        {'transom_egress_proxies{condition="PodsInjected",status="False"}': "1"},
        {'transom_egress_proxies{condition="PodsInjected",status="False"}': "0"},
        {"condition": "PodsInjected", "status": "False"},
    ),
}
ALTERNATING: Final[dict[str, tuple[str, str]]] = {
    "TransomSettingsInvalid": (
        'transom_egress_proxies{condition="Valid",status="False"}',
        'transom_egress_proxies{condition="TrustBundleValid",status="False"}',
    ),
    "TransomHostsNotConfigured": (
        'transom_hosts_unconfigured{reason="Unreachable"}',
        'transom_hosts_unconfigured{reason="ConnectionLost"}',
    ),
    "TransomRequestsRefused": (
        'transom_requests_refused{reason="RightMissing"}',
        'transom_requests_refused{reason="WriteRefused"}',
    ),
    "TransomApiErrors": ('transom_api_requests_total{code="none"}', 'transom_api_requests_total{code="503"}'),
}
"""Two series of one fault, by alert: first one of them says that something is wrong, then the other, in turn."""
QUIET: Final = {
    "a standby's queue is nobody's work": {
        'transom_queue_depth{controller="hosts",instance="a"}': "40",
        'transom_leader{instance="a"}': "0",
        'transom_queue_depth{controller="hosts",instance="b"}': "0",
        'transom_leader{instance="b"}': "1",
    },
    "a server that shows no certificate yet": {
        "transom_webhook_certificate_expiry_timestamp_seconds": "0",
        "transom_leader": "1",
    },
    "nothing to make a pass on": {
        "transom_last_host_pass_timestamp_seconds": "0",
        "transom_check_interval_seconds": "1",
        HOSTS: "0",
        "transom_leader": "1",
    },
}
LEAD = 12
"""Minutes until a range of ten is full of what is wrong, and after that of what is right."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rules") / "rules.yaml"
    file.write_text(yaml.safe_dump(build_rules()))
    return file


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [prometheus.fetch_programs() / "promtool", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def samples(wrong: str, right: str, minutes: int) -> str:
    """`promtool`'s notation: a value that stays, or one that grows by so much a minute."""
    if wrong.startswith("+"):
        until = int(wrong) * minutes
        return f"0{wrong}x{minutes} {until + int(right)}{right}x{minutes + LEAD}"
    return f"{wrong}x{minutes} {right}x{minutes + LEAD}"


def expected(name: str, fault: Fault) -> dict[str, Any]:
    alert = BY_NAME[name]
    summary = alert.summary.replace("{{ $value }}", fault.value)
    for label, value in fault.labels.items():
        summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
    annotations = {**alert.build_rule()["annotations"], "summary": summary}
    return {"exp_labels": {"severity": alert.severity, **fault.labels}, "exp_annotations": annotations}


@pytest.mark.lab
@pytest.mark.parametrize("name", ALTERNATING)
def test_an_alert_fires_although_its_reason_changes(name: str, written: Path, tmp_path: Path) -> None:
    """The reason changes twice in the time of the alert, all the time."""
    half = max(1, BY_NAME[name].minutes // 2)
    first, second = ALTERNATING[name]
    step = "+60" if first.startswith("transom_api") else ""
    turns = [["1" if turn % 2 == number else "0" for turn in range(8)] for number in range(2)]
    series = []
    for item, turn in zip((first, second), turns, strict=True):
        values, total = [], 0
        for state in turn:
            for _ in range(half):
                total += int(state) * 60
                values.append(str(total) if step else state)
        series.append({"series": item, "values": " ".join(values)})
    alert = BY_NAME[name]
    summary = alert.summary.replace("{{ $value }}", "1")
    firing = {
        "exp_labels": {"severity": alert.severity},
        "exp_annotations": alert.build_rule()["annotations"] | {"summary": summary},
    }
    told = [{"eval_time": f"{half * 7 + half // 2}m", "alertname": name, "exp_alerts": [firing]}]
    tests = [{"name": name, "interval": "1m", "input_series": series, "alert_rule_test": told}]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(written)], "evaluation_interval": "1m", "tests": tests}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
def test_each_fires_after_its_time_and_ends(written: Path, tmp_path: Path) -> None:
    assert FAULTS.keys() == BY_NAME.keys()
    tests = []
    for name, fault in FAULTS.items():
        lasts = BY_NAME[name].minutes
        minutes = 2 * lasts + LEAD
        series = [{"series": item, "values": samples(wrong, fault.right[item], minutes)} for item, wrong in fault.wrong.items()]
        at = (
            (f"{lasts - 1}m", []),
            (f"{minutes}m", [expected(name, fault)]),
            (f"{2 * minutes + LEAD}m", []),
        )
        told = [{"eval_time": when, "alertname": name, "exp_alerts": item} for when, item in at]
        tests.append({"name": name, "interval": "1m", "input_series": series, "alert_rule_test": told})
    for name, values in QUIET.items():
        series = [{"series": item, "values": f"{value}x180"} for item, value in values.items()]
        told = [{"eval_time": "180m", "alertname": alert.name, "exp_alerts": []} for alert in ALERTS]
        tests.append({"name": name, "interval": "1m", "input_series": series, "alert_rule_test": told})
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(written)], "evaluation_interval": "1m", "tests": tests}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
def test_promtool_finds_nothing_wrong(written: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", written)
    assert (done.returncode, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


def test_at_most_a_dozen_each_with_a_page() -> None:
    assert len(ALERTS) <= 12
    made = render_pages()
    kept = {f"runbooks/{file.name}" for file in (DOCS / "runbooks").iterdir()}
    assert kept == {name for name in made if name.startswith("runbooks/")}
    assert {name: (DOCS / name).read_text("utf-8") for name in made} == dict(made), "run scripts/reference"
    for alert in ALERTS:
        assert (DOCS.parent / alert.build_rule()["annotations"]["runbook"]).is_file()
        assert alert.look
        assert alert.fix


def test_the_page_reads_without_placeholders() -> None:
    page = render_pages()["metrics.md"]
    alerts = page.partition("## Alerts")[2]
    assert "$labels" not in alerts
    assert "{{" not in alerts
    assert not re.search(r"\b(\w+) \1\b", alerts)
