"""`transom capi check`: each fault is put into what Transom makes, and found; without one nothing is found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from typer.testing import CliRunner

from transom.capi.check.template_check import SourceObject, check_templates
from transom.capi.check.worker_inputs import ProviderName, WorkerInputs
from transom.capi.image.image_recipe import build_recipe as make_image
from transom.capi.image.inputs import ImageInputs
from transom.capi.worker.worker_objects import build_worker
from transom.cli.program import build_program

NAMES = get_args(ProviderName)
Change = Callable[[dict[str, Any]], object]


def objects(provider: ProviderName) -> list[dict[str, Any]]:
    made = build_worker(WorkerInputs(cluster="prod", provider=provider, machine_name_prefix="win"))
    return [json.loads(json.dumps(item)) for item in made.objects if item["kind"] not in ("ConfigMap", "ClusterResourceSet")]


def image(provider: ProviderName) -> dict[str, str]:
    return {name: content.decode().replace("\r\n", "\n") for name, content in make_image(ImageInputs(provider)).files.items()}


def found(given: list[dict[str, Any]], files: dict[str, str] | None = None) -> list[str]:
    return [
        f"{entry.object} {entry.field} {entry.message}"
        for entry in check_templates([SourceObject("a.yaml", item) for item in given], files or {})
    ]


def spec(item: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = item["spec"]["template"]["spec"]
    return inner


@pytest.mark.parametrize("provider", NAMES)
def test_what_transom_makes_has_no_fault(provider: ProviderName) -> None:
    assert found(objects(provider), image(provider)) == []


def machine(**fields: Any) -> Change:
    return lambda item: spec(item).update(fields)


def bootstrap(**fields: Any) -> Change:
    return machine(**fields)


OBJECTS: list[tuple[ProviderName, int, Change, str]] = [
    ("aws", 0, bootstrap(format="ignition"), "cloud-config alone"),
    ("aws", 0, bootstrap(preKubeadmCommands=["echo x & exit /b 1"]), "preKubeadmCommands[0] this leaves the script"),
    ("aws", 0, bootstrap(preKubeadmCommands=["("]), "takes the later commands into it"),
    ("aws", 0, bootstrap(postKubeadmCommands=[r"C:\k\a.cmd"]), "ends all commands"),
    ("aws", 0, bootstrap(preKubeadmCommands=[r"cmd.exe /d /c C:\k\proxy.cmd"]), "does not stop the join"),
    ("aws", 0, bootstrap(files=[{"path": "C:/k/a", "content": "x" * 10_241}]), "files[0].content 10,241 characters"),
    ("aws", 0, bootstrap(files=[{"path": "C:/k/a", "content": "{{ x }}"}]), "reads this as a template"),
    ("aws", 0, bootstrap(files=[{"path": "C:/k/a", "content": "http://alice:hunter2@p.example"}]), "user and password"),
    ("aws", 0, bootstrap(files=[{"path": "C:/k/a", "content": "", "permissions": 644}]), "octal digits"),
    ("aws", 0, bootstrap(files=[{"path": "C:/k/kubelet-arguments.txt", "content": "--v=2"}]), "need not find containerd"),
    ("aws", 1, lambda item: spec(item).pop("uncompressedUserData"), "CAPA gzips user data only if this is false"),
    ("aws", 1, machine(imageLookupFormat="my-windows-*"), "without a key pair"),
    ("aws", 1, lambda item: spec(item).pop("sshKeyName"), "key pair called `default`"),
    ("aws", 1, machine(instanceMetadataOptions={"httpTokens": "required"}), "without a session token"),
    ("vsphere", 1, machine(network={"devices": [{"networkName": "a", "dhcp4": False}]}), "the machine has no address"),
    ("vsphere", 1, machine(os="Linux"), "treats the machine as Linux"),
    ("openstack", 1, machine(image={"filter": {"name": "windows-*"}}), "by its exact name"),
    ("gcp", 1, machine(image="global/images/transom-windows-2022-v1-36-3"), "builds add their time"),
    (
        "nutanix",
        0,
        lambda item: spec(item)["joinConfiguration"]["nodeRegistration"].update(name="{{ v1.local_hostname }}"),
        "CAPX renders {{ ds.meta_data.hostname }} alone",
    ),
    ("azure", 2, lambda item: item["spec"].pop("machineNaming"), "at most 15 characters"),
    ("vsphere", 2, lambda item: item["spec"].update(machineNaming={"template": "prod-windows-{{ .random }}"}), "at most 15"),
]


@pytest.mark.parametrize(("provider", "which", "change", "said"), OBJECTS, ids=[case[3] for case in OBJECTS])
def test_a_fault_of_a_template_is_found(provider: ProviderName, which: int, change: Change, said: str) -> None:
    given = objects(provider)
    change(given[which])
    assert any(said in message for message in found(given)), found(given)


FILES: list[tuple[ProviderName, str, str, str, str]] = [
    ("aws", "variables.pkr.hcl", "/10.0.0.0p2", "/v10.0.0.0p2", "without a v"),
    ("aws", "windows.pkr.hcl", "${path.root}/scripts", "scripts", "from this directory alone"),
    ("aws", "windows.pkr.hcl", "disable_stop_instance", "#", "sysprep stops the instance"),
    ("vsphere", "windows.pkr.hcl", "shutdown_command", "#", "builder's shutdown_command"),
    ("openstack", "windows.pkr.hcl", "= local.image_name", '= "${local.image_name}-${local.stamp}"', "exact name"),
    ("gcp", "scripts/sysprep.ps1", "GENERALIZE_RESEAL", "X", "not awaited"),
    ("gcp", "scripts/kubernetes.ps1", "--container-runtime-endpoint", "--x", "npipe:////./pipe/containerd-containerd"),
    ("gcp", "scripts/kubernetes.ps1", "kube-log-runner", "x", "log is lost"),
    ("gcp", "scripts/common.ps1", "SignerCertificate", "x", "any publisher's signature"),
    ("gcp", "scripts/common.ps1", "# curl.exe", "$request['Proxy'] = $p #", "password of the proxy are not sent"),
    ("gcp", "scripts/cloudbase-init-unattend.conf", "allow_reboot=false", "allow_reboot=true", "a restart inside Setup"),
    ("gcp", "scripts/cloudbase-init-unattend.conf", "init-unattend.log", "init.log", "both runs write one log"),
    ("azure", "scripts/cloudbase-init.conf", "completed=true", "completed=false", "Azure waits"),
    ("azure", "scripts/cloudbase-init.conf", "AzureGuestAgentPlugin", "X", "agent is not installed"),
    ("vsphere", "scripts/cloudbase-init.conf", "NetworkConfigPlugin", "X", "static addresses"),
    ("aws", "scripts/cloudbase-init.conf", "transom_ec2.", "cloudbaseinit.metadata.services.ec2service.", "without a key pair"),
    ("gcp", "scripts/cloudbase-init.conf", "SetUserPasswordPlugin", "X", "keeps the build's password"),
    ("gcp", "scripts/sshd_config", "Subsystem", "Match Group administrators\n", "keys in .ssh of administrators"),
]


@pytest.mark.parametrize(("provider", "name", "old", "new", "said"), FILES, ids=[case[4] for case in FILES])
def test_a_fault_of_an_image_is_found(provider: ProviderName, name: str, old: str, new: str, said: str) -> None:
    files = image(provider)
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    assert any(said in message for message in found([], files)), found([], files)


def daemon(image: str, **variables: str) -> dict[str, Any]:
    container = {"name": "c", "image": image, "env": [{"name": name, "value": value} for name, value in variables.items()]}
    pod = {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [container]}
    return {"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (daemon("docker.io/sigwindowstools/kube-proxy:v1.36.3-calico-hostprocess", NODE_NAME="x"), "from NODENAME"),
        (daemon("docker.io/sigwindowstools/kube-proxy:v1.36.3-flannel-hostprocess", NODENAME="x"), "no longer built"),
        (daemon("docker.io/sigwindowstools/calico-install:v3.24.5-hostprocess"), "removes all files of the node's drive"),
    ],
)
def test_a_fault_of_a_daemon_is_found(item: dict[str, Any], said: str) -> None:
    held = {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a.json": json.dumps(item)}}
    for entry in (item, held):
        assert any(said in message for message in found([entry]))


def test_the_command(tmp_path: Path) -> None:
    runner, file = CliRunner(), tmp_path / "templates" / "all.yaml"
    file.parent.mkdir()
    given = objects("aws")
    file.write_text(yaml.safe_dump_all(given))
    assert runner.invoke(build_program(), ["capi", "check", "-f", str(file.parent)]).exit_code == 0
    spec(given[1]).pop("uncompressedUserData")
    file.write_text(yaml.safe_dump_all(given))
    done = runner.invoke(build_program(), ["capi", "check", "-f", str(file.parent), "-o", "json"])
    (told,) = json.loads(done.stdout)
    assert (done.exit_code, told["severity"], told["file"]) == (1, "warning", str(file))
    assert told["field"] == "spec.template.spec.uncompressedUserData"
    assert runner.invoke(build_program(), ["capi", "check", "-f", str(tmp_path / "none")]).exit_code == 3
    (tmp_path / "empty").mkdir()
    assert runner.invoke(build_program(), ["capi", "check", "-f", str(tmp_path / "empty")]).exit_code == 3


def installation(dataplane: str | None = "HNS", bgp: str = "Disabled", **pool: Any) -> dict[str, Any]:
    network: dict[str, Any] = {"bgp": bgp, "ipPools": [{"cidr": "10.1.0.0/16", **pool}]}
    network |= {"windowsDataplane": dataplane} if dataplane else {}
    metadata = {"name": "default"}
    return {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "metadata": metadata,
        "spec": {"calicoNetwork": network},
    }


@pytest.mark.parametrize(
    ("item", "faulty"),
    [
        (installation(encapsulation="VXLAN"), False),
        (installation(encapsulation="VXLANCrossSubnet"), True),
        (installation(encapsulation="IPIP"), True),
        (installation(), True),
        (installation(encapsulation="None"), True),
        (installation(bgp="Enabled", encapsulation="None"), False),
        (installation(None, encapsulation="IPIP"), False),
        (installation("Disabled", encapsulation="IPIP"), False),
    ],
)
def test_pools_that_windows_cannot_use(item: dict[str, Any], faulty: bool) -> None:
    messages = found([item])
    assert bool(messages) == faulty
    assert all("spec.calicoNetwork.ipPools[0].encapsulation" in message for message in messages)


def test_ports_that_a_cluster_closes_are_reported_beside_windows_workers_alone() -> None:
    cluster = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster", "metadata": {"name": "prod"}}
    assert [message for message in found([*objects("aws"), cluster]) if "UDP 4789" in message]
    assert found([cluster]) == []
