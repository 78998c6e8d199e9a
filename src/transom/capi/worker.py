"""Windows workers of a Cluster API cluster: the objects that make them, from a few inputs."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from transom.capi import content, identity, machines, upstream, user_data, windows_proxy
from transom.capi.checks import Checks
from transom.capi.daemons import NETWORKS, daemon_set_objects, machine_entries, network_objects
from transom.capi.inputs import SERVICE_CIDR, WorkerInputs
from transom.capi.kubeadm import Entries, File, encoded, zipped
from transom.capi.machines import CLUSTER, WORKER_LABEL, Object, digest, metadata
from transom.capi.providers import PROVIDERS
from transom.capi.providers.provider import Provider
from transom.capi.windows_release import LICENCE
from transom.proxy.finding import Finding, errors
from transom.proxy.settings import Egress

CRI_SOCKET = "npipe:////./pipe/containerd-containerd"
TAINT = {"key": "os", "value": "windows", "effect": "NoSchedule"}
UNINITIALIZED = "node.cluster.x-k8s.io/uninitialized:NoSchedule"
"""What CABPK adds to the taints; Cluster API takes it off the Node once its labels are there."""
CLUSTER_LABEL = "transom.dev/windows-workers"
"""To be put on the Cluster, with its name as the value: it gets the daemons."""
_SERVICE_ARGUMENTS = {"container-runtime-endpoint": upstream.RUNTIME_ENDPOINT.value.partition("=")[2]}
"""What the kubelet's service has to be told: kubeadm up to 1.35 need not say it, and its flags reach no Windows service."""
POWERSHELL = r"powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\k\kubelet-arguments.ps1"


class WorkerTemplate(msgspec.Struct, frozen=True):
    """What was made: objects for the management cluster, those for the workload cluster, and what is to be said.

    `network` is what Calico's operator has to be told, for the workload cluster too. `secret` is the Secret that holds
    credentials, where there is one; it is among `objects` too.
    """

    objects: tuple[Object, ...] = ()
    daemons: tuple[Object, ...] = ()
    network: tuple[Object, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    secret: str = ""


def make(inputs: WorkerInputs, egress: Egress | None = None, cluster_id: str = "", file: str = "") -> WorkerTemplate:
    """The objects of a MachineDeployment, or a MachinePool, of Windows machines; with an error among the findings none.

    `egress` are the cluster's effective settings, `cluster_id` is the cluster's id (its name where empty), `file` the inputs'.
    """
    if not inputs.service_cidr:
        inputs = msgspec.structs.replace(inputs, service_cidr=SERVICE_CIDR)
    return _Maker(inputs, egress, cluster_id or inputs.cluster, file).make()


class _Maker:
    def __init__(self, inputs: WorkerInputs, egress: Egress | None, cluster_id: str, file: str) -> None:
        self._inputs, self._identity = inputs, cluster_id
        self._provider: Provider = PROVIDERS[inputs.provider]
        self._egress = egress if egress is not None and egress.configured else None
        self._pool = self._provider.pool if inputs.machine_pool else None
        self._checks = Checks(inputs, self._provider, file)
        self._secrets: dict[str, Object] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def make(self) -> WorkerTemplate:
        findings = list(self._checks.all())
        if errors(findings):
            return WorkerTemplate(findings=tuple(findings))
        machine = machines.infrastructure(self._inputs, self._provider)
        entries, found = self._entries(machine["metadata"]["name"])
        if self._inputs.machine_pool:
            # what CAPA puts into a launch template is not gzipped as a whole
            entries = msgspec.structs.replace(entries, files=tuple(zipped(file) for file in entries.files))
        spec = self._bootstrap_spec(entries)
        findings += found
        findings += self._size(spec, entries)
        if errors(findings):
            return WorkerTemplate(findings=tuple(findings))
        bootstrap = machines.bootstrap(self._inputs, spec, self._settings())
        owner = machines.owner(self._inputs, bootstrap, machine)
        proxy = windows_proxy.secret_name(self._identity)
        return WorkerTemplate(
            objects=(*self._secrets.values(), bootstrap, machine, owner, *self._resource_set()),
            daemons=tuple(daemon_set_objects(self._inputs)),
            network=tuple(network_objects(self._inputs)),
            findings=tuple(findings),
            notes=self._notes(),
            secret=proxy if proxy in self._secrets and self._egress and self._egress.holds_credentials else "",
        )

    def _entries(self, machine: str) -> tuple[Entries, list[Finding]]:
        inputs = self._inputs
        arguments = "".join(f"--{name}={value}\r\n" for name, value in self._kubelet_arguments().items())
        made = Entries(
            files=(
                encoded("C:/k/kubelet-arguments.ps1", content.script("kubelet-arguments.ps1")),
                encoded("C:/k/kubelet-arguments.txt", arguments.encode("ascii")),
            ),
            pre=(POWERSHELL,),
        )
        made = self._provider.entries(machine) + made + machine_entries(inputs)
        findings, files = [], []
        for index, item in enumerate(inputs.files):
            try:
                data = base64.b64decode(item.content_base64, validate=True) if item.content_base64 else item.content.encode()
                carried = content.carry(item.path.replace("\\", "/"), data, item.permissions, inputs.deployment)
            except binascii.Error:
                findings.append(self._checks.finding("error", ("files", index, "contentBase64"), "this is no base64"))
                continue
            except content.TooLarge as error:
                findings.append(self._checks.finding("error", ("files", index, "content"), str(error)))
                continue
            files.append(carried.file)
            if carried.secret:
                self._add_secret(carried.secret, {content.KEY: carried.text}, immutable=True)
        made += Entries(tuple(files), inputs.pre_kubeadm_commands, inputs.post_kubeadm_commands)
        if self._egress is None:
            return made, findings
        name = windows_proxy.secret_name(self._identity)
        proxy = windows_proxy.entries(name)
        self._add_secret(name, {windows_proxy.KEY: windows_proxy.secret_value(self._egress, self._identity).reveal()})
        # the proxy first, and last of all what puts it back
        return Entries(proxy.files + made.files, proxy.pre + made.pre, made.post + proxy.post), findings

    def _add_secret(self, name: str, data: dict[str, str], *, immutable: bool = False) -> None:
        labels = machines.labels(self._inputs) if immutable else identity.labels(self._identity)
        self._secrets[name] = content.secret(name, self._inputs.namespace, labels, data, immutable=immutable)
        self._texts |= {(name, key): text for key, text in data.items()}

    def _kubelet_arguments(self) -> dict[str, str]:
        inputs = self._inputs
        given = dict(inputs.kubelet_arguments)
        listed = [f"{key}={value}" for key, value in inputs.node_labels.items()]
        labels = ",".join([*listed, *filter(None, [given.pop("node-labels", "")])])
        taints = f"{TAINT['key']}={TAINT['value']}:{TAINT['effect']},{UNINITIALIZED}"
        return {
            **self._provider.kubelet_arguments,
            **_SERVICE_ARGUMENTS,
            "register-with-taints": taints,
            "windows-priorityclass": "ABOVE_NORMAL_PRIORITY_CLASS",
            **({"node-labels": labels} if labels else {}),
            **given,
        }

    def _bootstrap_spec(self, entries: Entries) -> Object:
        alone = {"register-with-taints", *_SERVICE_ARGUMENTS} - set(self._inputs.kubelet_arguments)
        arguments = {name: value for name, value in self._kubelet_arguments().items() if name not in alone}
        listed: Any = arguments
        if self._inputs.api_version == "v1beta2":
            listed = [{"name": name, "value": value} for name, value in sorted(arguments.items())]
        registration = {
            "name": self._provider.node_name,
            "criSocket": CRI_SOCKET,
            "kubeletExtraArgs": listed,
            "taints": [TAINT],
        }
        users = [
            {
                "name": user.name,
                **({"groups": ", ".join(user.groups)} if user.groups else {}),
                **({"sshAuthorizedKeys": list(user.ssh_authorized_keys)} if user.ssh_authorized_keys else {}),
            }
            for user in self._inputs.users
        ]
        return {
            "format": "cloud-config",
            "joinConfiguration": {
                "nodeRegistration": registration,
                **({"skipPhases": list(self._inputs.skip_phases)} if self._inputs.skip_phases else {}),
                **({"patches": {"directory": self._inputs.patches}} if self._inputs.patches else {}),
            },
            "files": [msgspec.to_builtins(file) for file in entries.files],
            "preKubeadmCommands": list(entries.pre),
            **({"postKubeadmCommands": list(entries.post)} if entries.post else {}),
            **({"users": users} if users else {}),
            **({"ntp": {"enabled": True, "servers": list(self._inputs.ntp_servers)}} if self._inputs.ntp_servers else {}),
            **({"verbosity": self._inputs.verbosity} if self._inputs.verbosity is not None else {}),
        }

    def _settings(self) -> Object:
        """What of the settings a new template follows from. Credentials are not part of it: no hash of them is published."""
        if self._egress is None:
            return {}
        urls = (self._egress.http_proxy, self._egress.https_proxy)
        return {
            "urls": [url.reveal().rpartition("@")[2] if url else "" for url in urls],
            "noProxy": self._egress.no_proxy,
            "trust": [certificate.sha256 for certificate in self._egress.trust],
            "scope": self._egress.windows.environment_scope,
            "services": list(self._egress.windows.services),
        }

    def _resource_set(self) -> Iterable[Object]:
        """The daemons for the workload cluster, as Cluster API brings objects there: a ClusterResourceSet."""
        objects = daemon_set_objects(self._inputs)
        data = {
            f"{item['kind'].lower()}-{item['metadata']['name']}.json": msgspec.json.format(
                msgspec.json.encode(item), indent=1
            ).decode()
            for item in objects
        }
        name = f"{self._inputs.deployment}-daemons"
        versioned = f"{name}-{digest(data)}"
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(self._inputs, versioned), "data": data}
        yield {
            "apiVersion": f"addons.{CLUSTER}/{self._inputs.api_version}",
            "kind": "ClusterResourceSet",
            "metadata": metadata(self._inputs, name),
            "spec": {
                "clusterSelector": {"matchLabels": {CLUSTER_LABEL: self._inputs.cluster}},
                "resources": [{"kind": "ConfigMap", "name": versioned}],
                "strategy": "Reconcile",
            },
        }

    def _size(self, spec: Object, entries: Entries) -> Iterable[Finding]:
        text = user_data.of_spec(spec, self._texts)
        limit = self._pool.limit if self._pool else self._provider.limit
        counted = user_data.size(text, limit)
        if counted > limit.most and not self._inputs.secret_store:
            how = ("gzipped" if limit.gzip else "") + ("in base64" if limit.base64 else "")
            largest = max(entries.files, key=lambda file: len(file.content) + self._length(file)).path
            smaller = "put it into the image"
            if largest == windows_proxy.PROXY_REG:
                smaller = "it holds the trusted CAs: trust fewer, or put them into the image and take them out of trustedCA"
            remedy = f", or {limit.remedy}" if limit.remedy else ""
            yield self._checks.finding(
                "error",
                ("files",),
                f"the user data has {counted:,} bytes{' ' + how if how else ''}; {limit.source} ({limit.most:,}). "
                f"The largest file is {largest}: {smaller}{remedy}",
            )

    def _length(self, file: File) -> int:
        source = file.content_from.secret if file.content_from else None
        return len(self._texts.get((source.name, source.key), "")) if source else 0

    def _notes(self) -> tuple[str, ...]:
        inputs = self._inputs
        where = f"-n {inputs.namespace} cluster {inputs.cluster}"
        return (
            *(self._pool.notes(inputs) if self._pool else self._provider.notes(inputs)),
            f"kube-proxy reaches the cluster once it is labelled: kubectl label {where} {CLUSTER_LABEL}={inputs.cluster}",
            *self._network_notes(),
            LICENCE,
        )

    def _network_notes(self) -> Iterator[str]:
        """What the pods' network needs that is not made here."""
        inputs = self._inputs
        if inputs.cni == "calico":
            yield (
                "Calico is its operator's: transom capi worker … --part network prints what it has to be told for Windows, and "
                """kubectl patch ipamconfigurations default --type merge -p '{"spec":{"strictAffinity":true}}' """
                "keeps Linux nodes off the addresses of Windows nodes"
            )
        if inputs.cni == "flannel":
            yield (
                "Flannel's agent for Windows is yours to bring: nobody keeps its manifest or its image (the last one is "
                f"guides/flannel.md of sig-windows-tools before 729ae7c); kube-proxy waits for network {NETWORKS['flannel']}"
            )


_USERS = ("MachineSet", "MachinePool", "Machine", "KubeadmConfig")


def replaced(made: Iterable[Object], existing: Iterable[Object]) -> Iterator[str]:
    """What of `existing` (objects of an earlier run, or of the cluster) is not made any more, and whether it is still used.

    A MachineSet, a MachinePool, a KubeadmConfig or a Machine uses what it names. Without any of them among `existing` that
    cannot be told.
    """
    existing = list(existing)
    made = list(made)
    workers = {item["metadata"].get("labels", {}).get(WORKER_LABEL) for item in made} - {None}
    current = {_identity(item) for item in made}
    users = [item for item in existing if item.get("kind") in _USERS]
    for item in existing:
        owner = (item.get("metadata", {}).get("labels") or {}).get(WORKER_LABEL)
        kind, namespace, name = _identity(item)
        if owner not in workers or (kind, namespace, name) in current or (kind in _USERS and not _is_of_a_pool(item)):
            continue
        using = next((user for user in users if _identity(user)[1] == namespace and _names(user.get("spec"), name)), None)
        if using is not None:
            yield f"{kind} {namespace}/{name} is an old one; {using['kind']} {using['metadata']['name']} still uses it: keep it"
        elif users:
            yield f"{kind} {namespace}/{name} is an old one, and nothing uses it: kubectl delete -n {namespace} {kind} {name}"
        else:
            yield f"{kind} {namespace}/{name} is an old one: delete it once no MachineSet or MachinePool names it"


def _is_of_a_pool(item: Object) -> bool:
    """Whether it is a configuration that was made here: one of a machine has that Machine as its owner."""
    owners = item.get("metadata", {}).get("ownerReferences") or ()
    return item.get("kind") == "KubeadmConfig" and not any(owner.get("kind") == "Machine" for owner in owners)


def _identity(item: Object) -> tuple[str, str, str]:
    metadata = item.get("metadata", {})
    return item.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", "")


def _names(value: Any, name: str) -> bool:
    """Whether a text below `value` is `name`."""
    if isinstance(value, Mapping):
        return any(_names(item, name) for item in value.values())
    if isinstance(value, list):
        return any(_names(item, name) for item in value)
    return bool(value == name)
