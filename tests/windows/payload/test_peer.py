"""The shipped payload beside what the Windows Machine Config Operator puts on a host: each difference has its reason.

`peer.json` is the table that `peer.py` made of that operator's sources: each fact with file and line.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.workers.shipped import shipped

from transom.controllers.join.cluster_facts import EXPORTER, NODE_MANAGER
from transom.manifests.openshift import build_monitoring, build_node_manager
from transom.manifests.templates import resolve_template
from transom.sources.payload import parse_payload
from transom.windows.payload.payload import Payload, PayloadService

PEER = json.loads((Path(__file__).parent / "peer.json").read_text())
SERVICES = [service["name"] for service in PEER["services"]]

NO_DEBUG = "the peer's debug switch: LOG_VERBOSITY and LOG_LEVEL of ConfigMap windows-worker are that"
REASONS: dict[tuple[str, str], str] = {
    ("csi-proxy", "--v=4"): NO_DEBUG,
    ("kubelet", "--v=4"): NO_DEBUG,
    ("containerd", "--log-level=debug"): NO_DEBUG,
    ("hybrid-overlay-node", "--loglevel=5"): NO_DEBUG,
    ("containerd", "--log-level=info"): "LOG_LEVEL, whose default is info",
    ("windows_exporter", "--log.level=info"): "LOG_LEVEL, whose default is info",
    ("kubelet", "--v=2"): "LOG_VERBOSITY, whose default is 2",
    ("csi-proxy", "--v=2"): "LOG_VERBOSITY, whose default is 2",
    (
        "kubelet",
        r"--cert-dir=c:\var\lib\kubelet\pki\ ".strip(),
    ): "the same directory, spelled otherwise",
    ("kubelet", "--cloud-config"): "no cloud provider is in the kubelet since Kubernetes 1.31: the flag is gone",
    (
        "cloud-node-manager",
        r"--kubeconfig=C:\k\wicd-kubeconfig",
    ): "an account of its own: Nodes, and nothing else",
    ("cloud-node-manager", "dependsOn"): "it needs the Node, which the kubelet makes",
}
"""Of a flag by its name and value, or by its name alone; every one of them is used."""
FILES: dict[str, str] = {
    r"C:\Temp\gcp-get-hostname.ps1": "the Node's name is decided by the operator and given with --hostname-override",
    r"C:\Temp\windows-defender-exclusion.ps1": "a step of the preparation of Windows, not of a payload",
    r"C:\Temp\hns.psm1": "source-vip.ps1 calls HNS itself, and is run from Transom's own directory",
    r"C:\Temp\network-conf.ps1": "cni.conf and kube-proxy.conf are files of the payload; provider-address.ps1, source-vip.ps1",
}
DIRECTORIES: dict[str, str] = {
    r"C:\Temp": "scripts lie in Transom's own directory, where no ordinary user can change them",
    r"C:\var\log\wicd": "there is no daemon of an operator on the host",
    r"C:\k\wicd-certs": "there is no daemon of an operator on the host",
    r"C:\var\log": "made as the parent of others; it stays where something of somebody else lies in it",
}
KUBELET: dict[str, str] = {
    "ClusterDomain": "the cluster's own, where it is another one",
    "ClusterDNS": "the tenth address of the service network, as a variable",
    "RegisterWithTaints": "the same taint; the table has Go's expression",
    "Logging.FlushFrequency.SerializeAsString": "how Go writes the duration",
    "Logging.FlushFrequency.Duration": "the same duration, as logging.flushFrequency",
}
DEFAULTS = "containerd's own default (containerd config default, v1.7 and v2 on Windows)"
CONTAINERD: dict[str, str] = {
    "grpc|max_": DEFAULTS,
    "plugins|io.containerd.gc.v1.scheduler|": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|disable_tcp_service": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|drain_exec_sync_io_timeout": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|max_con": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|st": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|cni|ip_pref": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|image_decryption|": DEFAULTS,
    "plugins|io.containerd.internal.v1.": DEFAULTS,
    "plugins|io.containerd.metadata.v1.bolt|": DEFAULTS,
    "plugins|io.containerd.runtime.v2.task|": DEFAULTS,
    "plugins|io.containerd.service.v1.diff-service|": DEFAULTS,
    "stream_processors|": "decrypts images with a program that is in nobody's payload",
    "timeouts|": DEFAULTS,
    "plugins|io.containerd.grpc.v1.cri|sandbox_image": "a variable of ConfigMap windows-worker",
}
VARIABLES = {
    "⟨apiServerEndpoint⟩": "${API_SERVER}",
    "⟨vxlanPort⟩": "${VXLAN_PORT}",
    "node.openshift.io/os_id=Windows": "${NODE_LABELS}",
    "NODE_NAME": "${NODE_NAME}",
    "HOSTNAME_OVERRIDE": "${NODE_NAME}",
    "NODE_IP": "${NODE_IP}",
}
"""What stands in the peer's table, and the variable here that is the same."""


@pytest.fixture(scope="module")
def payload() -> Payload:
    return parse_payload(shipped("default").encode())


def commands(payload: Payload, service: PayloadService) -> str:
    """The command with the variables of the payload that are flags."""
    defaults = {
        variable.name: variable.default or ""
        for variable in payload.variables
        if variable.name in ("CREDENTIAL_PROVIDER", "LOG_ROTATION")
    }
    defaults["CLOUD_PROVIDER_ARGUMENT"] = "--cloud-provider=⟨cloudProvider⟩"
    return re.sub(r"\$\{(\w+)\}", lambda item: defaults.get(item[1], item[0]), service.command)


def flags(command: str) -> dict[str, str]:
    """Each flag with its value."""
    found, last = {}, ""
    for word in shlex.split(command.replace("\\", "\\\\"))[1:]:
        if word.startswith("-"):
            last, _, value = word.partition("=")
            found[last] = value
        elif last and not found[last]:
            found[last] = word
    return found


def differences(payload: Payload, name: str) -> Iterator[tuple[str, str]]:
    """What of a service of the peer is not the same here: the flag with its value, or the flag alone where it is missing."""
    peer = next(service for service in PEER["services"] if service["name"] == name)
    own = payload.find_service(name)
    assert own is not None, f"{name} of {peer['file']}:{peer['line']} is not in the payload"
    if own.order != peer["priority"]:
        yield name, "order"
    if list(own.depends_on) != peer["dependencies"]:
        yield name, "dependsOn"
    here = flags(commands(payload, own))
    for flag in peer["flags"]:
        value = VARIABLES.get(flag["value"], flag["value"])
        if flag["flag"] not in here:
            yield name, f"{flag['flag']}={value}" if flag.get("when") == "debug" else flag["flag"]
        elif here[flag["flag"]] != value:
            yield name, f"{flag['flag']}={value}"


def test_every_service_is_as_the_peers_or_has_a_reason(payload: Payload) -> None:
    found = {difference for name in SERVICES for difference in differences(payload, name)}
    assert found == set(REASONS)


@pytest.mark.parametrize("name", SERVICES)
def test_a_flag_that_goes_is_missed(payload: Payload, name: str) -> None:
    """Each flag taken out of the command in turn, and the test above fails."""
    own = payload.find_service(name)
    peer = next(service for service in PEER["services"] if service["name"] == name)
    assert own is not None
    before = set(differences(payload, name))
    for flag in {flag["flag"] for flag in peer["flags"]} & set(flags(own.command)):
        command = re.sub(rf"\s{re.escape(flag)}(=\S+|\s+[^-\s]\S*|)(?=\s|$)", "", own.command)
        assert flag not in flags(command)
        less = msgspec.structs.replace(own, command=command)
        services = tuple(less if service.name == name else service for service in payload.services)
        changed = msgspec.structs.replace(payload, services=services)
        assert set(differences(changed, name)) != before, flag


def test_no_flag_is_ours_alone(payload: Payload) -> None:
    for peer in PEER["services"]:
        own = payload.find_service(peer["name"])
        assert own is not None
        assert set(flags(commands(payload, own))) <= {flag["flag"] for flag in peer["flags"]}, peer["name"]


def test_no_service_is_ours_alone(payload: Payload) -> None:
    assert {service.name for service in payload.services} == set(SERVICES)


def test_who_makes_the_node_needs_nothing_of_it(payload: Payload) -> None:
    """The peer's word for it is `bootstrap`."""
    of_node = {variable.name for variable in payload.variables if variable.node or variable.script}
    for peer in PEER["services"]:
        own = payload.find_service(peer["name"])
        assert own is not None
        texts = [own.command, *(file.content or "" for file in payload.files if own.name in file.services)]
        needs = {name for text in texts for name in re.findall(r"\$\{(\w+)\}", text)} & of_node
        assert not (peer["bootstrap"] and needs), own.name


def test_files_and_directories(payload: Payload) -> None:
    ours = {file.path.casefold(): file.when.platforms for file in payload.files}
    missing = {file["path"] for file in PEER["files"] if file["path"].casefold() not in ours}
    assert missing == set(FILES)
    platforms = {"config.AWSPlatformType": ("AWS",), "config.AzurePlatformType": ("Azure",)}
    for item in PEER["files"]:
        if item["path"] not in missing:
            assert ours[item["path"].casefold()] == platforms.get(item.get("when", ""), ()), item["path"]
    directories = {path.casefold() for path in payload.directories}
    assert {directory["path"] for directory in PEER["directories"] if directory["path"].casefold() not in directories} == set(
        DIRECTORIES
    )


def content(payload: Payload, path: str) -> str:
    return next(file.content or "" for file in payload.files if file.path == path)


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from leaves(item, f"{prefix}{name}|")
    else:
        yield prefix[:-1], value


def test_the_kubelets_configuration(payload: Payload) -> None:
    ours = {
        name.casefold().replace("|", "."): value
        for name, value in leaves(yaml.safe_load(content(payload, r"C:\k\kubelet.conf")))
    }
    renamed = {"resolverconfig": "resolvconf"}
    wrong = set()
    for item in PEER["kubelet"]:
        name = item["field"].removeprefix("TypeMeta.").casefold()
        name = renamed.get(name, re.sub(r"core\.resource(cpu|memory)$", r"\1", name))
        name = name.replace("core.resourceephemeralstorage", "ephemeral-storage")
        if name not in ours or ours[name] != item["value"]:
            wrong.add(item["field"])
    assert wrong == set(KUBELET)


def test_containerds_configuration(payload: Payload) -> None:
    ours = dict(leaves(tomllib.loads(content(payload, r"C:\k\containerd\containerd_conf.toml"))))
    used = set()
    for entry in PEER["containerd"]:
        if entry["field"] in ours and ours[entry["field"]] == entry["value"]:
            continue
        if entry["field"] not in ours and not entry["value"]:
            # empty is the default
            continue
        prefix = next((prefix for prefix in CONTAINERD if entry["field"].startswith(prefix)), None)
        assert prefix is not None or entry["value"] == "0s", (
            f"{entry['field']} = {entry['value']!r}, {entry['file']}:{entry['line']}"
        )
        used.add(prefix)
    assert used - {None} == set(CONTAINERD)
    assert set(ours) <= {item["field"] for item in PEER["containerd"]}


def test_the_configuration_of_pods_networks(payload: Payload) -> None:
    text = content(payload, r"C:\k\cni\config\cni.conf")
    for variable, theirs in {
        "${SUBNET}": "ovn_host_subnet",
        "${SERVICE_CIDR}": "SERVICE_NETWORK_CIDR",
        "${PROVIDER_ADDRESS}": "provider_address",
        "OVNKubernetesHybridOverlayNetwork": "HNS_NETWORK",
    }.items():
        text = text.replace(variable, theirs)
    value = json.loads(text)
    policies = {f"policies|{item['value']['type']}": item["value"]["settings"] for item in value.pop("policies")}
    assert dict(leaves(value)) | policies == {item["field"]: item["value"] for item in PEER["cni"]}


def test_the_configuration_of_kube_proxy(payload: Payload) -> None:
    text = content(payload, r"C:\k\kube-proxy.conf")
    for variable, theirs in {
        "${SUBNET}": "$clusterCIDR",
        "${NODE_NAME}": "$hostnameOverride",
        "${SOURCE_VIP}": "$sourceVip",
        r"C:\k\kubeconfig": "$kubeConfigPath",
    }.items():
        text = text.replace(variable, theirs)
    ours = dict(leaves(yaml.safe_load(text)))
    empty = ("", None, 0, "0", "0s", False)
    theirs = {item["field"]: item["value"] for item in PEER["kube-proxy"] if item["value"] not in empty}
    verbosity = theirs.pop("logging|verbosity")
    assert (verbosity, ours) == ("$verbosity", theirs)


def test_the_exporter_serves_by_tls_and_asks_who_asks(payload: Payload) -> None:
    ours = dict(leaves(yaml.safe_load(content(payload, r"C:\k\tls\windows-exporter-webconfig.yaml"))))
    theirs = {item["field"]: item["value"].replace("\\\\", "\\") for item in PEER["exporter"]}
    more = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": r"C:\k\kubelet-ca.crt"}
    assert ours == theirs | {f"tls_server_config|{name}": value for name, value in more.items()}


def test_what_the_console_draws() -> None:
    objects = resolve_template(build_monitoring(), {}, "transom-system")
    (rule,) = (obj for obj in objects if obj["kind"] == "PrometheusRule")
    ours = {item["record"]: item["expr"] for item in rule["spec"]["groups"][0]["rules"]}
    theirs = {rule["record"]: rule["expr"] for rule in PEER["rules"]}
    # the peer's is the time in which the CPU has nothing to do
    assert theirs.pop("instance:node_cpu:rate:sum").count('mode="idle"') == 1
    assert ours.pop("instance:node_cpu:rate:sum").count('mode!="idle"') == 1
    assert ours == theirs


def test_the_exporter_is_who_its_monitor_asks_for() -> None:
    objects = resolve_template(build_monitoring(), {}, "somewhere")
    (service,) = (obj for obj in objects if obj["kind"] == "Service")
    (monitor,) = (obj for obj in objects if obj["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.somewhere.svc"
    annotations = service["metadata"]["annotations"]
    assert annotations["service.beta.openshift.io/serving-cert-secret-name"] == EXPORTER
    names = {(item["kind"], item["metadata"]["name"]) for item in resolve_template(build_node_manager(), {}, "somewhere")}
    assert ("Secret", NODE_MANAGER) in names
