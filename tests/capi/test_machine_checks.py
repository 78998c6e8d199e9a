"""Machines that do not get the settings, or not in time: each is named, in files and in what is printed for Git."""

import base64
import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.bundles import certificate, config_map
from tests.support.management.manifests import base, credentials
from typer.testing import CliRunner

from lab import infrastructure
from transom.capi.bootstrap.injection import build_entries_patch, list_foreign_drop_ins
from transom.capi.bootstrap.machine_files import CA_STEM, DROP_INS, build_linux_entries
from transom.capi.bootstrap.machine_kinds import BOOTSTRAPS, CONTROL_PLANES, EDITED, MachineFamily, MachineKinds
from transom.capi.check.machine_checks import find_machine_fetch
from transom.cli.program import build_program
from transom.controllers.runtime.informers import CachedKubeadm
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.sources.examination import examine_objects
from transom.sources.objects import ObjectReader, Objects

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NS = "org-a"
PROXY: dict[str, Any] = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "EgressProxy",
    "metadata": {"name": "cluster"},
    "spec": {
        "httpProxy": "http://proxy.corp.example:3128",
        "httpsProxy": "http://proxy.corp.example:3128",
        "networks": {
            "machineNetwork": ["10.0.0.0/16"],
            "serviceNetwork": ["10.96.0.0/16"],
            "podNetwork": ["10.244.0.0/16"],
            "internalAPIHost": "api.corp.example",
        },
        "clusterSelector": {},
    },
}


def made(group: str, kind: str, spec: dict[str, Any], name: str = "prod", **meta: Any) -> dict[str, Any]:
    group, _, version = group.partition("/")
    api = {"core": "cluster.x-k8s.io"}.get(group, f"{group}.cluster.x-k8s.io")
    metadata = {"name": name, "namespace": NS} | meta
    return {"apiVersion": f"{api}/{version or 'v1beta2'}", "kind": kind, "metadata": metadata, "spec": spec}


def cluster(control_plane: str | None = "KubeadmControlPlane", **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"controlPlaneEndpoint": {"host": "10.9.0.5", "port": 6443}}
    spec |= {"clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}}}
    if control_plane:
        spec["controlPlaneRef"] = {"kind": control_plane, "name": "prod"}
    return made("core", "Cluster", spec | more.pop("spec", {}), **more)


def workers(
    bootstrap: str | None, infrastructure_kind: str = "VSphereMachineTemplate", kind: str = "MachineDeployment"
) -> dict[str, Any]:
    reference = {"configRef": {"kind": bootstrap, "name": "md"}} if bootstrap else {"dataSecretName": "data"}
    infrastructure_ref = {"kind": infrastructure_kind, "name": "md"}
    part = {"clusterName": "prod", "bootstrap": reference, "infrastructureRef": infrastructure_ref}
    return made("core", kind, {"clusterName": "prod", "template": {"spec": part}}, "md")


def control_plane(files: list[dict[str, Any]] | None = None, version: str = "v1beta2", **spec: Any) -> dict[str, Any]:
    reference = {"infrastructureRef": {"kind": "AWSMachineTemplate", "name": "prod"}}
    template = reference if version == "v1beta1" else {"spec": reference}
    whole = {"machineTemplate": template, "kubeadmConfigSpec": {"files": files or []} | spec}
    return made(f"controlplane/{version}", "KubeadmControlPlane", whole)


INFRASTRUCTURE: dict[str, Any] = {"infrastructureRef": {"kind": "AWSMachineTemplate", "name": "prod"}}


def aws(kind: str = "AWSMachineTemplate", **spec: Any) -> dict[str, Any]:
    return made("infrastructure", kind, spec if kind == "AWSMachinePool" else {"template": {"spec": spec}})


def read(*values: dict[str, Any]) -> Objects:
    reader = ObjectReader()
    for value in values:
        reader.add(value, "f", lambda _: (0, 0))
    return reader.build_objects()


def findings(*values: dict[str, Any], proxy: dict[str, Any] = PROXY) -> list[tuple[str, str]]:
    """Return object and field of each finding, except that entries are missing."""
    return [item for item in all_findings(*values, proxy=proxy) if item[1] not in ("metadata.labels", "spec.patches")]


def all_findings(*values: dict[str, Any], proxy: dict[str, Any] = PROXY) -> list[tuple[str, str]]:
    """Return object and field of each finding."""
    examined = examine_objects(read(proxy, *values), NOW)
    assert not examined.errors, examined.errors
    return [(finding.object, finding.field) for finding in examined.findings]


@pytest.mark.parametrize("kind", ["x\x1b[2J", "y" * 10_000, "Z\u202eControlPlane", ""])
def test_kind_that_is_no_name_is_not_shown(kind: str) -> None:
    objects = read(PROXY, cluster(kind), workers(kind or None, kind))
    for finding in examine_objects(objects, NOW).findings:
        assert finding.message.isprintable()
        assert len(finding.message) < 400
    assert all(len(text) < 64 and text.isprintable() for text in MachineKinds(kind, (kind,), (kind,)).unsupported)


CONFIG_REF = "spec.template.spec.bootstrap.configRef.kind"
CONTROL_PLANE_REF = ("Cluster/org-a/prod", "spec.controlPlaneRef.kind")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, []) for kind in CONTROL_PLANES),
        (None, []),
        *(
            (kind, [CONTROL_PLANE_REF])
            for kind in (
                *(
                    "K0sControlPlane",
                    "K0smotronControlPlane",
                    "KThreesControlPlane",
                    "MicroK8sControlPlane",
                    "CK8sControlPlane",
                ),
                *("AzureManagedControlPlane", "AzureASOManagedControlPlane", "GCPManagedControlPlane", "ROSAControlPlane"),
                "kubeadmControlPlane",
            )
        ),
    ],
)
def test_control_plane_without_entries_is_reported(kind: str | None, expected: list[tuple[str, str]]) -> None:
    assert findings(cluster(kind)) == expected


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        *((workers(f"{kind}Template"), []) for kind in BOOTSTRAPS),
        *((workers(kind, kind="MachinePool"), []) for kind in BOOTSTRAPS),
        (workers("K0sWorkerConfigTemplate"), [("MachineDeployment/org-a/md", CONFIG_REF)]),
        (workers("KThreesConfigTemplate"), [("MachineDeployment/org-a/md", CONFIG_REF)]),
        (workers(None), [("MachineDeployment/org-a/md", CONFIG_REF)]),
        (workers(None, "AWSManagedMachinePool", "MachinePool"), [("MachinePool/org-a/md", CONFIG_REF)]),
        (workers(None, "AzureManagedMachinePool", "MachinePool"), [("MachinePool/org-a/md", CONFIG_REF)]),
        (workers("NodeadmConfig", "AWSManagedMachinePool", "MachinePool"), []),
    ],
)
def test_bootstrap_without_entries_is_reported(worker: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert findings(cluster(), worker) == expected


@pytest.mark.parametrize("fields", [{"consumers": ["Apps"]}, {"mode": "Direct"}])
def test_machines_that_get_nothing_are_not_reported(fields: dict[str, Any]) -> None:
    layer = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "layer"}}
    spec: dict[str, Any] = {"clusterSelector": {}, **fields}
    proxy = PROXY if "mode" in fields else {**PROXY, "spec": {**PROXY["spec"], **fields}}
    extra = [{**layer, "spec": spec}] if "mode" in fields else []
    assert findings(cluster("K0sControlPlane"), aws(), control_plane(), *extra, proxy=proxy) == []


def class_objects(control: str, worker: str, version: str) -> list[dict[str, Any]]:
    def reference(kind: str, name: str) -> dict[str, Any]:
        return {"ref" if version == "v1beta1" else "templateRef": {"kind": kind, "name": name}}

    bootstrap = {"bootstrap": reference(worker, "md"), "infrastructure": reference("AWSMachineTemplate", "prod")}
    deployment = {"class": "w", **({"template": bootstrap} if version == "v1beta1" else bootstrap)}
    spec = {"controlPlane": reference(control, "cp"), "workers": {"machineDeployments": [deployment]}}
    topology = {"class": "c"} if version == "v1beta1" else {"classRef": {"name": "c"}}
    return [
        made(f"core/{version}", "ClusterClass", spec, "c"),
        made(f"core/{version}", "Cluster", {"topology": topology, "controlPlaneEndpoint": {"host": "10.9.0.5"}}),
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(
    ("control", "worker", "reported"),
    [
        ("KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", False),
        ("K0sControlPlaneTemplate", "KubeadmConfigTemplate", True),
        ("KubeadmControlPlaneTemplate", "K0sWorkerConfigTemplate", True),
    ],
)
def test_class_without_entries_is_reported(version: str, control: str, worker: str, reported: bool) -> None:
    told = findings(*class_objects(control, worker, version))
    assert (("ClusterClass/org-a/c", "spec") in told) is reported
    # the templates of a class are its cluster's
    assert ("AWSMachineTemplate/org-a/prod", "spec.template.spec.cloudInit") in findings(
        *class_objects(control, worker, version), aws()
    )


INJECT = {"transom.dev/inject": "true"}


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("group", "kind", "spec", "reported"),
    [
        *((group.removesuffix(".cluster.x-k8s.io"), kind, {}, False) for group, kind in sorted(EDITED)),
        ("core", "Cluster", {"topology": {"class": "c"}}, False),
        ("core", "Cluster", {}, True),
        ("core", "MachineDeployment", {}, True),
        ("core", "ClusterClass", {}, True),
        ("bootstrap", "EKSConfigTemplate", {}, True),
        ("bootstrap", "RKE2ConfigTemplate", {}, True),
        ("bootstrap", "K0sWorkerConfigTemplate", {}, True),
        ("controlplane", "KubeadmControlPlaneTemplate", {}, True),
        ("controlplane", "AWSManagedControlPlane", {}, True),
        ("infrastructure", "AWSMachineTemplate", {}, True),
    ],
)
def test_label_that_nothing_reads_is_reported(where: str, group: str, kind: str, spec: dict[str, Any], reported: bool) -> None:
    told = findings(made(group, kind, spec, "x", **{where: INJECT}))
    assert ((f"{kind}/org-a/x", f"metadata.{where}[transom.dev/inject]") in told) is reported
    told = findings(made(group, kind, spec, "x", **{where: {"transom.dev/inject": "false"}}))
    assert not [field for _, field in told if "inject" in field]


@pytest.mark.parametrize(
    ("kind", "spec", "ignition_format", "store"),
    [
        ("AWSMachineTemplate", {}, False, "AWS Secrets Manager"),
        ("AWSMachineTemplate", {"cloudInit": {}}, False, "AWS Secrets Manager"),
        ("AWSMachineTemplate", {"cloudInit": {"secureSecretsBackend": "ssm-parameter-store"}}, False, "AWS Systems Manager"),
        ("AWSMachineTemplate", {"cloudInit": {"insecureSkipSecretsManager": True}}, False, None),
        ("AWSMachineTemplate", {}, True, "S3"),
        ("AWSMachineTemplate", {"ignition": {}}, False, "S3"),
        ("AWSMachineTemplate", {"ignition": {"storageType": "ClusterObjectStore"}}, True, "S3"),
        ("AWSMachineTemplate", {"ignition": {"storageType": "UnencryptedUserData"}}, True, None),
        ("AWSMachinePool", {}, False, None),
        ("AWSMachinePool", {"ignition": {}}, False, "S3"),
        ("VSphereMachineTemplate", {}, True, None),
        ("AzureMachineTemplate", {}, False, None),
    ],
)
def test_data_that_a_machine_downloads(kind: str, spec: dict[str, Any], ignition_format: bool, store: str | None) -> None:
    fetch = find_machine_fetch(kind, spec, ignition_format=ignition_format)
    assert (fetch.store if fetch else None) == store


IGNITION_PROXY = {"proxy": {"httpsProxy": "http://p:3128"}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "cloudInit"),
        ({"cloudInit": {"insecureSkipSecretsManager": True}}, None),
        ({"ignition": {"version": "3.4"}}, "ignition"),
        ({"ignition": {"version": "3.4", **IGNITION_PROXY}}, None),
        ({"ignition": {"version": "3.1", **IGNITION_PROXY}}, None),
        ({"ignition": {"version": "3.0", **IGNITION_PROXY}}, "ignition.version"),
        ({"ignition": IGNITION_PROXY}, "ignition.version"),
    ],
)
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_download_without_the_proxy_is_reported(spec: dict[str, Any], field: str | None, version: str) -> None:
    expected = [("AWSMachineTemplate/org-a/prod", f"spec.template.spec.{field}")] if field else []
    assert findings(cluster(), control_plane(version=version), aws(**spec)) == expected


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("RKE2ControlPlane", {"agentConfig": {"format": "ignition"}, "machineTemplate": {"spec": INFRASTRUCTURE}}),
        ("RKE2ControlPlane", {"agentConfig": {"format": "ignition"}, "machineTemplate": INFRASTRUCTURE}),
    ],
)
def test_format_of_rke2_decides(kind: str, spec: dict[str, Any]) -> None:
    told = findings(cluster(kind), made("controlplane", kind, spec), aws())
    assert told == [("AWSMachineTemplate/org-a/prod", "spec.template.spec.ignition")]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("TalosControlPlane", {"infrastructureTemplate": {"kind": "AWSMachineTemplate", "name": "prod"}}),
        ("RKE2ControlPlane", INFRASTRUCTURE),
        ("RKE2ControlPlane", {"machineTemplate": INFRASTRUCTURE}),
    ],
)
def test_templates_of_other_control_planes_count(kind: str, spec: dict[str, Any]) -> None:
    told = findings(cluster(kind), made("controlplane", kind, spec), aws())
    assert told == [("AWSMachineTemplate/org-a/prod", "spec.template.spec.cloudInit")]
    assert findings(cluster(kind), made("controlplane", kind, {}), aws()) == []


def test_format_of_the_bootstrap_configuration_decides_without_a_field_of_the_template() -> None:
    told = findings(cluster(), control_plane(format="ignition"), aws())
    assert told == [("AWSMachineTemplate/org-a/prod", "spec.template.spec.ignition")]


def drop_in(path: str, content: str | None, encoding: str = "") -> dict[str, Any]:
    if content is None:
        return {"path": path, "contentFrom": {"secret": {"name": "theirs", "key": "x"}}}
    return {"path": path, "content": content} | ({"encoding": encoding} if encoding else {})


OLD = '[Service]\nEnvironment="HTTPS_PROXY=http://old.corp.example:8080" "NO_PROXY=localhost"\n'
SERVICE = "/etc/systemd/system/containerd.service.d"


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


FOREIGN = [
    (drop_in(f"{SERVICE}/proxy.conf", OLD), True),
    (drop_in(f"{SERVICE}/zz-proxy.conf", OLD), True),
    (drop_in(f"{SERVICE}/10-a.conf", "[Service]\nEnvironment=no_proxy=x\n"), True),
    (drop_in("/etc/systemd/system/kubelet.service.d/20-proxy.conf", OLD), True),
    (drop_in("/run/systemd/system/kubelet.service.d/a.conf", OLD), True),
    (drop_in("/usr/lib/systemd/system/kubelet.service.d/a.conf", OLD), True),
    (drop_in("/etc/systemd/system/service.d/a.conf", OLD), True),
    (drop_in(f"{SERVICE}/a.conf", base64.b64encode(OLD.encode()).decode(), "base64"), True),
    (drop_in(f"{SERVICE}/a.conf", packed(OLD), "gzip+base64"), True),
    (drop_in(f"{SERVICE}/proxy.conf", None), True),
    (drop_in(f"{SERVICE}/limits.conf", None), False),
    (drop_in(f"{SERVICE}/limits.conf", "[Service]\nLimitNOFILE=1\n"), False),
    (drop_in(f"{SERVICE}/a.conf", "not base64!", "gzip+base64"), False),
    (drop_in("/etc/systemd/system/docker.service.d/proxy.conf", OLD), False),
    (drop_in("/etc/systemd/system/containerd.service.d/proxy.txt", OLD), False),
    (drop_in("/etc/environment", OLD), False),
]


@pytest.mark.parametrize(("file", "foreign"), FOREIGN)
def test_drop_in_of_another_owner_is_a_conflict(file: dict[str, Any], foreign: bool) -> None:
    egress = Egress(http_proxy=Secret("http://proxy.x:3128"), no_proxy="x")
    found = build_entries_patch({"files": [file]}, build_linux_entries("s", egress), frozenset(("s",)), ("spec",), 1)
    assert found.foreign == ((file["path"],) if foreign else ())
    assert bool(found.operations) is not foreign
    told = findings(cluster(), control_plane([{"path": "/x", "content": ""}, file]))
    assert told == ([("KubeadmControlPlane/org-a/prod", "spec.kubeadmConfigSpec.files[1].path")] if foreign else [])


def test_committed_cas_are_no_conflict() -> None:
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("corp")})
    proxy = {**PROXY, "spec": {**PROXY["spec"], "trustedCA": {"name": "corp-ca"}}}
    files = [{"path": f"{CA_STEM}.crt", "content": "x"}]
    assert findings(cluster(), control_plane(files), {**bundle, "metadata": bundle["metadata"]}, proxy=proxy) == []


def test_drop_in_of_rke2_is_a_conflict() -> None:
    spec = {"files": [drop_in("/etc/systemd/system/rke2-server.service.d/proxy.conf", OLD)]}
    told = findings(cluster("RKE2ControlPlane"), made("controlplane", "RKE2ControlPlane", spec))
    assert told == [("RKE2ControlPlane/org-a/prod", "spec.files[0].path")]


LABELLED = {"labels": {"transom.dev/inject": "true"}}
CLASS = class_objects("KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", "v1beta2")
OURS = {"files": [{"path": DROP_INS[0], "contentFrom": {"secret": {"name": "prod-systemd-proxy", "key": "containerdProxy"}}}]}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([cluster(), made("controlplane", "KubeadmControlPlane", {})], [("KubeadmControlPlane/org-a/prod", "metadata.labels")]),
        ([cluster(), made("controlplane", "KubeadmControlPlane", {}, **LABELLED)], []),
        ([cluster(), made("controlplane", "KubeadmControlPlane", {"kubeadmConfigSpec": OURS})], []),
        ([cluster("RKE2ControlPlane"), made("controlplane", "RKE2ControlPlane", OURS)], []),
        (
            [cluster(), workers("KubeadmConfigTemplate"), made("bootstrap", "KubeadmConfigTemplate", {}, "md")],
            [("KubeadmConfigTemplate/org-a/md", "metadata.labels")],
        ),
        (
            class_objects("KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", "v1beta2"),
            [("ClusterClass/org-a/c", "spec.patches")],
        ),
        # another cluster's, and nobody's
        ([cluster(), made("controlplane", "KubeadmControlPlane", {}, "other")], []),
    ],
)
def test_template_that_gets_nothing_is_reported(values: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    about_machines = [item for item in all_findings(*values) if "clusterNetwork" not in item[1]]
    assert about_machines == expected


def test_machines_without_settings_need_no_entries() -> None:
    proxy = {**PROXY, "spec": {**PROXY["spec"], "consumers": ["Apps"]}}
    assert all_findings(cluster(), made("controlplane", "KubeadmControlPlane", {}), proxy=proxy) == []


def test_workers_of_another_namespace_are_reported() -> None:
    pool = workers("KubeadmConfig", kind="MachinePool")
    pool["metadata"]["namespace"] = "elsewhere"
    assert findings(cluster(), pool) == [("MachinePool/elsewhere/md", "spec.clusterName")]


@pytest.mark.parametrize(
    "kind", ["AzureManagedMachinePool", "GCPManagedMachinePool", "OCIManagedMachinePool", "ROSAMachinePool"]
)
def test_configuration_that_a_cloud_ignores_is_reported(kind: str) -> None:
    told = findings(cluster(), workers("KubeadmConfig", kind, "MachinePool"))
    assert told == [("MachinePool/org-a/md", CONFIG_REF)]


def test_machine_without_an_owner_counts() -> None:
    spec: dict[str, Any] = {"clusterName": "prod", "bootstrap": {"configRef": {"kind": "K0sWorkerConfig", "name": "m"}}}
    expected = [("Machine/org-a/m", "spec.bootstrap.configRef.kind")]
    assert findings(cluster(), made("core", "Machine", spec, "m")) == expected
    spec["bootstrap"]["configRef"]["kind"] = "KubeadmConfig"
    objects = [cluster(), made("core", "Machine", spec, "m"), made("bootstrap", "KubeadmConfig", {}, "m", **LABELLED)]
    assert all_findings(*objects) == [
        ("KubeadmConfig/org-a/m", "metadata.labels"),
        ("KubeadmConfig/org-a/m", "metadata.labels[transom.dev/inject]"),
    ]
    made_by = {"labels": {"cluster.x-k8s.io/set-name": "md"}}
    assert findings(cluster(), made("core", "Machine", spec, "m", **made_by)) == []
    # as `load` reads them from a server
    assert findings(cluster(), made("core", "Machine", {"clusterName": "prod"}, "m")) == []


def test_environment_file_of_a_drop_in_counts() -> None:
    drop = drop_in(f"{SERVICE}/a.conf", "[Service]\nEnvironmentFile=-/etc/proxy.env\n")
    assert list_foreign_drop_ins([drop, drop_in("/etc/proxy.env", "https_proxy=http://old\n")], DROP_INS) == (drop["path"],)
    assert list_foreign_drop_ins([drop, drop_in("/etc/proxy.env", "A=b\n")], DROP_INS) == ()
    assert list_foreign_drop_ins([drop], DROP_INS) == ()


def test_our_own_drop_ins_are_no_conflict() -> None:
    ours = [{"path": path, "contentFrom": {"secret": {"name": "prod-systemd-proxy", "key": "k"}}} for path in DROP_INS]
    assert findings(cluster(), control_plane(ours)) == []


@pytest.mark.parametrize(
    ("kinds", "families"),
    [
        (MachineKinds(), {MachineFamily.KUBEADM}),
        (MachineKinds("KubeadmControlPlane", ("KubeadmConfigTemplate",)), {MachineFamily.KUBEADM}),
        (MachineKinds("AWSManagedControlPlane"), {MachineFamily.EKS, MachineFamily.NODEADM}),
        (MachineKinds("AWSManagedControlPlane", ("EKSConfigTemplate",)), {MachineFamily.EKS}),
        (MachineKinds("AWSManagedControlPlane", ("NodeadmConfigTemplate",)), {MachineFamily.NODEADM}),
        (MachineKinds("AWSManagedControlPlane", (), ("AWSManagedMachinePool",)), set()),
        (MachineKinds("KamajiControlPlane"), {MachineFamily.KUBEADM}),
        (MachineKinds("K0sControlPlane"), set()),
        (MachineKinds("K0sControlPlane", ("KubeadmConfigTemplate",)), {MachineFamily.KUBEADM}),
        (MachineKinds("RKE2ControlPlane", ("RKE2ConfigTemplate",)), {MachineFamily.RKE2}),
    ],
)
def test_families_of_a_cluster(kinds: MachineKinds, families: set[MachineFamily]) -> None:
    assert set(kinds.families) == families


def rendered(tmp_path: Path, *values: dict[str, Any], form: str = "entries") -> tuple[int, list[dict[str, Any]], str]:
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("corp")})
    proxy = {**PROXY, "spec": {**PROXY["spec"], "trustedCA": {"name": "corp-ca"}}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([proxy, bundle, *values]))
    done = CliRunner().invoke(build_program(), ["render", "-f", str(tmp_path), "--machine-templates", form])
    return done.exit_code, [item for item in yaml.safe_load_all(done.stdout) if item], done.output


@pytest.mark.parametrize(
    ("values", "code", "kinds"),
    [
        ([cluster("K0sControlPlane")], 2, []),
        ([cluster("AzureManagedControlPlane"), workers(None, "AzureManagedMachinePool", "MachinePool")], 2, []),
        ([cluster("AWSManagedControlPlane"), workers("EKSConfigTemplate")], 0, ["EKSConfigTemplate"]),
        ([cluster("AWSManagedControlPlane"), workers("NodeadmConfigTemplate")], 0, ["NodeadmConfigTemplate"]),
        ([cluster("AWSManagedControlPlane")], 0, ["EKSConfigTemplate", "NodeadmConfigTemplate"]),
        ([cluster("KamajiControlPlane"), workers("KubeadmConfigTemplate")], 0, ["KubeadmConfigTemplate"]),
        ([cluster("AWSManagedControlPlane"), workers("NodeadmConfig", kind="MachinePool")], 0, ["NodeadmConfig"]),
        (
            [cluster("AWSManagedControlPlane"), workers("NodeadmConfig", "AWSManagedMachinePool", "MachinePool")],
            0,
            ["NodeadmConfig"],
        ),
        (
            [
                cluster("AWSManagedControlPlane"),
                workers("NodeadmConfig", "AWSManagedMachinePool", "MachinePool"),
                made("infrastructure", "AWSManagedMachinePool", {"awsLaunchTemplate": {}}, "md"),
            ],
            0,
            ["NodeadmConfig"],
        ),
        (
            [
                cluster("AWSManagedControlPlane"),
                workers("NodeadmConfig", "AWSManagedMachinePool", "MachinePool"),
                made("infrastructure", "AWSManagedMachinePool", {}, "md"),
            ],
            2,
            [],
        ),
        ([cluster(None, spec={"topology": {"class": "nowhere"}})], 2, []),
        (
            [cluster("KubeadmControlPlane", spec={"topology": {"class": "nowhere"}})],
            0,
            [],
        ),
        ([*class_objects("RKE2ControlPlaneTemplate", "RKE2ConfigTemplate", "v1beta2")], 0, []),
        ([*class_objects("AzureManagedControlPlaneTemplate", "KubeadmConfigTemplate", "v1beta1")], 2, []),
        ([cluster()], 0, ["KubeadmControlPlane", "KubeadmConfigTemplate", "KubeadmConfigTemplate"]),
        (
            [cluster(), workers("K0sWorkerConfigTemplate")],
            2,
            ["KubeadmControlPlane"],
        ),
        ([cluster("TalosControlPlane"), workers("TalosConfigTemplate")], 0, ["TalosControlPlane", "TalosConfigTemplate"]),
    ],
)
def test_entries_are_those_of_the_kinds_that_exist(
    tmp_path: Path, values: list[dict[str, Any]], code: int, kinds: list[str]
) -> None:
    exit_code, items, output = rendered(tmp_path, *values)
    assert ([item["kind"] for item in items], exit_code) == (kinds, code), output
    assert ("transom: error" in output) is (code != 0)


def test_versions_are_those_of_the_objects(tmp_path: Path) -> None:
    """But for EKS, whose v1beta1 has no files."""
    values = [
        cluster("AWSManagedControlPlane"),
        workers("EKSConfigTemplate"),
        made("bootstrap/v1beta1", "EKSConfigTemplate", {}, "md"),
        made("core", "Cluster", {"controlPlaneRef": {"kind": "RKE2ControlPlane", "name": "cp"}}, "other"),
        made("controlplane/v1beta1", "RKE2ControlPlane", {}, "cp"),
    ]
    _, items, _ = rendered(tmp_path, *values)
    assert [(item["apiVersion"], item["metadata"]["name"]) for item in items] == [
        ("bootstrap.cluster.x-k8s.io/v1beta2", "md"),
        ("controlplane.cluster.x-k8s.io/v1beta1", "cp"),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "other-linux"),
    ]


def test_class_that_needs_two_patches_is_reported(tmp_path: Path) -> None:
    """Two clusters of one class, of which one has its id as a label."""
    values = class_objects("RKE2ControlPlaneTemplate", "RKE2ConfigTemplate", "v1beta2")
    other = made("core", "Cluster", values[1]["spec"], "other", labels={"giantswarm.io/cluster": "x1"})
    code, items, output = rendered(tmp_path, *values, other, form="cluster-class")
    assert (code, len(items)) == (0, 1), output
    assert "Cluster/org-a/other" in output
    same = made("core", "Cluster", values[1]["spec"], "other")
    _, items, output = rendered(tmp_path, *values, same, form="cluster-class")
    assert len(items) == 1
    assert "transom: warning" not in output


def test_talos_of_a_class_is_an_error(tmp_path: Path) -> None:
    values = class_objects("TalosControlPlaneTemplate", "TalosConfigTemplate", "v1beta2")
    assert ("ClusterClass/org-a/c", "spec") in findings(*values)
    for form in ("entries", "cluster-class"):
        code, items, output = rendered(tmp_path, *values, form=form)
        assert (code, items) == (2, []), output


@pytest.mark.parametrize(("kind", "code"), [("KubeadmControlPlane", 0), ("RKE2ControlPlane", 0), ("K0sControlPlane", 2)])
def test_cluster_without_a_class_has_no_patch(tmp_path: Path, kind: str, code: int) -> None:
    exit_code, items, output = rendered(tmp_path, cluster(kind), form="cluster-class")
    assert (exit_code, items) == (code, []), output
    assert "Cluster/org-a/prod" in output


def test_ignition_gets_the_proxy_and_the_cas_without_a_password(tmp_path: Path) -> None:
    values = [cluster(), control_plane(format="ignition"), aws(ignition={"version": "3.4"})]
    _, items, _ = rendered(tmp_path, *values)
    template = next(item for item in items if item["kind"] == "AWSMachineTemplate")
    ignition = template["spec"]["template"]["spec"]["ignition"]
    assert ignition["proxy"]["httpsProxy"] == "http://proxy.corp.example:3128"
    assert "10.96.0.0/12" in ignition["proxy"]["noProxy"]
    (source,) = ignition["tls"]["certificateAuthorities"]
    assert base64.b64decode(source.partition(",")[2]).decode() == certificate("corp")
    secret = tmp_path / "secret"
    secret.mkdir()
    objects = [base(clusterSelector={}), credentials("hunter2"), *values]
    (secret / "all.yaml").write_text(yaml.safe_dump_all(objects))
    done = CliRunner().invoke(build_program(), ["render", "-f", str(secret), "--machine-templates", "entries"])
    assert done.exit_code == 0, done.output
    assert "ignition" in done.stdout
    assert "hunter2" not in done.output
    assert "VPC endpoint for S3" in done.output


@pytest.mark.lab
@pytest.mark.parametrize("kind", ["EKSConfigTemplate", "NodeadmConfigTemplate", "AWSMachineTemplate"])
def test_fields_that_are_printed_exist(tmp_path: Path, kind: str) -> None:
    """Every field of an entry is one of the published definition."""
    values = [cluster("AWSManagedControlPlane"), workers("EKSConfigTemplate"), made("infrastructure", "AWSMachineTemplate", {})]
    if kind == "AWSMachineTemplate":
        values = [cluster(), control_plane(format="ignition"), aws(ignition={})]
    elif kind == "NodeadmConfigTemplate":
        values = [cluster("AWSManagedControlPlane"), workers("NodeadmConfigTemplate")]
    _, items, _ = rendered(tmp_path, *values)
    item = next(item for item in items if item["kind"] == kind)
    group = item["apiVersion"].partition("/")[0]
    module = infrastructure.MODULES["aws"][0]
    (definition,) = infrastructure.read_definitions([(module, f"{kind.lower()}s", group)])
    (version,) = definition["spec"]["versions"]
    assert item["apiVersion"] == f"{group}/{version['name']}"
    assert list(unknown_fields(item["spec"], version["schema"]["openAPIV3Schema"]["properties"]["spec"])) == []


def unknown_fields(value: Any, schema: dict[str, Any], path: str = "") -> Any:
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in schema.get("properties", {}):
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(below, schema["properties"][key], f"{path}.{key}")
    for item in value if isinstance(value, list) else ():
        yield from unknown_fields(item, schema["items"], path)


NETWORKING = {"serviceSubnet": "172.31.0.0/16", "podSubnet": "192.168.0.0/16,fd00::/48", "dnsDomain": "corp.local"}
FIELD = "spec.kubeadmConfigSpec.clusterConfiguration.networking"


@pytest.mark.parametrize(
    ("version", "networking", "own", "items", "fields"),
    [
        (
            "v1beta1",
            NETWORKING,
            True,
            "corp.local,172.31.0.0/16,10.96.0.0/12,192.168.0.0/16,fd00::/48,10.244.0.0/16,10.9.0.5,",
            [f"{FIELD}.serviceSubnet", f"{FIELD}.podSubnet", f"{FIELD}.dnsDomain"],
        ),
        (
            "v1beta1",
            NETWORKING,
            False,
            "corp.local,172.31.0.0/16,192.168.0.0/16,fd00::/48,10.9.0.5,",
            [f"{FIELD}.serviceSubnet", f"{FIELD}.podSubnet", f"{FIELD}.dnsDomain"],
        ),
        ("v1beta1", {"serviceSubnet": "10.96.0.0/12"}, True, "cluster.local,10.96.0.0/12,10.244.0.0/16,10.9.0.5,", []),
        ("v1beta1", {"dnsDomain": ""}, True, "cluster.local,10.96.0.0/12,10.244.0.0/16,10.9.0.5,", []),
        ("v1beta1", {"podSubnet": 5}, True, "cluster.local,10.96.0.0/12,10.244.0.0/16,10.9.0.5,", []),
        ("v1beta2", NETWORKING, True, "cluster.local,10.96.0.0/12,10.244.0.0/16,10.9.0.5,", []),
    ],
)
@pytest.mark.parametrize("from_class", [False, True])
def test_networks_of_the_control_plane(
    version: str, networking: dict[str, Any], own: bool, items: str, fields: list[str], from_class: bool
) -> None:
    values = cluster(None if from_class else "KubeadmControlPlane")
    if not own:
        del values["spec"]["clusterNetwork"]
    spec: dict[str, Any] = {"kubeadmConfigSpec": {"clusterConfiguration": {"networking": networking}}}
    if from_class:
        values["spec"]["topology"] = {"class": "c"}
        reference = {"kind": "KubeadmControlPlaneTemplate", "name": "prod"}
        others = [
            made("core/v1beta1", "ClusterClass", {"controlPlane": {"ref": reference}}, "c"),
            made(f"controlplane/{version}", "KubeadmControlPlaneTemplate", {"template": {"spec": spec}}),
        ]
        fields = [field.replace("spec.", "spec.template.spec.", 1) for field in fields]
    else:
        others = [made(f"controlplane/{version}", "KubeadmControlPlane", spec)]
    examined = examine_objects(read(PROXY, values, *others), NOW)
    egress = examined.settings.clusters[NS, "prod"]
    assert egress is not None
    assert egress.no_proxy.startswith(items)
    assert [finding.field for finding in examined.findings if "networking" in finding.field] == fields


def test_operator_reads_the_same_networks() -> None:
    """What it keeps of a KubeadmControlPlane is enough for the settings."""
    spec = {"replicas": 3, "kubeadmConfigSpec": {"files": [], "clusterConfiguration": {"networking": NETWORKING}}}
    value = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "metadata": {"name": "prod", "namespace": NS}, "spec": spec}
    cached = msgspec.convert(value, CachedKubeadm)
    egress = examine_objects(read(PROXY, cluster(), cached.value), NOW).settings.clusters[NS, "prod"]
    assert egress is not None
    assert egress.no_proxy.startswith("corp.local,172.31.0.0/16,")


@pytest.mark.parametrize(
    ("field", "value"), [("serviceSubnet", "10.96.0.0"), ("podSubnet", "a,b"), ("dnsDomain", "Corp_Local")]
)
def test_network_of_the_control_plane_that_is_invalid(field: str, value: str) -> None:
    spec = {"kubeadmConfigSpec": {"clusterConfiguration": {"networking": {field: value}}}}
    control = made("controlplane/v1beta1", "KubeadmControlPlane", spec)
    examined = examine_objects(read(PROXY, cluster(), control), NOW)
    assert {(error.object, error.field) for error in examined.errors} == {
        ("KubeadmControlPlane/org-a/prod", f"{FIELD}.{field}")
    }


@pytest.mark.parametrize("field", ["machineDeployments", "machinePools"])
def test_classes_of_windows_machines_get_their_own_entries(tmp_path: Path, field: str) -> None:
    values = class_objects("KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", "v1beta1")
    (linux,) = values[0]["spec"]["workers"].pop("machineDeployments")
    windows = {"class": "win", "template": {"bootstrap": {"ref": {"kind": "KubeadmConfigTemplate", "name": "win"}}}}
    values[0]["spec"]["workers"][field] = [linux, windows]
    registration = {"nodeRegistration": {"criSocket": "npipe:////./pipe/containerd-containerd"}}
    template = {"template": {"spec": {"joinConfiguration": registration, "preKubeadmCommands": ["x"]}}}
    objects = [*values, made("bootstrap/v1beta1", "KubeadmConfigTemplate", template, "win")]
    _, (printed,), output = rendered(tmp_path, *objects, form="cluster-class")
    parts = printed["spec"]["patches"][0]["definitions"]
    name = "machinePoolClass" if field == "machinePools" else "machineDeploymentClass"
    by_class = {tuple(part["selector"]["matchResources"].get(name, {}).get("names", ())): part["jsonPatches"] for part in parts}
    assert set(by_class) == {(), ("w",), ("win",)}, output
    assert "C:/k/proxy.reg" in str(by_class["win",])
    assert "http-proxy.conf" in str(by_class["w",])
    # it has commands before the join, and none of the other lists
    created = [item["path"] for item in by_class["win",] if item.get("value") == []]
    assert created == ["/spec/template/spec/files", "/spec/template/spec/postKubeadmCommands"]
