"""Defects seen in cluster-apps-operator and its relatives, each with what Transom does instead.

The numbers are those of the list in docs/how-to/from-cluster-apps-operator.md.
"""

import pytest
import structlog
import yaml
from structlog.testing import capture_logs
from tests.support.management.manifests import ENCODED, RFC_LINE, base, cluster, credentials, egress_proxy, read, rendered

VALUES, SYSTEMD = ("ConfigMap", "mycluster-cluster-values"), ("Secret", "mycluster-systemd-proxy")
BARE = cluster(services=(), pods=(), host=None, domain=None)


def drop_in_of(*given: dict[str, object]) -> list[str]:
    return rendered(*given)[SYSTEMD]["containerdProxy"].splitlines()


def test_1_the_drop_in_has_the_merged_list_not_the_global_one() -> None:
    assert f'Environment="NO_PROXY={RFC_LINE}"' in drop_in_of(base(), credentials(), cluster())


def test_2_nothing_is_escaped_as_html() -> None:
    url = "http://u:hunter2&+<>'@p.example:3128".replace("<>", "")
    (line,) = [item for item in drop_in_of(egress_proxy(httpProxy=url, clusterSelector={}), cluster()) if "HTTP_PROXY" in item]
    assert line == f'Environment="HTTP_PROXY={url}"'


def test_3_a_percent_sign_is_doubled_for_systemd_and_nowhere_else() -> None:
    found = rendered(base(), credentials(), cluster())
    assert ENCODED.replace("%", "%%") in found[SYSTEMD]["containerdProxy"]
    assert ENCODED in found[SYSTEMD]["shell"]
    assert "%%" not in found[SYSTEMD]["shell"] + found["Secret", "mycluster-cluster-values"]["values"]


@pytest.mark.parametrize("items", [None, "", " "])
def test_4_no_list_has_an_empty_item(items: str | None) -> None:
    given = egress_proxy(httpProxy="http://p.example:3128", **({} if items is None else {"noProxy": items}))
    if items == " ":
        # a list of blanks is told to its writer
        assert any("is empty" in finding.message for finding in read(given, BARE)[1].findings)
        return
    assert (
        yaml.safe_load(rendered(given, BARE)[VALUES]["values"])["cluster"]["proxy"]["noProxy"]
        == "cluster.local,svc,127.0.0.1,localhost"
    )


def test_5_no_value_reaches_a_log() -> None:
    objects, settings = read(base(), credentials(), cluster())
    with capture_logs() as logged:
        structlog.get_logger().debug("everything", objects=objects, settings=settings, egress=settings.clusters)
    assert "hunter2" not in repr(logged)
    assert "hunter2" not in f"{objects}{settings!r}"


def test_6_a_list_alone_is_an_error_and_sets_no_empty_variable() -> None:
    _, settings = read(egress_proxy(noProxy="x.example"), cluster())
    assert settings.clusters["org-giantswarm", "mycluster"] is None
    only_http = drop_in_of(egress_proxy(httpProxy="http://p.example:3128"), cluster())
    assert not [line for line in only_http if line.endswith('="') or '=""' in line or "HTTPS" in line]


def test_7_an_item_that_stands_in_two_places_is_there_once_and_blanks_are_trimmed() -> None:
    given = base(noProxy="example.com , localhost,100.64.0.0/13,  example.com")
    line = yaml.safe_load(rendered(given, credentials(), cluster())[VALUES]["values"])["cluster"]["proxy"]["noProxy"]
    assert line == "cluster.local,100.64.0.0/13,100.96.0.0/11,178.170.32.59,example.com,localhost,svc,127.0.0.1"


def test_8_an_ipv6_endpoint_is_one_item() -> None:
    line = yaml.safe_load(rendered(base(), credentials(), cluster(host="fd00::1"))[VALUES]["values"])["cluster"]["proxy"][
        "noProxy"
    ]
    assert ",fd00::1," in line


def test_9_both_names_of_the_proxy_are_written() -> None:
    values = yaml.safe_load(rendered(base(), credentials(), cluster())["Secret", "mycluster-cluster-values"]["values"])
    proxy = values["cluster"]["proxy"]
    assert (proxy["http"], proxy["https"]) == (proxy["httpProxy"], proxy["httpsProxy"])


def test_10_the_networks_of_the_services_are_exempt_so_that_cni_reaches_the_api_server() -> None:
    (line,) = [item for item in drop_in_of(base(), credentials(), cluster()) if "NO_PROXY" in item]
    assert ",100.64.0.0/13," in line
