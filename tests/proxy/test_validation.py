"""What is valid: the table, row by row, as EgressProxy/cluster and, where a row says so, as OpenShift's Proxy/cluster."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.bundles import (
    NOW,
    PASSWORD,
    certificate,
    cluster,
    config_map,
    egress_proxy,
    openshift_proxy,
    private_key,
    secret,
    write,
)

from transom.controllers.egress.status import build_validity, select_findings
from transom.proxy import no_proxy_findings
from transom.proxy.clients.lint import judge_item
from transom.proxy.finding import Place
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

TABLE: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "tables" / "validation.yaml").read_text("utf-8"), yaml.CSafeLoader
)
NAMED = [
    secret("egress-credentials", stringData={"username": "user", "password": PASSWORD}),
    secret("no-password", stringData={"username": "user"}),
    secret("not-base64", data={"username": base64.b64encode(b"user").decode(), "password": "hunter2?"}),
    secret("line-break", stringData={"username": "user", "password": PASSWORD + "\n"}),
    secret("ends-in-cr", stringData={"username": "user", "password": PASSWORD + "\r"}),
    secret("empty-password", stringData={"username": "user", "password": ""}),
    secret("encoded-password", stringData={"username": "user", "password": "hunter2%40x%2F"}),
    secret("percent-sign", stringData={"username": "user", "password": "hunter2%40%zz"}),
    secret("colon-in-user", stringData={"username": "user:hunter2", "password": PASSWORD}),
    secret("binary", data={"username": base64.b64encode(b"user").decode(), "password": base64.b64encode(b"\xff\xfe").decode()}),
    secret("no-user", stringData={"username": "", "password": PASSWORD}),
    config_map("corp-ca", {"ca-bundle.crt": certificate("Root")}),
    config_map("no-key", {"ca.crt": certificate("Root")}),
    config_map("base64", {"ca-bundle.crt": base64.b64encode(certificate("Root").encode()).decode()}),
    config_map("file-path", {"ca-bundle.crt": "./corp-ca.pem"}),
    config_map("single-line", {"ca-bundle.crt": certificate("Root").replace("\n", " ")}),
    config_map("no-certificate", {"ca-bundle.crt": "# nothing here\n"}),
    config_map("empty", {"ca-bundle.crt": ""}),
    config_map(
        "broken",
        {"ca-bundle.crt": certificate("Root") + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
    ),
    config_map("with-key", {"ca-bundle.crt": certificate("Root") + private_key()}),
    config_map("unterminated", {"ca-bundle.crt": certificate("Root").replace("-----END", "-----ENDE")}),
    config_map("expired", {"ca-bundle.crt": certificate("Old", ends="2020-06-01")}),
    config_map("expires-soon", {"ca-bundle.crt": certificate("Soon", ends="2026-06-20")}),
]


def rows() -> list[Any]:
    params = []
    for row in TABLE:
        spec = row.get("spec")
        if "proxied" in row:
            spec = {"httpProxy": "http://proxy.example:3128", "noProxy": row["proxied"]}
        if "long" in row:
            spec = {row["long"]: f"http://p.x/{'x' * 8_192}"}
        if spec is not None:
            params.append(pytest.param(egress_proxy(spec), row["expect"], id=row["row"]))
        if row.get("both") or "openshift" in row:
            params.append(
                pytest.param(
                    openshift_proxy(row.get("openshift", spec)),
                    row.get("as_proxy", row["expect"]),
                    id=f"{row['row']}, as Proxy",
                )
            )
    return params


@pytest.mark.parametrize(("settings", "expected"), rows())
def test_row(settings: dict[str, Any], expected: list[dict[str, str]], tmp_path: Path) -> None:
    named = [item for item in NAMED if item["metadata"]["name"] in str(settings["spec"])]
    findings = examine_objects(load_objects([write(tmp_path, settings, *named)]), NOW).findings
    given = [f for f in findings if f.severity == "error" or not f.message.startswith("the cluster's ")]
    own = f"{settings['kind']}/cluster"
    wanted = [(row.get("severity", "error"), row.get("object", own), row["field"], row["says"]) for row in expected]
    assert sorted((f.severity, f.object, f.field) for f in given) == sorted(row[:3] for row in wanted), given
    for severity, object_, field, says in wanted:
        assert any((f.severity, f.object, f.field) == (severity, object_, field) and says in f.message for f in given), given


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
DOMAIN = st.tuples(
    st.sampled_from(("", ".")), st.lists(LABEL, min_size=1, max_size=3).map(".".join), st.sampled_from(("", "."))
)
ADDRESS = st.ip_addresses().map(str)
NETWORK = st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 32)) | st.tuples(
    st.ip_addresses(v=6).map(str), st.integers(0, 128)
)


@given(DOMAIN.map("".join) | ADDRESS | NETWORK.map(lambda held: f"{held[0]}/{held[1]}"))
@example("::ffff:0:0/0")
@example("::ffff:10.0.0.0/104")
@example("::ffff:10.0.0.1")
def test_what_kubelet_and_containerd_do_not_heed_is_never_passed_over(item: str) -> None:
    """They are Go: an item that its profile ignores has a finding."""
    if list(judge_item(item, {item}, ("go",))):
        assert list(no_proxy_findings.examine_no_proxy(item, Place("f", "o"), ("spec", "noProxy")))


def test_the_table_has_sixty_rows() -> None:
    assert len(TABLE) >= 60
    assert len({row["row"] for row in TABLE}) == len(TABLE)


URL = "http://p.x:3128"
BOTH = {"httpProxy": URL, "httpsProxy": URL}
HALVES: list[tuple[str, list[dict[str, Any]], list[tuple[str, str]]]] = [
    # what was said, and the objects and fields that chart-operator lacks
    ("HTTP alone", [egress_proxy({"httpProxy": URL})], [("EgressProxy/cluster", "spec.httpsProxy")]),
    ("HTTPS alone", [egress_proxy({"httpsProxy": URL})], [("EgressProxy/cluster", "spec.httpProxy")]),
    ("both", [egress_proxy(BOTH)], []),
    ("none", [egress_proxy({})], []),
    ("no app gets it", [egress_proxy({"httpProxy": URL, "consumers": ["Nodes"]})], []),
    (
        "a layer's, over a base with both",
        [egress_proxy(BOTH), egress_proxy({"httpsProxy": URL}, "own")],
        [("EgressProxy/own", "spec.httpProxy")],
    ),
    ("a layer with both, over half a base", [egress_proxy({"httpProxy": URL}), egress_proxy(BOTH, "own")], []),
    ("OpenShift's", [openshift_proxy({"httpProxy": URL})], [("Proxy/cluster", "spec.httpsProxy")]),
]


@pytest.mark.parametrize(("objects", "lacking"), [row[1:] for row in HALVES], ids=[row[0] for row in HALVES])
def test_one_url_is_none_for_chart_operator(
    objects: list[dict[str, Any]], lacking: list[tuple[str, str]], tmp_path: Path
) -> None:
    """It is said once, however many clusters there are, by validate and on the object."""
    findings = examine_objects(load_objects([write(tmp_path, *objects, cluster("a"), cluster("b"))]), NOW).findings
    found = [finding for finding in findings if "chart-operator" in finding.message]
    assert [(item.object, item.field, item.severity) for item in found] == [(*item, "warning") for item in lacking]
    for entry in found:
        name, spec = entry.object.partition("/")[2], objects[-1]["spec"]
        proxy = spec if entry.object.startswith("Proxy/") else None
        told = build_validity(name, spec, select_findings(name, spec, "transom-system", findings, proxy), proxy)["Valid"]
        assert told.status == "True"
        assert entry.message in told.message
    alone = examine_objects(load_objects([write(tmp_path, *objects)]), NOW).findings
    assert not [item for item in alone if "chart-operator" in item.message], "there is no workload cluster"
