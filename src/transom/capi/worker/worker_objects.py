"""Windows workers of a Cluster API cluster: the objects that make them, from a few inputs."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.kubeadm import Entries, File, compress_file, encode_file
from transom.capi.check import upstream, upstream_network
from transom.capi.check.input_checks import InputChecks
from transom.capi.check.ports_between_nodes import CLUSTER_KINDS, NODE_PORTS, describe_rules, find_closed_ports
from transom.capi.check.worker_inputs import SERVICE_CIDR, WorkerInputs
from transom.capi.providers.provider import Provider
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.values import cluster_identity
from transom.capi.worker import file_content, machine_objects, user_data
from transom.capi.worker.machine_objects import CLUSTER, WORKER_LABEL, Object, build_metadata, compute_digest
from transom.capi.worker.network_objects import NETWORKS, build_machine_entries, iter_daemon_set_objects, iter_network_objects
from transom.capi.worker.windows_release import LICENCE
from transom.proxy.finding import Finding, format_field_path, has_errors
from transom.proxy.settings import Egress
from transom.windows.nodes.scheduling import TAINT

CRI_SOCKET = "npipe:////./pipe/containerd-containerd"
UNINITIALIZED = "node.cluster.x-k8s.io/uninitialized:NoSchedule"
"""What CABPK adds to the taints; Cluster API removes it from the Node once the Node has its labels."""
CLUSTER_LABEL = "transom.dev/windows-workers"
"""To be put on the Cluster, with its name as the value: it gets the daemons."""
_SERVICE_ARGUMENTS = {"container-runtime-endpoint": upstream.RUNTIME_ENDPOINT.value.partition("=")[2]}
"""Required flags of the kubelet's service: kubeadm up to 1.35 may omit them, and its flags reach no Windows service."""
POWERSHELL = r"powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\k\kubelet-arguments.ps1"


class WorkerTemplate(msgspec.Struct, frozen=True):
    """The result: objects for the management cluster, those for the workload cluster, and notes for the user.

    `network` has the settings of Calico's operator, also for the workload cluster. `secret` is the Secret that holds
    credentials, if any; it is among `objects` too.
    """

    objects: tuple[Object, ...] = ()
    daemons: tuple[Object, ...] = ()
    network: tuple[Object, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    secret: str = ""


def build_worker(
    inputs: WorkerInputs,
    egress: Egress | None = None,
    cluster_id: str = "",
    file: str = "",
    infrastructure: Object | None = None,
) -> WorkerTemplate:
    """Build the objects of a MachineDeployment, or a MachinePool, of Windows machines; none if a finding is an error.

    `egress` are the cluster's effective settings, `cluster_id` is the cluster's id (its name where empty), `file` the
    inputs'.
    `infrastructure` is the object that the Cluster's `infrastructureRef` names, where it is known.
    """
    if not inputs.service_cidr:
        inputs = msgspec.structs.replace(inputs, service_cidr=SERVICE_CIDR)
    return _WorkerBuilder(inputs, egress, cluster_id or inputs.cluster, file, infrastructure).build()


class _WorkerBuilder:
    def __init__(
        self, inputs: WorkerInputs, egress: Egress | None, cluster_id: str, file: str, infrastructure: Object | None
    ) -> None:
        self._inputs, self._identity, self._infrastructure = inputs, cluster_id, infrastructure
        self._provider: Provider = PROVIDERS[inputs.provider]
        self._egress = egress if egress is not None and egress.configured else None
        self._pool = self._provider.pool if inputs.machine_pool else None
        self._checks = InputChecks(inputs, self._provider, file)
        self._secrets: dict[str, Object] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def build(self) -> WorkerTemplate:
        findings = [*self._checks.iter_findings(), *self._check_closed_ports()]
        if has_errors(findings):
            return WorkerTemplate(findings=tuple(findings))
        if self._pool is not None:
            machine = machine_objects.build_machine_pool(self._inputs, self._provider, self._pool)
        else:
            machine = machine_objects.build_machine_template(self._inputs, self._provider)
        entries, entry_findings = self._build_entries(machine["metadata"]["name"])
        if self._inputs.machine_pool:
            # what CAPA puts into a launch template is not gzipped as a whole
            entries = msgspec.structs.replace(entries, files=tuple(compress_file(file) for file in entries.files))
        spec = self._build_bootstrap_spec(entries)
        findings += entry_findings
        findings += self._check_user_data_size(spec, entries)
        if has_errors(findings):
            return WorkerTemplate(findings=tuple(findings))
        bootstrap = machine_objects.build_bootstrap_config(self._inputs, spec, self._collect_hashed_inputs())
        owner = machine_objects.build_deployment_or_pool(self._inputs, bootstrap, machine)
        proxy = windows_proxy.build_secret_name(self._identity)
        return WorkerTemplate(
            objects=(*self._secrets.values(), bootstrap, machine, owner, *self._build_resource_set()),
            daemons=tuple(iter_daemon_set_objects(self._inputs)),
            network=tuple(iter_network_objects(self._inputs)),
            findings=tuple(findings),
            notes=self._list_notes(),
            secret=proxy if proxy in self._secrets and self._egress and self._egress.holds_credentials else "",
        )

    def _build_entries(self, machine: str) -> tuple[Entries, list[Finding]]:
        inputs = self._inputs
        arguments = "".join(f"--{name}={value}\r\n" for name, value in self._build_kubelet_arguments().items())
        made = Entries(
            files=(
                encode_file("C:/k/kubelet-arguments.ps1", file_content.read_script("kubelet-arguments.ps1")),
                encode_file("C:/k/kubelet-arguments.txt", arguments.encode("ascii")),
            ),
            pre=(POWERSHELL,),
        )
        made = self._provider.entries(machine) + made + build_machine_entries(inputs)
        findings, files = [], []
        for index, item in enumerate(inputs.files):
            try:
                data = base64.b64decode(item.content_base64, validate=True) if item.content_base64 else item.content.encode()
                carried = file_content.encode_file_content(
                    item.path.replace("\\", "/"), data, item.permissions, inputs.deployment
                )
            except binascii.Error:
                findings.append(self._checks.build_finding("error", ("files", index, "contentBase64"), "not valid base64"))
                continue
            except file_content.ContentTooLarge as error:
                findings.append(self._checks.build_finding("error", ("files", index, "content"), str(error)))
                continue
            files.append(carried.file)
            if carried.secret:
                self._add_secret(carried.secret, {file_content.KEY: carried.text}, immutable=True)
        made += Entries(tuple(files), inputs.pre_kubeadm_commands, inputs.post_kubeadm_commands)
        if self._egress is None:
            return made, findings
        name = windows_proxy.build_secret_name(self._identity)
        proxy = windows_proxy.build_windows_entries(name)
        self._add_secret(name, {windows_proxy.KEY: windows_proxy.encode_proxy_reg(self._egress, self._identity).reveal()})
        # the proxy first, and last of all what puts it back
        return Entries(proxy.files + made.files, proxy.pre + made.pre, made.post + proxy.post), findings

    def _add_secret(self, name: str, data: dict[str, str], *, immutable: bool = False) -> None:
        labels = machine_objects.build_labels(self._inputs) if immutable else cluster_identity.build_labels(self._identity)
        self._secrets[name] = file_content.build_secret(name, self._inputs.namespace, labels, data, immutable=immutable)
        self._texts |= {(name, key): text for key, text in data.items()}

    def _build_kubelet_arguments(self) -> dict[str, str]:
        inputs = self._inputs
        arguments = dict(inputs.kubelet_arguments)
        listed = [f"{key}={value}" for key, value in inputs.node_labels.items()]
        labels = ",".join([*listed, *filter(None, [arguments.pop("node-labels", "")])])
        taints = f"{TAINT['key']}={TAINT['value']}:{TAINT['effect']},{UNINITIALIZED}"
        return {
            **self._provider.kubelet_arguments,
            **_SERVICE_ARGUMENTS,
            "register-with-taints": taints,
            "windows-priorityclass": "ABOVE_NORMAL_PRIORITY_CLASS",
            **({"node-labels": labels} if labels else {}),
            **arguments,
        }

    def _build_bootstrap_spec(self, entries: Entries) -> Object:
        alone = {"register-with-taints", *_SERVICE_ARGUMENTS} - set(self._inputs.kubelet_arguments)
        arguments = {name: value for name, value in self._build_kubelet_arguments().items() if name not in alone}
        listed: Any = arguments
        if self._inputs.api_version == "v1beta2":
            listed = [{"name": name, "value": value} for name, value in sorted(arguments.items())]
        registration = {
            "name": self._provider.node_name,
            "criSocket": CRI_SOCKET,
            "kubeletExtraArgs": listed,
            "taints": [dict(TAINT)],
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

    def _collect_hashed_inputs(self) -> Object:
        """Return the settings that require a new template. Credentials are not among them: no hash of them is published."""
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

    def _build_resource_set(self) -> Iterable[Object]:
        """Build the ClusterResourceSet by which Cluster API creates the daemons in the workload cluster."""
        objects = iter_daemon_set_objects(self._inputs)
        data = {
            f"{item['kind'].lower()}-{item['metadata']['name']}.json": msgspec.json.format(
                msgspec.json.encode(item), indent=1
            ).decode()
            for item in objects
        }
        name = f"{self._inputs.deployment}-daemons"
        versioned = f"{name}-{compute_digest(data)}"
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": build_metadata(self._inputs, versioned), "data": data}
        yield {
            "apiVersion": f"addons.{CLUSTER}/{self._inputs.api_version}",
            "kind": "ClusterResourceSet",
            "metadata": build_metadata(self._inputs, name),
            "spec": {
                "clusterSelector": {"matchLabels": {CLUSTER_LABEL: self._inputs.cluster}},
                "resources": [{"kind": "ConfigMap", "name": versioned}],
                "strategy": "Reconcile",
            },
        }

    def _check_user_data_size(self, spec: Object, entries: Entries) -> Iterable[Finding]:
        text = user_data.render_user_data(spec, self._texts)
        limit = self._pool.limit if self._pool else self._provider.limit
        counted = user_data.measure_size(text, limit)
        if counted > limit.most and not self._inputs.secret_store:
            how = ("gzipped" if limit.gzip else "") + ("in base64" if limit.base64 else "")
            largest = max(entries.files, key=lambda file: len(file.content) + self._measure_file(file)).path
            smaller = "put it into the image"
            if largest == windows_proxy.PROXY_REG:
                smaller = "it holds the trusted CAs: trust fewer, or put them into the image and take them out of trustedCA"
            remedy = f", or {limit.remedy}" if limit.remedy else ""
            yield self._checks.build_finding(
                "error",
                ("files",),
                f"the user data has {counted:,} bytes{' ' + how if how else ''}; {limit.source} ({limit.most:,}). "
                f"The largest file is {largest}: {smaller}{remedy}",
            )

    def _measure_file(self, file: File) -> int:
        source = file.content_from.secret if file.content_from else None
        return len(self._texts.get((source.name, source.key), "")) if source else 0

    def _list_notes(self) -> tuple[str, ...]:
        inputs = self._inputs
        where = f"-n {inputs.namespace} cluster {inputs.cluster}"
        return (
            *(self._pool.notes(inputs) if self._pool else self._provider.notes(inputs)),
            f"kube-proxy reaches the cluster once it is labelled: kubectl label {where} {CLUSTER_LABEL}={inputs.cluster}",
            *self._iter_network_notes(),
            LICENCE,
        )

    def _iter_network_notes(self) -> Iterator[str]:
        """Iterate over requirements of the pods' network that Transom does not create."""
        inputs = self._inputs
        if inputs.cni == "calico":
            yield (
                "Calico's operator installs it: transom capi worker … --part network prints its Windows configuration, and "
                """kubectl patch ipamconfigurations default --type merge -p '{"spec":{"strictAffinity":true}}' """
                "keeps Linux nodes off the addresses of Windows nodes"
            )
            encapsulation = upstream_network.POOL_ENCAPSULATION.value
            if inputs.pod_cidr:
                yield (
                    f"--part network sets {encapsulation} for the pods' IP pool ({inputs.pod_cidr}), for Linux nodes too: "
                    "a merge replaces the list ipPools, so add other pools and your blockSize"
                )
            else:
                yield (
                    "the pods' network is unknown, so --part network prints no ipPools: set "
                    f"spec.calicoNetwork.ipPools[*].encapsulation of Calico's Installation to {encapsulation}, or name a "
                    "Cluster with -f or --context, or set podCidr in the inputs"
                )
        ports = NODE_PORTS[inputs.cni]
        rules = describe_rules(inputs.provider, ports)
        if rules and ports and self._infrastructure is None:
            kind, listed = CLUSTER_KINDS[inputs.provider], " and ".join(map(str, ports))
            yield f"the pods' network requires {listed} between all nodes: {kind} {rules}{self._describe_replaced_rules()}"
        if inputs.cni == "flannel":
            yield (
                "You install Flannel's agent for Windows: its manifest and image are not maintained any more (the last one is "
                f"guides/flannel.md of sig-windows-tools before 729ae7c); kube-proxy waits for network {NETWORKS['flannel']}"
            )

    def _check_closed_ports(self) -> Iterator[Finding]:
        """Warn of ports that the pods' network needs and the security groups of the infrastructure's object do not permit."""
        inputs, cluster = self._inputs, self._infrastructure
        if cluster is None or cluster.get("kind") != CLUSTER_KINDS.get(inputs.provider):
            return
        closed = list(find_closed_ports(cluster, NODE_PORTS[inputs.cni]))
        if closed:
            listed, name = " and ".join(str(port) for _, port in closed), (cluster.get("metadata") or {}).get("name", "")
            rules = describe_rules(inputs.provider, [port for _, port in closed])
            message = f"closed between nodes: {listed}, so no Windows pod reaches pods of other nodes: {rules}"
            where = format_field_path(closed[0][0])
            yield Finding("warning", "", f"{cluster['kind']}/{name}", where, message + self._describe_replaced_rules())

    def _describe_replaced_rules(self) -> str:
        """Return what of CAPA's own rules a list replaces."""
        if self._inputs.provider != "aws":
            return ""
        return f". A list replaces CAPA's own rules ({upstream_network.AWS_RULES.value}): keep those that Linux nodes use"


_USERS = ("MachineSet", "MachinePool", "Machine", "KubeadmConfig")


def iter_obsolete_objects(new_objects: Iterable[Object], existing: Iterable[Object]) -> Iterator[str]:
    """Yield the `existing` objects (of an earlier run, or of the cluster) that are not made any more, and their uses.

    A MachineSet, a MachinePool, a KubeadmConfig or a Machine uses what it names. Without any of them among `existing` that
    cannot be determined.
    """
    existing = list(existing)
    new_objects = list(new_objects)
    workers = {item["metadata"].get("labels", {}).get(WORKER_LABEL) for item in new_objects} - {None}
    current = {_get_object_key(item) for item in new_objects}
    users = [item for item in existing if item.get("kind") in _USERS]
    for item in existing:
        owner = (item.get("metadata", {}).get("labels") or {}).get(WORKER_LABEL)
        kind, namespace, name = _get_object_key(item)
        if owner not in workers or (kind, namespace, name) in current or (kind in _USERS and not _is_own_configuration(item)):
            continue
        using = next(
            (user for user in users if _get_object_key(user)[1] == namespace and _contains_string(user.get("spec"), name)), None
        )
        if using is not None:
            yield f"{kind} {namespace}/{name} is an old one; {using['kind']} {using['metadata']['name']} still uses it: keep it"
        elif users:
            yield f"{kind} {namespace}/{name} is an old one, and nothing uses it: kubectl delete -n {namespace} {kind} {name}"
        else:
            yield f"{kind} {namespace}/{name} is an old one: delete it once no MachineSet or MachinePool names it"


def _is_own_configuration(item: Object) -> bool:
    """Return True if Transom created the configuration: one of a machine has that Machine as its owner."""
    owners = item.get("metadata", {}).get("ownerReferences") or ()
    return item.get("kind") == "KubeadmConfig" and not any(owner.get("kind") == "Machine" for owner in owners)


def _get_object_key(item: Object) -> tuple[str, str, str]:
    metadata = item.get("metadata", {})
    return item.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", "")


def _contains_string(value: Any, name: str) -> bool:
    """Return True if a string below `value` is `name`."""
    if isinstance(value, Mapping):
        return any(_contains_string(item, name) for item in value.values())
    if isinstance(value, list):
        return any(_contains_string(item, name) for item in value)
    return bool(value == name)
