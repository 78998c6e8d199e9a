"""What stands in the objects of a workload cluster."""

import base64
import gzip
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bundles import certificate
from tests.support.command import run
from tests.support.management.manifests import (
    ENCODED,
    NO_PROXY,
    PROXY,
    RFC_LINE,
    USER,
    base,
    cluster,
    credentials,
    egress_proxy,
    read,
    rendered,
)

from transom.capi.bootstrap.template_patches import build_cluster_class_patch, build_template_objects
from transom.capi.bootstrap.yaml_text import format_scalar, render_yaml
from transom.capi.values.cluster_identity import InvalidIdentity, get_cluster_id
from transom.capi.values.cluster_objects import build_fleet_objects, find_identity_conflicts
from transom.linux.drop_ins import EMPTY_DROP_IN, render_drop_in, render_shell_lines
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue

VALUES = "mycluster-cluster-values"
SYSTEMD = "mycluster-systemd-proxy"
URL = f"http://{USER}:{ENCODED}@192.168.52.220:3128"


def test_the_example_of_the_rfc_byte_for_byte() -> None:
    found = rendered(base(), credentials(), cluster())
    assert list(found) == [("Secret", SYSTEMD), ("Secret", VALUES), ("ConfigMap", VALUES)]
    text = found["ConfigMap", VALUES]["values"]
    assert text == (
        "cluster:\n  calico:\n    CIDR: 100.96.0.0/11\n"
        "  kubernetes:\n    API:\n      clusterIPRange: 100.64.0.0/13\n    DNS:\n      IP: 100.64.0.10\n"
        f"  proxy:\n    noProxy: {RFC_LINE}\n"
    )
    names = dict.fromkeys(("httpProxy", "httpsProxy", "http", "https"), URL)
    upstream = {"http_proxy": URL, "https_proxy": URL, "no_proxy": RFC_LINE}
    variables = {"NO_PROXY": RFC_LINE, "HTTP_PROXY": URL, "HTTPS_PROXY": URL}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    values = yaml.safe_load(found["Secret", VALUES]["values"])
    assert values == {"cluster": {"proxy": names | {"noProxy": RFC_LINE}}, "env": env} | upstream
    escaped = URL.replace("%", "%%")
    assert found["Secret", SYSTEMD]["containerdProxy"] == (
        "[Service]\n"
        f'Environment="HTTP_PROXY={escaped}"\nEnvironment="http_proxy={escaped}"\n'
        f'Environment="HTTPS_PROXY={escaped}"\nEnvironment="https_proxy={escaped}"\n'
        f'Environment="NO_PROXY={RFC_LINE}"\nEnvironment="no_proxy={RFC_LINE}"\n'
    )


def dns(*services: str) -> Any:
    text = rendered(base(), credentials(), cluster(services=services))["ConfigMap", VALUES]["values"]
    return yaml.safe_load(text)["cluster"].get("kubernetes", {}).get("DNS", {}).get("IP")


@pytest.mark.parametrize(
    ("services", "address"),
    [
        (("10.96.0.0/12",), "10.96.0.10"),
        (("10.96.7.3/12",), "10.96.0.10"),
        (("fd00:10:96::/112",), "fd00:10:96::a"),
        (("fd00::/112", "10.96.0.0/12"), "fd00::a"),
        (("1:2:3:4:5:6:7:0/112",), "1:2:3:4:5:6:7:a"),
        (("10.96.0.0/30",), None),
        ((), None),
    ],
)
def test_the_address_of_dns_is_the_tenth_of_the_first_services_network(services: tuple[str, ...], address: str | None) -> None:
    assert dns(*services) == address


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (cluster(host=None), RFC_LINE.replace("178.170.32.59,", "")),
        (cluster(pods=()), RFC_LINE.replace("100.96.0.0/11,", "")),
        (cluster(domain=None), RFC_LINE),
        (cluster(domain="corp.internal"), RFC_LINE.replace("cluster.local", "corp.internal")),
        (cluster(pods=("100.64.0.0/13", "fd00::/64")), RFC_LINE.replace("100.96.0.0/11", "fd00::/64")),
    ],
)
def test_what_is_not_known_is_left_out_and_each_item_stands_once(given: dict[str, Any], line: str) -> None:
    found = rendered(base(), credentials(), given)
    assert yaml.safe_load(found["ConfigMap", VALUES]["values"])["cluster"]["proxy"]["noProxy"] == line
    assert f'"NO_PROXY={line}"' in found["Secret", SYSTEMD]["containerdProxy"]


def test_a_star_makes_the_whole_list_a_star() -> None:
    text = rendered(base(noProxy="*"), credentials(), cluster())["ConfigMap", VALUES]["values"]
    assert '  noProxy: "*"\n' in text
    assert yaml.safe_load(text)["cluster"]["proxy"] == {"noProxy": "*"}


def test_no_https_proxy_no_key_for_it() -> None:
    found = rendered(egress_proxy(httpProxy=PROXY), cluster())
    assert yaml.safe_load(found["Secret", VALUES]["values"])["cluster"]["proxy"].keys() == {"httpProxy", "http", "noProxy"}
    assert "HTTPS" not in found["Secret", SYSTEMD]["containerdProxy"]
    assert "https_proxy" not in found["Secret", SYSTEMD]["env"]


def bundle() -> dict[str, Any]:
    metadata = {"name": "corp-ca", "namespace": "transom-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca-bundle.crt": certificate("root")}}


def test_a_bundle_alone_gives_the_bundle_alone() -> None:
    found = rendered(egress_proxy(trustedCA={"name": "corp-ca"}), bundle(), cluster())
    assert found == {("ConfigMap", "mycluster-egress-ca"): {"ca-bundle.crt": certificate("root")}}


def test_no_settings_no_object() -> None:
    assert rendered(cluster()) == {}
    assert rendered(egress_proxy(), cluster()) == {}
    assert rendered(egress_proxy(clusterSelector={"matchLabels": {"env": "prod"}}, httpProxy=PROXY), cluster()) == {}


@pytest.mark.parametrize(
    ("consumers", "names"),
    [
        (["Nodes"], {("Secret", SYSTEMD), ("ConfigMap", VALUES), ("ConfigMap", "mycluster-egress-ca")}),
        (["Apps"], {("Secret", VALUES), ("ConfigMap", VALUES), ("ConfigMap", "mycluster-egress-ca")}),
        (["Pods"], set()),
        ([], set()),
    ],
)
def test_who_does_not_consume_gets_nothing(consumers: list[str], names: set[tuple[str, str]]) -> None:
    found = rendered(base(consumers=consumers, trustedCA={"name": "corp-ca"}), credentials(), bundle(), cluster())
    assert found.keys() == names
    if "Apps" not in consumers:
        assert "noProxy" not in str(found.get(("ConfigMap", VALUES)))


@pytest.mark.parametrize(
    ("consumers", "given", "env", "shell"),
    [
        (None, base(), False, True),
        (None, egress_proxy(httpProxy=PROXY), True, True),
        (["Nodes"], egress_proxy(httpProxy=PROXY), False, True),
        (["Nodes", "StaticPods"], base(), True, True),
        (["StaticPods"], base(), True, False),
    ],
)
def test_static_pods_have_a_key_of_their_own_that_is_empty_and_never_missing(
    consumers: list[str] | None, given: dict[str, Any], env: bool, shell: bool
) -> None:
    given = given | {"spec": given["spec"] | ({"consumers": consumers} if consumers else {})}
    found = rendered(given, credentials(), cluster())["Secret", SYSTEMD]
    assert found.keys() == {"containerdProxy", "env", "shell"}
    assert [bool(found[key]) for key in ("env", "shell")] == [env, shell]
    assert ("HTTP_PROXY" in found["containerdProxy"]) == shell
    assert not env or not shell or found["env"] == found["shell"]


def test_what_somebody_waits_for_stays_without_a_proxy() -> None:
    found = rendered(cluster(), referenced_names={SYSTEMD, VALUES})
    assert found["Secret", SYSTEMD] == {"containerdProxy": "[Service]\n", "env": "", "shell": ""}
    assert found["Secret", VALUES] == {"values": "{}\n"}
    assert "proxy" not in yaml.safe_load(found["ConfigMap", VALUES]["values"])["cluster"]
    with_windows = rendered(cluster(), referenced_names={"mycluster-windows-proxy"})
    assert with_windows.keys() == {("Secret", "mycluster-windows-proxy"), ("ConfigMap", VALUES)}


def test_windows_templates_get_their_secret_with_the_proxy_and_with_a_bundle_alone() -> None:
    key = ("Secret", "mycluster-windows-proxy")
    assert key in rendered(base(), credentials(), cluster(), windows=True)
    assert key in rendered(egress_proxy(trustedCA={"name": "corp-ca"}), bundle(), cluster(), windows=True)
    assert key not in rendered(base(), credentials(), cluster())


def test_one_no_proxy_list_stands_in_all_objects_that_of_windows_too() -> None:
    found = rendered(base(), credentials(), cluster(), windows=True)
    zipped = base64.b64decode(found["Secret", "mycluster-windows-proxy"]["proxyReg"])
    edits = [edit for edit in reg.parse(gzip.decompress(zipped)) if isinstance(edit, SetValue) and edit.name == "Environment"]
    assert len(edits) == 2
    assert all(f"NO_PROXY={RFC_LINE}" in edit.value.to_texts() for edit in edits)
    assert yaml.safe_load(found["ConfigMap", VALUES]["values"])["cluster"]["proxy"]["noProxy"] == RFC_LINE
    assert yaml.safe_load(found["Secret", VALUES]["values"])["cluster"]["proxy"]["noProxy"] == RFC_LINE
    assert f"NO_PROXY='{RFC_LINE}'\n" in found["Secret", SYSTEMD]["shell"]


def test_labels_owner_and_ids() -> None:
    objects, settings = read(base(), credentials(), cluster(uid="u-1", labels={"giantswarm.io/cluster": "abc1"}))
    (one,) = objects.clusters
    egress = settings.clusters["org-giantswarm", "mycluster"]
    assert egress is not None
    for made in build_fleet_objects(one, egress):
        assert made.name.startswith("abc1-")
        meta = made.to_manifest()["metadata"]
        assert meta["labels"] == {"giantswarm.io/cluster": "abc1", "app.kubernetes.io/managed-by": "transom"}
        owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "mycluster", "uid": "u-1"}
        assert meta["ownerReferences"] == [owner]
        assert "hunter2" not in repr(made)
    (without_uid,) = read(cluster())[0].clusters
    assert "ownerReferences" not in build_fleet_objects(without_uid, egress)[0].to_manifest()["metadata"]


@pytest.mark.parametrize("label", ["Prod_1", "", "-a", "a" * 64])
def test_a_label_that_is_no_name_is_named(label: str) -> None:
    (one,) = read(cluster(labels={"giantswarm.io/cluster": label}))[0].clusters
    with pytest.raises(InvalidIdentity, match=r"metadata.labels\[giantswarm.io/cluster\] must be at most 63"):
        get_cluster_id(one)


OWN = "mycluster-egress-values"


def test_a_pair_of_names_of_our_own_stands_beside_a_peers() -> None:
    values = [base(values={"names": "Own"}), credentials(), cluster()]
    assert list(rendered(*values)) == [("Secret", SYSTEMD), ("Secret", OWN), ("ConfigMap", OWN)]
    # ours of the other name stays while it is named
    names = list(rendered(*values, referenced_names={VALUES}))
    assert names == [("Secret", SYSTEMD), ("Secret", VALUES), ("Secret", OWN), ("ConfigMap", VALUES), ("ConfigMap", OWN)]
    assert rendered(*values, referenced_names={VALUES})["Secret", VALUES] == rendered(*values)["Secret", OWN]
    layer = egress_proxy("layer", values={"names": "Own"})
    _, settings = read(base(), layer, credentials(), cluster())
    assert [(finding.object, finding.field) for finding in settings.findings if finding.severity == "error"] == [
        ("EgressProxy/layer", "spec.values")
    ]


OWN_SYSTEMD = "mycluster-egress-systemd-proxy"


def test_the_drop_in_has_a_second_name_beside_a_peers() -> None:
    values = [base(values={"dropInName": "Own"}), credentials(), cluster()]
    found = rendered(*values)
    assert list(found) == [("Secret", OWN_SYSTEMD), ("Secret", VALUES), ("ConfigMap", VALUES)]
    # ours of the other name stays, complete, while machines boot with it
    both = rendered(*values, referenced_names={SYSTEMD})
    assert both["Secret", SYSTEMD] == both["Secret", OWN_SYSTEMD] == found["Secret", OWN_SYSTEMD]
    assert "HTTP_PROXY" in both["Secret", SYSTEMD]["containerdProxy"]
    (one,) = read(*values)[0].clusters
    egress = read(*values)[1].clusters["org-giantswarm", "mycluster"]
    assert egress is not None
    printed = str([*build_template_objects(one, egress), build_cluster_class_patch(one, egress)])
    assert OWN_SYSTEMD in printed and f"'{SYSTEMD}'" not in printed
    assert ".name }}-egress-systemd-proxy" in printed


def test_of_two_clusters_with_one_id_the_older_has_it() -> None:
    label = {"giantswarm.io/cluster": "same"}
    old = cluster("old", labels=label, creationTimestamp="2026-01-01T00:00:00Z")
    new = cluster("new", labels=label, creationTimestamp="2026-01-02T00:00:00Z")
    elsewhere = cluster("new", "org-other", labels=label, creationTimestamp="2026-01-03T00:00:00Z")
    (one,) = find_identity_conflicts(read(new, old, elsewhere)[0].clusters).values()
    assert (one.later, one.holder) == (("org-giantswarm", "new"), ("org-giantswarm", "old"))
    assert "have one id, same: the older, old, has it" in one.message


def test_of_two_clusters_from_files_no_age_is_claimed(tmp_path: Path) -> None:
    """The one that is named like the id is printed; on a server the older will have it."""
    label = {"giantswarm.io/cluster": "prod"}
    odd = cluster("odd", labels={"giantswarm.io/cluster": "No_Name"})
    (tmp_path / "all.yaml").write_text(
        yaml.safe_dump_all([base(), credentials(), cluster("dup", labels=label), cluster("prod"), odd])
    )
    for command in ("validate", "render"):
        done = run(command, "-f", str(tmp_path))
        assert done.code == 0
        told = done.out + done.err
        assert "Cluster org-giantswarm/prod and Cluster org-giantswarm/dup have one id, prod: the older will have it" in told
        assert "here prod, and nothing is made for dup" in told
        assert "metadata.labels[giantswarm.io/cluster] must be at most 63" in told
        assert "is older" not in told


# --- the forms


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)))
lookalikes = st.from_regex(r"[0-9:.,_eExXoOa-fnN~=<>!&*?|'\"%@`{}\[\]+-]{1,12}", fullmatch=True)


_keys = st.sampled_from(("a", "B", "noProxy"))
_mappings = st.dictionaries(_keys, texts | lookalikes, min_size=1)


@given(st.dictionaries(_keys, texts | lookalikes | _mappings | st.lists(_mappings, min_size=1), min_size=1))
def test_yaml_is_read_back_as_the_same_texts(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(render_yaml(tree)) == tree


@pytest.mark.parametrize("text", ["10.96.0.10", "100.64.0.0/13", RFC_LINE, URL, "fd00::a", "example.com", NO_PROXY])
def test_what_may_stand_plain_stands_plain(text: str) -> None:
    assert format_scalar(text) == text


@pytest.mark.parametrize(
    "text", ["*", "1", "1.5", "1:20", "yes", "null", "0x10", "", " a", "a: b", "a #b", "fd00::", "2026-01-01"]
)
def test_what_may_not_is_quoted(text: str) -> None:
    assert format_scalar(text).startswith('"')
    assert yaml.safe_load(f"a: {format_scalar(text)}\n") == {"a": text}


def test_a_shell_reads_the_exact_values() -> None:
    value = "http://u:hunter2%25$HOME`id`'\"\\&+;@p.example:3128"
    egress = Egress(Secret(value), Secret(value), "a.example,b.example")
    script = render_shell_lines(egress).reveal() + 'printf "%s\\n" "$HTTP_PROXY" "$https_proxy" "$no_proxy"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout.splitlines() == [value, value, "a.example,b.example"]
    assert shlex.split(render_shell_lines(egress).reveal())[0] == f"HTTP_PROXY={value}"


def test_without_settings_the_drop_in_sets_nothing() -> None:
    assert render_drop_in(Egress()).reveal() == EMPTY_DROP_IN
    assert render_shell_lines(Egress()).reveal() == ""


@pytest.mark.parametrize("by", ["label", "deployment"])
@pytest.mark.parametrize(
    ("socket", "windows"), [("npipe:////./pipe/containerd-containerd", True), ("unix:///run/x.sock", False)]
)
def test_a_cluster_with_a_template_for_windows_is_known(by: str, socket: str, windows: bool) -> None:
    spec = {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"criSocket": socket}}}}}
    labels = {"cluster.x-k8s.io/cluster-name": "mycluster"} if by == "label" else {}
    metadata = {"name": "md-0", "namespace": "org-giantswarm", "labels": labels}
    kind = {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate"}
    template = kind | {"metadata": metadata, "spec": spec}
    reference = {"bootstrap": {"configRef": {"name": "md-0"}}}
    deployment = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": "md-0", "namespace": "org-giantswarm"},
        "spec": {"clusterName": "mycluster", "template": {"spec": reference}},
    }
    objects, _ = read(cluster(), template, *([deployment] if by == "deployment" else []))
    assert (("org-giantswarm", "mycluster") in objects.windows_clusters) is windows
    assert not objects.findings
