"""The inputs of `transom capi worker`, from flags and an inputs file."""

import hashlib
from typing import Any, Literal

import msgspec

ProviderName = Literal["aws", "azure", "vsphere", "openstack", "gcp", "nutanix"]
Daemons = Literal["hostprocess", "services"]
Cni = Literal["calico", "flannel", "none"]
SecretStore = Literal["", "secrets-manager", "ssm-parameter-store"]
ApiVersion = Literal["v1beta1", "v1beta2"]

NO_WINS = (
    "wins is not released any more: HostProcess containers replaced it (Kubernetes 1.26), and every user of its pipe is "
    "administrator of the machine. Use `hostprocess`, or `services` if containers must not be privileged"
)
"""Why `daemons: wins`, the proposal's alpha stage (CAEP 20200804), is refused."""
SERVICE_CIDR = "10.96.0.0/12"
"""The default, which is kubeadm's (kubernetes v1.36.3, cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go)."""
DEFAULT_VERSION = "v1.36.3"
"""The default Kubernetes version."""


class InputFile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A file for the machines: its path as on Windows with `/` or `\\`, and its content as text or in base64."""

    path: str
    content: str = ""
    content_base64: str = ""
    permissions: str = "0644"


class InputUser(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A local user for the machines. cloudbase-init gives it a random password."""

    name: str
    groups: tuple[str, ...] = ()
    ssh_authorized_keys: tuple[str, ...] = ()


class WorkerInputs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The inputs, with their defaults.

    `name` is the MachineDeployment's, `machineNamePrefix` begins the name of every machine. `image` is an id, a name, or a name
    pattern, whichever the provider takes. `revision` is any string: another one makes new templates of the same inputs.
    `machine` is merged into the machine template's `spec.template.spec`. `images` are container images that are meant to run
    there: their Windows version is compared with the machines'. `serviceCidr` and `podCidr` are the cluster's networks, with a
    comma between two; `apiServer` is its endpoint as host:port; a Cluster that is given says all three. `networkName` is what
    HNS calls the pods' network, for `cni: none`. `keyPair` is one of EC2's.
    `machinePool` makes a MachinePool and the provider's pool instead of a MachineDeployment and templates: then `machine` is
    merged into the pool's `spec`, and Azure's needs `location`, a region.
    `ntpServers` are names or addresses, `verbosity` is kubeadm's (`--v`). `skipPhases` are phases of `kubeadm join` that are
    left out, `patches` is the directory of its patches, which `files` or the image bring (`kubeletconfiguration+merge.yaml`).
    """

    cluster: str
    provider: ProviderName
    namespace: str = "default"
    name: str = ""
    machine_name_prefix: str = ""
    machine_pool: bool = False
    location: str = ""
    replicas: int = 1
    kubernetes_version: str = DEFAULT_VERSION
    control_plane_version: str = ""
    windows: str = "2022"
    image: str = ""
    instance_type: str = ""
    disk_gi_b: int = 0
    secret_store: SecretStore = ""
    key_pair: str = ""
    ntp_servers: tuple[str, ...] = ()
    verbosity: int | None = None
    skip_phases: tuple[str, ...] = ()
    patches: str = ""
    daemons: Daemons = "hostprocess"
    cni: Cni = "calico"
    api_version: ApiVersion = "v1beta2"
    revision: str = ""
    kubelet_arguments: dict[str, str] = {}
    node_labels: dict[str, str] = {}
    files: tuple[InputFile, ...] = ()
    users: tuple[InputUser, ...] = ()
    pre_kubeadm_commands: tuple[str, ...] = ()
    post_kubeadm_commands: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    daemon_images: dict[str, str] = {}
    service_cidr: str = ""
    pod_cidr: str = ""
    api_server: str = ""
    network_name: str = ""
    machine: dict[str, Any] = {}

    @property
    def deployment(self) -> str:
        """The MachineDeployment's name, or the MachinePool's."""
        return self.name or f"{self.cluster}-win"


def build_schema() -> dict[str, Any]:
    """Build the JSON Schema of an inputs file."""
    made = msgspec.json.schema(WorkerInputs)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Inputs of transom capi worker", **made}


NETBIOS = 15
"""A longer computer name is cut for NetBIOS (Microsoft: "Naming conventions in Active Directory")."""
RANDOM = 6
"""What Cluster API adds to a machine's name, a hyphen and five characters; what a scale set of Azure does, six characters."""


def build_machine_prefix(inputs: WorkerInputs) -> str:
    """Return the prefix of machines' names: the configured one, else the deployment's name if short, else `win` and a hash."""
    if inputs.machine_name_prefix:
        return inputs.machine_name_prefix
    if len(inputs.deployment) + RANDOM <= NETBIOS:
        return inputs.deployment
    return "win-" + _compute_short_hash(f"{inputs.namespace}/{inputs.cluster}/{inputs.deployment}")


def _compute_short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:5]
