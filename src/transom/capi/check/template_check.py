"""Findings in a user's own objects and image files for Windows workers, from upstream behaviour (`upstream.FACTS`)."""

import base64
import binascii
import fnmatch
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from transom.capi.bootstrap import windows_proxy
from transom.capi.check import upstream, upstream_pools
from transom.capi.check.calico_check import find_calico_faults
from transom.capi.check.ports_between_nodes import VXLAN, find_closed_ports
from transom.capi.providers.provider import Examine, Object
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker.machine_commands import find_command_problems
from transom.common.mappings import get_nested_value
from transom.proxy.finding import Finding, Path, Severity, format_field_path

CRI_SOCKET = "npipe:////./pipe/containerd-containerd"
CONTENT = 10_240
_MAX_UNPACKED = 1 << 20
"""Bytes of a packed file that are looked through."""
"""The longest content of a file in a KubeadmConfigTemplate, in characters (Cluster API's definitions)."""
_USERINFO = re.compile(r"https?://[^\s/@\"']+:[^\s/@\"']+@")

_FAULTS: Mapping[str, Examine] = {
    **{provider.template: provider.faults for provider in PROVIDERS.values()},
    **{provider.pool.kind: provider.pool.faults for provider in PROVIDERS.values() if provider.pool},
}
"""By the kind of a machine template or a pool."""


class SourceObject(msgspec.Struct, frozen=True):
    """An object and the file that it was read from."""

    file: str
    object: Object


def check_templates(objects: Iterable[SourceObject], files: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding: of objects of both clusters, then of files of an image's build, by their names."""
    given_objects = list(objects)
    windows = [item for item in given_objects if _is_bootstrap(item.object) and _is_windows(item.object)]
    for element in windows:
        yield from _check_bootstrap(element)
    configurations = {_get_object_key(window.object): window for window in windows}
    machines = {
        _get_object_key(item.object): item
        for item in given_objects
        if re.search("MachineTemplate$|.MachinePool$", _get_kind(item.object))
    }
    scale_sets: dict[tuple[str, str], str] = {}
    for member in given_objects:
        if member.object.get("kind") not in ("MachineDeployment", "MachinePool"):
            continue
        spec = get_nested_value(member.object, "spec", "template", "spec") or {}
        configuration = configurations.get(_get_reference_key(member.object, spec.get("bootstrap", {}).get("configRef")))
        machine = machines.get(_get_reference_key(member.object, spec.get("infrastructureRef")))
        if configuration is not None and machine is not None:
            yield from _check_machine(machine, configuration)
            yield from (
                _check_machine_names(member, machine)
                if _get_kind(member.object) == "MachineDeployment"
                else _check_pool(member, machine, scale_sets)
            )
    for value in given_objects:
        yield from _check_daemons(value)
    if windows:
        for entry in given_objects:
            for path, port in find_closed_ports(entry.object, (VXLAN,)):
                message = f"closed between nodes: {port}, which overlay networks of Windows use"
                yield _build_finding(entry, "warning", path, message)
    for given_object in given_objects:
        yield from _check_calico(given_object)
    for name, text in files.items():
        yield from _check_script(name, text)


def _build_finding(given_object: SourceObject, severity: Severity, path: Path, message: str) -> Finding:
    name = given_object.object.get("metadata", {}).get("name", "")
    return Finding(
        severity, given_object.file, f"{given_object.object.get('kind', '')}/{name}", format_field_path(path), message
    )


def _is_bootstrap(item: Object) -> bool:
    return item.get("kind") in ("KubeadmConfigTemplate", "KubeadmConfig")


def _get_kind(item: Object) -> str:
    return str(item.get("kind", ""))


def _get_spec_path(item: Object) -> tuple[str, ...]:
    return ("spec", "template", "spec") if _get_kind(item).endswith("Template") else ("spec",)


def _is_windows(item: Object) -> bool:
    spec = get_nested_value(item, *_get_spec_path(item)) or {}
    socket = str(get_nested_value(spec, "joinConfiguration", "nodeRegistration", "criSocket") or "")
    paths = [str(file.get("path", "")) for file in spec.get("files") or ()]
    return socket.startswith("npipe:") or any(re.match(r"[A-Za-z]:[\\/]", path) for path in paths)


def _check_bootstrap(given_object: SourceObject) -> Iterator[Finding]:
    place = _get_spec_path(given_object.object)
    spec = get_nested_value(given_object.object, *place) or {}
    if spec.get("format", "cloud-config") != "cloud-config":
        yield _build_finding(given_object, "error", (*place, "format"), "cloudbase-init reads cloud-config alone")
    registration = ("joinConfiguration", "nodeRegistration")
    socket = get_nested_value(spec, *registration, "criSocket")
    if socket != CRI_SOCKET:
        yield _build_finding(
            given_object, "error", (*place, *registration, "criSocket"), f"{socket!r}: containerd on Windows has {CRI_SOCKET}"
        )
    for field in ("preKubeadmCommands", "postKubeadmCommands"):
        for index, command in enumerate(spec.get(field) or ()):
            for problem in find_command_problems(str(command)) if command != windows_proxy.OR_STOP else ():
                yield _build_finding(given_object, "error", (*place, field, index), problem)
            following = (*(spec.get(field) or ()), "")[index + 1]
            if command == windows_proxy.BEFORE_JOIN and following != windows_proxy.OR_STOP:
                message = f"a proxy that could not be set does not stop the join: {windows_proxy.OR_STOP!r} after it"
                yield _build_finding(given_object, "error", (*place, field, index), message)
    for index, file in enumerate(spec.get("files") or ()):
        for field, severity, message in _check_file(file):
            yield _build_finding(given_object, severity, (*place, "files", index, field), message)


def _check_file(file: Object) -> Iterator[tuple[str, Severity, str]]:
    content, path = str(file.get("content", "")), str(file.get("path", ""))
    if len(content) > CONTENT:
        yield (
            "content",
            "error",
            f"{len(content):,} characters; a file's content has at most {CONTENT:,}: take it from a Secret",
        )
    if not file.get("encoding") and any(mark in content for mark in ("{{", "{%", "{#")):
        yield "content", "warning", "cloudbase-init reads this as a template: put it into base64, with `encoding: base64`"
    if "permissions" in file and not re.fullmatch(r"0[0-7]{3}", str(file["permissions"])):
        yield "permissions", "error", f"{file['permissions']!r}: four octal digits in quotes, like '0644'"
    text = content
    if file.get("encoding") in ("base64", "gzip+base64") and "contentFrom" not in file:
        try:
            data = base64.b64decode(content, validate=True)
            text = (_read_gzip_prefix(data) if file["encoding"] == "gzip+base64" else data).decode("utf-8", "replace")
        except (binascii.Error, OSError, EOFError, zlib.error):
            yield "content", "error", f"this is no {file['encoding']}"
            return
    if _USERINFO.search(text):
        yield "content", "error", "an URL with user and password: who may read the template reads it; take it from a Secret"
    flag = upstream.RUNTIME_ENDPOINT.value
    if path.casefold().endswith("kubelet-arguments.txt") and flag.partition("=")[0] not in text:
        yield "content", "error", f"up to Kubernetes 1.35 the kubelet need not find containerd without {flag}"


def _read_gzip_prefix(data: bytes) -> bytes:
    """Return the beginning of what is gzipped: a few kilobytes may become gigabytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
        return unpacked.read(_MAX_UNPACKED)


def _check_machine(given_object: SourceObject, configuration: SourceObject) -> Iterator[Finding]:
    place = _get_spec_path(given_object.object)
    spec = get_nested_value(given_object.object, *place) or {}
    faults = _FAULTS.get(_get_kind(given_object.object))
    bootstrap = get_nested_value(configuration.object, *_get_spec_path(configuration.object)) or {}
    for path, severity, message in faults(spec, bootstrap) if faults else ():
        yield _build_finding(given_object, severity, (*place, *path), message)


def _check_machine_names(given_object: SourceObject, machine: SourceObject) -> Iterator[Finding]:
    naming = get_nested_value(given_object.object, "spec", "machineNaming", "template") or get_nested_value(
        given_object.object, "spec", "machineNamingStrategy", "template"
    )
    prefix = re.sub(r"-?\{\{.*", "", str(naming)) if naming else None
    longest = int(upstream.VSPHERE_NAMES.value)
    if prefix is None or len(prefix) + 6 > longest:
        kind = str(machine.object.get("kind"))
        severity: Severity = "error" if kind == "AzureMachineTemplate" and prefix is not None else "warning"
        message = (
            f"a Windows computer's name has at most {longest} characters: a prefix of {longest - 6}, by machineNaming.template"
        )
        yield _build_finding(given_object, severity, ("spec", "machineNaming"), message)


def _check_pool(given_object: SourceObject, machine: SourceObject, scale_sets: dict[tuple[str, str], str]) -> Iterator[Finding]:
    """`scale_sets` are the names that pools of a cluster got before, by the cluster's name and theirs."""
    spec = get_nested_value(given_object.object, "spec") or {}
    if _get_kind(machine.object) == "AWSMachinePool":
        for message in _check_pool_replicas(spec, get_nested_value(machine.object, "spec") or {}):
            yield _build_finding(given_object, "error", ("spec", "replicas"), message)
    if _get_kind(machine.object) != "AzureMachinePool":
        return
    name = str(get_nested_value(machine.object, "metadata", "name"))
    called = _build_scale_set_name(name)
    other = scale_sets.setdefault((str(spec.get("clusterName")), called), name)
    if other != name:
        message = f"CAPZ calls its scale set {called}, and that of {other}, too"
        yield _build_finding(machine, "error", ("metadata", "name"), message)
    elif called != name:
        message = f"CAPZ calls its scale set and computers {called}: at most {upstream_pools.AZURE_POOL_NAME.value} characters"
        yield _build_finding(machine, "warning", ("metadata", "name"), message)


def _check_pool_replicas(spec: Object, pool: Object) -> Iterator[str]:
    """Check a MachinePool's `spec` and that of its AWSMachinePool."""
    wanted, smallest, largest = spec.get("replicas", 1), pool.get("minSize", 1), pool.get("maxSize", 1)
    if all(isinstance(number, int) for number in (wanted, smallest, largest)) and not smallest <= wanted <= largest:
        yield f"{wanted}: CAPA makes no pool where minSize is {smallest} and maxSize {largest}"


def _build_scale_set_name(name: str) -> str:
    """Return CAPZ's name of the scale set for Windows, with which the names of its computers begin."""
    return name if len(name) <= int(upstream_pools.AZURE_POOL_NAME.value) else "win-" + name[-5:]


def _check_daemons(given_object: SourceObject) -> Iterator[Finding]:
    """DaemonSets for Windows, those in a ConfigMap of a ClusterResourceSet too."""
    item = given_object.object
    if item.get("kind") == "ConfigMap":
        for text in (item.get("data") or {}).values():
            inner = _parse_document(str(text))
            if inner is not None:
                yield from _check_daemons(SourceObject(given_object.file, inner))
    spec = get_nested_value(item, "spec", "template", "spec") or {}
    if item.get("kind") != "DaemonSet" or get_nested_value(spec, "nodeSelector", "kubernetes.io/os") != "windows":
        return
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = ("spec", "template", "spec", field, index)
            names = {str(variable.get("name")) for variable in container.get("env") or ()}
            image = str(container.get("image", ""))
            if "kube-proxy" in image and "-hostprocess" in image and upstream.KUBE_PROXY_NODE.value not in names:
                message = f"kube-proxy's image takes the Node's name from {upstream.KUBE_PROXY_NODE.value}, else the computer's"
                yield _build_finding(given_object, "error", (*path, "env"), message)
            if "kube-proxy" in image and image.endswith("-flannel-hostprocess"):
                yield _build_finding(
                    given_object, "error", (*path, "image"), f"{image}: no longer built; use -calico-hostprocess"
                )
            if "calico-install" in image and not {"CNI_BIN_DIR", "CNI_CONF_DIR"} <= names:
                message = "without CNI_BIN_DIR and CNI_CONF_DIR a newer image removes all files of the node's drive"
                yield _build_finding(given_object, "error", (*path, "env"), message)
            if "calico-install" in image or "calico-node" in image:
                message = "sig-windows-tools has withdrawn this: Calico's operator does it, with windowsDataplane: HNS"
                yield _build_finding(given_object, "warning", (*path, "image"), message)


def _check_calico(given_object: SourceObject) -> Iterator[Finding]:
    """Check an Installation of Calico's operator that is meant for Windows nodes."""
    network = get_nested_value(given_object.object, "spec", "calicoNetwork") or {}
    if given_object.object.get("kind") != "Installation" or get_nested_value(network, "windowsDataplane") in (None, "Disabled"):
        return
    for path, message in find_calico_faults(network):
        yield _build_finding(given_object, "error", ("spec", "calicoNetwork", *path), message)


def _parse_document(text: str) -> Object | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


class _Rule(msgspec.Struct, frozen=True):
    """A file of that name is wrong where `has` is found in it, and `lacks` is not."""

    name: str
    has: str
    lacks: str
    message: str
    severity: Severity = "error"


_TAG = upstream.OPENSSH_TAG.value
_IMAGE_NAME = r'image_name +=.*stamp(?s:.*)"openstack"|"openstack"(?s:.*)image_name +=.*stamp'
_SYSPREP = r"(?i)^(?!#).*Sysprep\.exe(?s:.*)/quit\b"
_REPORTED = r"(?mi)^metadata_report_provisioning_completed=true"
_HCL, _SCRIPT, _EARLY, _SERVICE = "*.pkr.hcl", "*.ps1", "*-unattend.conf", "cloudbase-init.conf"
_RULES = (
    _Rule(_HCL, rf"/v{re.escape(_TAG)}/", "", f"OpenSSH's release has the tag {_TAG}, without a v"),
    _Rule(_HCL, r'(?:user_data_file|source) += "(?:scripts|downloads)/', "", "found from this directory alone: ${path.root}/…"),
    _Rule(_HCL, '"amazon-ebs"', upstream.AWS_STOP.value, "sysprep stops the instance: disable_stop_instance = true"),
    _Rule(_HCL, '"vsphere-', upstream.VSPHERE_SHUTDOWN.value, "sysprep has to be the builder's shutdown_command"),
    _Rule(_HCL, _IMAGE_NAME, "", "CAPO wants the exact name"),
    _Rule(_SCRIPT, _SYSPREP, upstream.GENERALIZED.value, f"not awaited: wait for {upstream.GENERALIZED.value}"),
    _Rule(_SCRIPT, "--windows-service", "--container-runtime-endpoint|kube-proxy", f"no {upstream.RUNTIME_ENDPOINT.value}"),
    _Rule(_SCRIPT, "--windows-service", f"{upstream.LOG_RUNNER.value}|kube-proxy", "the kubelet's log is lost", "warning"),
    _Rule(_SCRIPT, r"Invoke-WebRequest.*-Proxy|\['Proxy'\]", "", "user and password of the proxy are not sent: use curl.exe"),
    _Rule(_SCRIPT, "Get-AuthenticodeSignature", "SignerCertificate", "any publisher's signature will do: compare the signer"),
    _Rule(_EARLY, r"\[DEFAULT\]", r"(?m)^allow_reboot=false", "a restart inside Setup ends it: allow_reboot=false"),
    _Rule(_EARLY, r"^logfile=cloudbase-init\.log", "", "both runs write one log: another logfile"),
    _Rule(_SERVICE, "AzureService", _REPORTED, "Azure waits for metadata_report_provisioning_completed=true"),
    _Rule(_SERVICE, "AzureService", "AzureGuestAgentPlugin", "Azure's agent is not installed", "warning"),
    _Rule(_SERVICE, "VMwareGuestInfo", "NetworkConfigPlugin", "static addresses are not applied", "warning"),
    _Rule(_SERVICE, r"\.ec2service\.EC2Service", "", "no user data is read without a key pair", "warning"),
    _Rule(_SERVICE, r"\[DEFAULT\]", "SetUserPasswordPlugin", "Administrator keeps the build's password", "warning"),
    _Rule("sshd_config", r"(?i)^Match Group administrators", "", "keys in .ssh of administrators are not read", "warning"),
)


def _check_script(name: str, text: str) -> Iterator[Finding]:
    for rule in _RULES:
        match = re.search(rule.has, text, re.MULTILINE)
        named = fnmatch.fnmatchcase(name.rpartition("/")[2], rule.name)
        if named and match and not (rule.lacks and re.search(rule.lacks, text)):
            yield Finding(rule.severity, name, "", "", rule.message, text[: match.start()].count("\n") + 1, 1)


def _get_object_key(item: Object) -> tuple[str, str, str]:
    metadata = item.get("metadata") or {}
    return str(item.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _get_reference_key(item: Object, reference: Any) -> tuple[str, str, str]:
    fields = reference if isinstance(reference, Mapping) else {}
    return str(fields.get("kind")), str((item.get("metadata") or {}).get("namespace") or ""), str(fields.get("name"))
