"""What is wrong with the machines of workload clusters: kinds without entries, labels without effect, foreign drop-ins.

And what a machine fetches before it has its bootstrap data with the settings. Pure.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.injection import list_foreign_drop_ins
from transom.capi.bootstrap.machine_files import is_own_path
from transom.capi.bootstrap.machine_index import (
    MachineIndex,
    MachineTemplate,
    build_machine_template,
    find_control_plane_kind,
    get_machine_spec,
    is_worker,
    list_bootstrap_kinds,
    list_unmanaged_kinds,
)
from transom.capi.bootstrap.machine_kinds import (
    CONTROL_PLANES,
    EDITED,
    SPEC_PATHS,
    MachineFamily,
    MachineKinds,
    get_spec_path,
    is_known_bootstrap,
    needs_entries,
    sanitize_kind,
)
from transom.capi.bootstrap.template_patches import build_entries
from transom.capi.bootstrap.windows_proxy import PROXY_CMD
from transom.capi.values.cluster_identity import InvalidIdentity, build_systemd_name, get_cluster_id
from transom.capi.values.cluster_objects import get_namespaced_name
from transom.common.escaping import escape_name
from transom.common.mappings import get_nested_value
from transom.proxy.finding import Finding, Path
from transom.proxy.no_proxy import split
from transom.proxy.objects import Cluster, MachineObject, SettingsObjects
from transom.proxy.settings import Egress, ResolvedSettings
from transom.proxy.trust import format_pem
from transom.proxy.url import parse


def describe_unsupported(kinds: Iterable[str]) -> str:
    """Return that Transom has no entries for machines of these kinds, and what to do."""
    return (
        f"Transom has no entries for machines of {', '.join(kinds)}: configure the proxy and the CAs there by hand "
        "(docs/limits.md lists the kinds)"
    )


def describe_missing_class(name: str) -> str:
    """Return that a ClusterClass is not known, so that nothing can be said about its machines."""
    return f"ClusterClass {escape_name(name)} is not known here: Transom cannot tell whether it has entries for its machines"


TALOS_IN_CLASS: Final = (
    "Talos' templates contain the values of one cluster, and the patch of a ClusterClass is for all: use variables of your own"
)


def examine_machines(objects: SettingsObjects, settings: ResolvedSettings) -> Iterator[Finding]:
    """Yield a warning for everything that keeps the settings from machines of the clusters."""
    index = MachineIndex(objects.machine_objects)
    classes: dict[str, Finding] = {}
    missing: dict[tuple[str, str], Finding] = {}
    for cluster in objects.clusters:
        egress = settings.clusters.get(get_namespaced_name(cluster))
        if egress is None or not needs_entries(egress):
            continue
        yield from _check_kinds(cluster, index)
        for finding in _check_class_kinds(cluster, index):
            classes.setdefault(finding.object, finding)
        yield from _check_foreign_drop_ins(cluster, egress, index)
        yield from _check_fetches(cluster, egress, index)
        for finding in _check_missing_entries(cluster, egress, index):
            missing.setdefault((finding.object, finding.field), finding)
    yield from missing.values()
    yield from classes.values()
    yield from _check_workers_without_cluster(objects)
    yield from _check_ineffective_labels(objects.machine_objects)


def _check_kinds(cluster: Cluster, index: MachineIndex) -> Iterator[Finding]:
    if cluster.control_plane and cluster.control_plane not in CONTROL_PLANES:
        yield cluster.place.build_warning(
            ("spec", "controlPlaneRef", "kind"), describe_unsupported([sanitize_kind(cluster.control_plane)])
        )
    if missing := index.find_missing_class_name(cluster):
        yield cluster.place.build_warning(("spec", "topology"), describe_missing_class(missing))
    for item in index.list_workers(cluster):
        path: Path = ("spec", *(() if item.kind == "Machine" else ("template", "spec")), "bootstrap", "configRef", "kind")
        template = get_machine_spec(item)
        kind = get_nested_value(template, "bootstrap", "configRef", "kind")
        if not isinstance(kind, str) or not kind:
            infrastructure = str(get_nested_value(template, "infrastructureRef", "kind") or item.kind)
            message = f"no bootstrap configuration: {describe_unsupported([sanitize_kind(infrastructure)])}"
            yield item.place.build_warning(path, message)
        elif index.is_bootstrap_ignored(item):
            infrastructure = str(get_nested_value(template, "infrastructureRef", "kind"))
            message = f"{sanitize_kind(infrastructure)} ignores it: {describe_unsupported([sanitize_kind(infrastructure)])}"
            if infrastructure == "AWSManagedMachinePool":
                message = "EKS ignores it without spec.awsLaunchTemplate of the AWSManagedMachinePool: set awsLaunchTemplate"
            yield item.place.build_warning(path, message)
        elif not is_known_bootstrap(kind):
            yield item.place.build_warning(path, describe_unsupported([sanitize_kind(kind)]))
    for item in index.list_pools_without_machines(cluster):
        yield item.place.build_warning(("spec",), describe_unsupported([item.kind]))


def _check_class_kinds(cluster: Cluster, index: MachineIndex) -> Iterator[Finding]:
    own_class = index.find_cluster_class(cluster)
    if own_class is not None:
        kinds = MachineKinds(
            find_control_plane_kind(own_class),
            tuple(list_bootstrap_kinds(own_class)),
            tuple(list_unmanaged_kinds(own_class)),
        )
        if kinds.unsupported:
            yield own_class.place.build_warning(("spec",), describe_unsupported(kinds.unsupported))
        elif MachineFamily.TALOS in kinds.families:
            yield own_class.place.build_warning(("spec",), TALOS_IN_CLASS)


def _check_workers_without_cluster(objects: SettingsObjects) -> Iterator[Finding]:
    """Warn of workers whose Cluster is in another namespace: Cluster API and Transom look in their own."""
    places = {get_namespaced_name(cluster) for cluster in objects.clusters}
    names = {name for _, name in places}
    for item in objects.machine_objects:
        name = get_nested_value(item.spec, "clusterName")
        if is_worker(item) and name in names and (item.namespace, name) not in places:
            message = (
                f"namespace {item.namespace} has no Cluster of that name: Transom reads workers in the Cluster's namespace"
            )
            yield item.place.build_warning(("spec", "clusterName"), message)


def _check_ineffective_labels(objects: tuple[MachineObject, ...]) -> Iterator[Finding]:
    """Warn of objects that request entries and are not edited: another kind, or a Cluster without a class."""
    of_machines = _list_machine_configs(objects)
    for item in objects:
        if not item.inject or ((item.group, item.kind) in EDITED and (item.namespace, item.name) not in of_machines):
            continue
        if (item.group, item.kind) == ("cluster.x-k8s.io", "Cluster"):
            if get_nested_value(item.spec, "topology"):
                continue
            message = "has no effect on a Cluster without a ClusterClass: put it on its templates and control plane"
        else:
            message = f"has no effect: Transom does not edit objects of the kind {item.kind}"
            if (item.group, item.kind) in EDITED:
                message = "has no effect: Transom edits the KubeadmConfig of a MachinePool, not that of a Machine"
            if is_known_bootstrap(item.kind) or item.kind in CONTROL_PLANES:
                message += "; `transom render --machine-templates entries` prints what to commit"
        yield item.place.build_warning(("metadata", item.inject, "transom.dev/inject"), message)


_MISSING: Final = "Transom's entries are missing, so that machines start without the proxy and the CAs"
_PRINTED: Final = "`transom render --machine-templates {}` prints what to commit"


def _check_missing_entries(cluster: Cluster, egress: Egress, index: MachineIndex) -> Iterator[Finding]:
    """Warn of templates that have no entries and do not request them: Transom does not edit those."""
    try:
        secret = build_systemd_name(get_cluster_id(cluster), own_name=egress.own_drop_in)
    except InvalidIdentity:
        # the examination reports it
        return
    own_class = index.find_cluster_class(cluster)
    if own_class is not None:
        templates = [item.template for item in index.list_class_templates(own_class)]
        patched = "-systemd-proxy" in json.dumps(get_nested_value(own_class.spec, "patches"), default=str)
        if templates and not patched and not all(_has_entries(item, secret) for item in templates):
            message = f"{_MISSING}: {_PRINTED.format('cluster-class')}"
            yield own_class.place.build_warning(("spec", "patches"), message)
        return
    of_machines = _list_machine_configs(index.objects) if index.list_workers(cluster) else set()
    for template in index.list_templates(cluster):
        known = index.find_object(template.namespace, template.kind, template.name)
        if known is None or index.has_cluster_class(cluster) or _has_entries(template, secret):
            continue
        is_edited = (known.group, known.kind) in EDITED and (known.namespace, known.name) not in of_machines
        if known.inject and is_edited:
            continue
        remedy = "set label transom.dev/inject, or commit what `transom render --machine-templates entries` prints"
        message = f"{_MISSING}: {remedy if is_edited else _PRINTED.format('entries')}"
        yield known.place.build_warning(("metadata", "labels"), message)


def _has_entries(template: MachineTemplate, secret: str) -> bool:
    """Return True if a template refers to Transom's Secret, has its CAs, or, for Talos, sets a proxy or CAs itself."""
    if template.family is MachineFamily.TALOS:
        return any(name in json.dumps(template.content, default=str) for name in ("_proxy", "TrustedRootsConfig"))
    files = template.content.get("files")
    return any(_is_own_file(file, secret) for file in (files if isinstance(files, list) else ()))


def _list_machine_configs(objects: Iterable[MachineObject]) -> set[tuple[str, str]]:
    """Return namespace and name of the KubeadmConfigs that Machines without an owner refer to: Transom does not edit them."""
    machines = (item for item in objects if item.kind == "Machine" and is_worker(item))
    references = ((item.namespace, get_nested_value(item.spec, "bootstrap", "configRef")) for item in machines)
    return {
        (namespace, str(get_nested_value(item, "name")))
        for namespace, item in references
        if get_nested_value(item, "kind") == "KubeadmConfig"
    }


def _check_foreign_drop_ins(cluster: Cluster, egress: Egress, index: MachineIndex) -> Iterator[Finding]:
    try:
        identity = get_cluster_id(cluster)
    except InvalidIdentity:
        # the examination reports it
        return
    secret = build_systemd_name(identity, own_name=egress.own_drop_in)
    for item in index.list_objects(cluster):
        template = build_machine_template(item)
        listed = template.content.get("files") if template is not None else None
        if template is None or not isinstance(listed, list):
            continue
        files = [file for file in listed if isinstance(file, dict)]
        paths = {file.path for file in build_entries(template, identity, egress).files}
        ours = [file for file in files if _is_own_file(file, secret)]
        foreign = [str(file.get("path")) for file in files if file.get("path") in paths and file not in ours]
        foreign += list_foreign_drop_ins(files, paths, ours)
        for path in foreign:
            number = next(at for at, file in enumerate(listed) if isinstance(file, dict) and file.get("path") == path)
            message = "sets a proxy for a service that gets Transom's drop-in, and systemd uses the last one by name: remove it"
            below = get_spec_path(item.kind)
            yield item.place.build_warning(("spec", *below, "files", number, "path"), message)


def _is_own_file(file: Any, secret: str) -> bool:
    """Return True for a file of the cluster's Secrets, or one that Transom writes itself."""
    names = (secret, secret.replace("-systemd-", "-windows-"))
    path = str(get_nested_value(file, "path"))
    return get_nested_value(file, "contentFrom", "secret", "name") in names or is_own_path(path) or path == PROXY_CMD


class MachineFetch(msgspec.Struct, frozen=True):
    """How a machine fetches its bootstrap data before any file of that data exists."""

    store: str
    path: tuple[str, ...]
    """The field, below `spec` of the template, that decides it."""
    ignition: bool = False


_IGNITION_PROXY_SINCE: Final = (3, 1)
"""kubernetes-sigs/cluster-api-provider-aws v2.13.0, api/v1beta2/awsmachine_types.go: proxy and TLS of Ignition."""
_IGNITION_DEFAULT: Final = "2.3"
_MOST_NO_PROXY: Final = 64
_LONGEST_CA: Final = 65_536
"""Limits of `ignition.proxy.noProxy` and `ignition.tls.certificateAuthorities` there."""


def find_machine_fetch(kind: str, spec: Any, *, ignition_format: bool = False) -> MachineFetch | None:
    """Return how machines of a template fetch their bootstrap data; None if the cloud's metadata service has all of it.

    kubernetes-sigs/cluster-api-provider-aws v2.13.0, pkg/cloud/scope/machine.go, `UseSecretsManager` and `UseIgnition`;
    exp/api/v1beta2/awsmachinepool_types.go: a pool without Ignition has its user data in its launch template. Azure, GCP,
    OpenStack, vSphere and Nutanix hand the whole data over by metadata service, configuration drive or guestinfo.
    """
    ignition = get_nested_value(spec, "ignition")
    if kind == "AWSMachineTemplate" and ignition is None and not ignition_format:
        cloud_init = get_nested_value(spec, "cloudInit")
        if get_nested_value(cloud_init, "insecureSkipSecretsManager") is True:
            return None
        parameters = get_nested_value(cloud_init, "secureSecretsBackend") == "ssm-parameter-store"
        return MachineFetch("AWS Systems Manager" if parameters else "AWS Secrets Manager", ("cloudInit",))
    if kind in ("AWSMachineTemplate", "AWSMachinePool") and (ignition is not None or ignition_format):
        if get_nested_value(ignition, "storageType") == "UnencryptedUserData":
            return None
        return MachineFetch("S3", ("ignition",), ignition=True)
    return None


def _iter_fetching_templates(
    cluster: Cluster, index: MachineIndex
) -> Iterator[tuple[MachineObject, tuple[str, ...], MachineFetch]]:
    """Yield the templates of a cluster's machines that fetch their bootstrap data, with the path of their spec."""
    ignition_users = _list_ignition_users(cluster, index)
    for item in index.list_objects(cluster):
        below = () if item.kind == "AWSMachinePool" else ("template", "spec")
        ignition_format = (item.kind, item.name) in ignition_users
        fetch = find_machine_fetch(item.kind, get_nested_value(item.spec, *below), ignition_format=ignition_format)
        if fetch is not None:
            yield item, below, fetch


def _list_ignition_users(cluster: Cluster, index: MachineIndex) -> set[tuple[str, str]]:
    """Return kind and name of the infrastructure templates whose bootstrap configuration has the format Ignition."""
    namespace = cluster.metadata.namespace or ""
    pairs = []
    control_plane = index.find_kubeadm_control_plane(cluster) or index.find_object(
        namespace, cluster.control_plane, cluster.control_plane_name
    )
    if control_plane is not None and control_plane.kind in SPEC_PATHS:
        template = get_nested_value(control_plane.spec, "machineTemplate")
        reference = get_nested_value(template, "spec", "infrastructureRef") or get_nested_value(template, "infrastructureRef")
        pairs.append((get_nested_value(control_plane.spec, *SPEC_PATHS[control_plane.kind]), reference))
    for item in index.list_workers(cluster):
        part = get_machine_spec(item)
        reference = get_nested_value(part, "bootstrap", "configRef")
        config = index.find_object(namespace, get_nested_value(reference, "kind"), get_nested_value(reference, "name"))
        if config is not None:
            pairs.append(
                (get_nested_value(config.spec, *SPEC_PATHS.get(config.kind, ())), get_nested_value(part, "infrastructureRef"))
            )
    return {
        (str(get_nested_value(reference, "kind")), str(get_nested_value(reference, "name")))
        for spec, reference in pairs
        # RKE2 has it in its agentConfig
        if "ignition" in (get_nested_value(spec, "format"), get_nested_value(spec, "agentConfig", "format"))
    }


def _check_fetches(cluster: Cluster, egress: Egress, index: MachineIndex) -> Iterator[Finding]:
    if not (egress.http_proxy or egress.https_proxy):
        return
    for item, below, fetch in _iter_fetching_templates(cluster, index):
        path: Path = ("spec", *below, *fetch.path)
        start = (
            f"machines of {cluster.place.object} fetch their bootstrap data from {fetch.store} before the proxy is configured"
        )
        page = "see docs/machine-templates.md"
        if not fetch.ignition:
            message = f"{start}: they need a VPC endpoint, or insecureSkipSecretsManager; {page}"
            yield item.place.build_warning(path, message)
            continue
        ignition = get_nested_value(item.spec, *below, "ignition")
        version = str(get_nested_value(ignition, "version") or _IGNITION_DEFAULT)
        configured = get_nested_value(ignition, "proxy") is not None
        if configured and not _has_proxy(version):
            yield item.place.build_warning(
                (*path, "version"), f"Ignition {version} ignores `proxy` and `tls`: set 3.1 or newer"
            )
        elif not configured:
            remedy = "set ignition.proxy and ignition.tls with version 3.1 or newer, or use a VPC endpoint"
            if any(url is not None and parse(url.reveal()).username for url in (egress.http_proxy, egress.https_proxy)):
                remedy = "user data must not contain the proxy's password, so they need a VPC endpoint for S3"
            message = f"{start}: {remedy}; {page}"
            yield item.place.build_warning(path, message)
        elif egress.trust and get_nested_value(ignition, "tls") is None:
            message = f"{start}, and without the CAs: set ignition.tls if the proxy decrypts TLS; {page}"
            yield item.place.build_warning(path, message)


def _has_proxy(version: str) -> bool:
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return numbers >= _IGNITION_PROXY_SINCE


def iter_first_boot_entries(cluster: Cluster, egress: Egress, index: MachineIndex) -> Iterator[dict[str, Any]]:
    """Yield the parts of AWSMachineTemplates by which Ignition itself uses the proxy and trusts the CAs.

    They contain no credentials: user data must not contain any. A list of NO_PROXY that is too long for the field is omitted,
    because the fetch needs none.
    """
    if not needs_entries(egress):
        return
    for item, below, fetch in _iter_fetching_templates(cluster, index):
        if not fetch.ignition:
            continue
        ignition: dict[str, Any] = {"version": _IGNITION_VERSION}
        urls = {"httpProxy": egress.http_proxy, "httpsProxy": egress.https_proxy}
        proxy: dict[str, Any] = {name: _without_credentials(url.reveal()) for name, url in urls.items() if url}
        if proxy:
            items = split(egress.no_proxy)
            ignition["proxy"] = proxy | ({"noProxy": items} if items and len(items) <= _MOST_NO_PROXY else {})
        sources = [_build_data_url(format_pem([certificate])) for certificate in egress.trust]
        if sources and len(sources) <= _MOST_NO_PROXY and max(map(len, sources)) <= _LONGEST_CA:
            ignition["tls"] = {"certificateAuthorities": sources}
        spec: dict[str, Any] = {"ignition": ignition}
        for key in reversed(below):
            spec = {key: spec}
        yield {
            "apiVersion": f"{item.group}/v1beta2",
            "kind": item.kind,
            "metadata": {"name": item.name, "namespace": item.namespace},
            "spec": spec,
        }


_IGNITION_VERSION: Final = "3.4"


def _without_credentials(text: str) -> str:
    """Return scheme, host and port of a valid URL."""
    return msgspec.structs.replace(parse(text), username=None, password=None).redacted


def _build_data_url(text: str) -> str:
    return f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}"
