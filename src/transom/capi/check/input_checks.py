"""What is wrong with the inputs of a Windows worker, each with the reason and what to do instead."""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from transom.capi.bootstrap import windows_proxy
from transom.capi.check.upstream import JOIN_PHASES, KUBE_PROXY_OLDEST
from transom.capi.check.worker_inputs import (
    NETBIOS,
    RANDOM,
    SERVICE_CIDR,
    InputFile,
    InputUser,
    WorkerInputs,
    build_machine_prefix,
)
from transom.capi.providers.provider import Provider
from transom.capi.worker import network_objects
from transom.capi.worker.machine_commands import find_command_problems
from transom.capi.worker.windows_release import PAUSE, RELEASES, SUPERSEDED, parse_minor
from transom.common.escaping import NAME
from transom.proxy import labels
from transom.proxy.finding import Finding, Severity, format_field_path

VERSION = re.compile(
    r"v1\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)(-(?!alpha|beta|rc)[a-z][0-9A-Za-z.-]*)?(\+[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?)?\Z"
)
"""A release, with what a vendor adds: `v1.36.3`, `v1.36.3+vmware.1`, `v1.36.3-eks-1a2b3c4`."""
LABEL = 63
"""The longest value of a label (Kubernetes: "Labels and Selectors")."""
OLDER = 3
"""How many minor versions a kubelet may be older than the API server (Kubernetes: "Version skew policy")."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
# no part ends in a dot: Windows drops it, and `.` and `..` are other directories
_PATH = re.compile(r"[Cc]:[/\\](?:[A-Za-z0-9._-]*[A-Za-z0-9_-][/\\])*[A-Za-z0-9._-]*[A-Za-z0-9_-]\Z")
_PERMISSIONS = re.compile(r"0[0-7]{3}\Z")
_USER = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,19}\Z")
_GROUP = re.compile(r"[A-Za-z][A-Za-z0-9._-]*( [A-Za-z0-9._-]+)*\Z")
_SSH_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [A-Za-z0-9@._-]+)?\Z")
_BOOLEAN = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
_ARGUMENT = re.compile(r"[a-z][a-z0-9-]*\Z")
_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?\Z")
_MOST_VERBOSE = 10
_VALUE = re.compile(r"[A-Za-z0-9_./:,=-]*\Z")
_STORE_NEED = "an image of `transom capi image`, whose cloudbase-init fetches it"
_NETWORK = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_ENDPOINT = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}\Z")


class InputChecks:
    """The findings about one set of inputs."""

    def __init__(self, inputs: WorkerInputs, provider: Provider, file: str = "") -> None:
        self._inputs, self._provider, self._file = inputs, provider, file
        self._object = f"{'MachinePool' if inputs.machine_pool else 'MachineDeployment'}/{inputs.deployment}"

    def build_finding(self, severity: Severity, path: tuple[str | int, ...], message: str) -> Finding:
        """One that names the file of the inputs."""
        return Finding(severity, self._file, self._object, format_field_path(path), message)

    def iter_findings(self) -> Iterator[Finding]:
        """Everything, in the order of the inputs."""
        yield from self._check_names()
        yield from self._check_versions()
        yield from self._check_pool()
        yield from self._check_secret_store()
        yield from self._check_key_pair()
        yield from self._check_join_settings()
        for index, file in enumerate(self._inputs.files):
            yield from self._check_file(index, file)
        for index, user in enumerate(self._inputs.users):
            yield from self._check_user(index, user)
        yield from self._check_commands("preKubeadmCommands", self._inputs.pre_kubeadm_commands)
        yield from self._check_commands("postKubeadmCommands", self._inputs.post_kubeadm_commands)
        for name, value in self._inputs.kubelet_arguments.items():
            if not _ARGUMENT.match(name) or not _VALUE.match(value):
                yield self.build_finding(
                    "error", ("kubeletArguments",), f"{name!r}: letters, digits and `_./:,=-` alone can be passed on"
                )
        for name, value in self._inputs.node_labels.items():
            if not labels.is_label_key(name) or not labels.is_label_value(value):
                yield self.build_finding("error", ("nodeLabels",), f"{name!r}: not a valid label name or value")
        yield from self._check_images()
        yield from self._check_network()

    def _check_names(self) -> Iterator[Finding]:
        inputs = self._inputs
        for field, name in (("cluster", inputs.cluster), ("namespace", inputs.namespace)):
            if not (NAME if field == "cluster" else _LABEL).match(name):
                yield self.build_finding("error", (field,), f"{name!r} is not a valid object name")
        if len(inputs.cluster) > LABEL:
            yield self.build_finding(
                "error",
                ("cluster",),
                f"{inputs.cluster!r}: Cluster API puts the name into a label, which takes {LABEL} characters",
            )
        longest = LABEL - 11
        if not _LABEL.match(inputs.deployment) or len(inputs.deployment) > longest:
            yield self.build_finding(
                "error",
                ("name",),
                f"{inputs.deployment!r}: at most {longest} lower-case letters, digits and hyphens (a hash is added)",
            )
        if not 0 <= inputs.replicas <= 5_000:
            yield self.build_finding("error", ("replicas",), f"{inputs.replicas}: a number from 0 to 5,000")
        if not inputs.machine_pool or (self._provider.pool is not None and self._provider.pool.names_machines):
            yield from self._check_machine_names()

    def _check_machine_names(self) -> Iterator[Finding]:
        prefix = build_machine_prefix(self._inputs)
        length = len(prefix) + RANDOM
        called = f"{prefix}xxxxxx" if self._inputs.machine_pool else f"{prefix}-xxxxx"
        if not re.fullmatch(self._provider.name_pattern, prefix):
            yield self.build_finding(
                "error", ("machineNamePrefix",), f"{prefix!r} cannot begin a machine's name on {self._provider.name}"
            )
        elif length > self._provider.longest_name:
            yield self.build_finding(
                "error",
                ("machineNamePrefix",),
                f"machines are called {called}, {length} characters; {self._provider.name} takes "
                f"{self._provider.longest_name} for Windows: give a prefix of at most {self._provider.longest_name - RANDOM}",
            )
        elif length > NETBIOS:
            yield self.build_finding(
                "warning",
                ("machineNamePrefix",),
                f"machines are called {called}, {length} characters; NetBIOS cuts a computer's name after {NETBIOS}: "
                f"give a prefix of at most {NETBIOS - RANDOM} where that matters",
            )

    def _check_versions(self) -> Iterator[Finding]:
        inputs = self._inputs
        sound = True
        for field, version in (
            ("kubernetesVersion", inputs.kubernetes_version),
            ("controlPlaneVersion", inputs.control_plane_version),
        ):
            if not VERSION.match(version) and (version or field == "kubernetesVersion"):
                yield self.build_finding("error", (field,), f"{version!r} is not a version of the form v1.N.M")
                sound = False
        if inputs.control_plane_version and sound:
            yield from self._check_skew()
        if sound and parse_minor(inputs.kubernetes_version) not in PAUSE:
            yield self.build_finding(
                "warning",
                ("kubernetesVersion",),
                f"{inputs.kubernetes_version}: workers are made for Kubernetes 1.{min(PAUSE)} to 1.{max(PAUSE)}, "
                "and nothing is known of this one",
            )
        if inputs.windows == SUPERSEDED:
            yield self.build_finding(
                "warning", ("windows",), "Windows Server 2019 gets security updates alone, until January 2029: 2022 or 2025"
            )
        if inputs.windows not in RELEASES:
            yield self.build_finding(
                "error",
                ("windows",),
                f"Kubernetes does not list Windows Server {inputs.windows!r}: one of {', '.join(RELEASES)}",
            )

    def _check_network(self) -> Iterator[Finding]:
        inputs = self._inputs
        if inputs.cni == "none" and not inputs.network_name:
            message = "missing: kube-proxy waits for the pods' network, and has to know what HNS calls it (Get-HnsNetwork)"
            yield self.build_finding("error", ("networkName",), message)
        elif inputs.network_name and not _NETWORK.match(inputs.network_name):
            message = f"{inputs.network_name!r}: at most 64 letters, digits and `._-`"
            yield self.build_finding("error", ("networkName",), message)
        elif inputs.network_name and inputs.cni != "none":
            message = f"{inputs.cni} calls its network {network_objects.NETWORKS[inputs.cni]}: a name is for `cni: none`"
            yield self.build_finding("error", ("networkName",), message)
        for field, cidrs in (("serviceCidr", inputs.service_cidr), ("podCidr", inputs.pod_cidr)):
            for cidr in filter(None, cidrs.split(",")):
                if not _is_network(cidr):
                    yield self.build_finding("error", (field,), f"{cidr!r} is not a valid network such as {SERVICE_CIDR}")
        if inputs.api_server and not _ENDPOINT.match(inputs.api_server):
            yield self.build_finding(
                "error", ("apiServer",), f"{inputs.api_server!r}: host:port, such as prod.example.com:6443"
            )
        for name in inputs.daemon_images:
            if name != "kube-proxy":
                yield self.build_finding("error", ("daemonImages", name), "unknown daemon: only kube-proxy is available")
        if VERSION.match(inputs.kubernetes_version) and parse_minor(inputs.kubernetes_version) < parse_minor(
            KUBE_PROXY_OLDEST.value
        ):
            yield from self._check_kube_proxy_image()

    def _check_kube_proxy_image(self) -> Iterator[Finding]:
        if self._inputs.daemons == "hostprocess" and "kube-proxy" not in self._inputs.daemon_images:
            message = (
                f"upstream builds images of kube-proxy for Windows from v{KUBE_PROXY_OLDEST.value} on: whether there is "
                f"{network_objects.select_images(self._inputs)['kube-proxy']} must be seen; daemonImages names another"
            )
            yield self.build_finding("warning", ("daemonImages", "kube-proxy"), message)

    def _check_skew(self) -> Iterator[Finding]:
        ours, theirs = self._inputs.kubernetes_version, self._inputs.control_plane_version
        if parse_minor(ours) > parse_minor(theirs):
            message = f"{ours} is newer than the control plane's {theirs}: upgrade that first"
            yield self.build_finding("error", ("kubernetesVersion",), message)
        elif parse_minor(ours) < parse_minor(theirs) - OLDER:
            message = f"{ours} is more than {OLDER} minor versions older than the control plane's {theirs}"
            yield self.build_finding("error", ("kubernetesVersion",), message)

    def _check_pool(self) -> Iterator[Finding]:
        if not self._inputs.machine_pool:
            return
        pool = self._provider.pool
        if pool is None:
            message = f"{self._provider.name} makes no MachinePool here: aws and azure do"
            yield self.build_finding("error", ("machinePool",), message)
            return
        for field, message in pool.problems(self._inputs):
            yield self.build_finding("error", field, message)

    def _check_secret_store(self) -> Iterator[Finding]:
        store = self._inputs.secret_store
        if self._inputs.machine_pool:
            return
        if store and store not in self._provider.secret_stores:
            yield self.build_finding(
                "error", ("secretStore",), f"{self._provider.name} has no {store}: {self._provider.no_store}"
            )
        elif store:
            yield self.build_finding(
                "warning", ("secretStore",), f"the bootstrap data is kept in {store}: that needs {_STORE_NEED}"
            )
        elif self._provider.secret_stores:
            yield self.build_finding(
                "warning",
                ("secretStore",),
                "the user data contains the join token, and every program on the machine can read it:  "
                f"--secret-store {self._provider.secret_stores[0]} keeps it out",
            )

    def _check_join_settings(self) -> Iterator[Finding]:
        for index, server in enumerate(self._inputs.ntp_servers):
            if not _SERVER.match(server):
                yield self.build_finding(
                    "error", ("ntpServers", index), f"{server!r} is not a valid name or address of a server"
                )
        if self._inputs.verbosity is not None and not 0 <= self._inputs.verbosity <= _MOST_VERBOSE:
            yield self.build_finding("error", ("verbosity",), f"{self._inputs.verbosity}: a number from 0 to {_MOST_VERBOSE}")
        for index, phase in enumerate(self._inputs.skip_phases):
            if phase not in JOIN_PHASES.value.split(", "):
                message = f"{phase!r}: a worker's join can do without {JOIN_PHASES.value}"
                yield self.build_finding("error", ("skipPhases", index), message)
        if self._inputs.patches and not _PATH.match(self._inputs.patches):
            yield self.build_finding("error", ("patches",), f"{self._inputs.patches!r} is not a path on drive C")

    def _check_key_pair(self) -> Iterator[Finding]:
        inputs = self._inputs
        if inputs.key_pair and inputs.provider != "aws":
            yield self.build_finding(
                "error", ("keyPair",), f"{inputs.provider} has no key pairs: `users` have sshAuthorizedKeys"
            )
        if inputs.provider == "aws" and inputs.image and inputs.machine.get("sshKeyName") == "":
            yield self.build_finding(
                "error",
                ("machine", "sshKeyName"),
                "without a key pair cloudbase-init finds no public keys in EC2's metadata and reads no user data, "
                "but in images of `transom capi image`: give `keyPair`, or no `image`: such a one is looked up by name",
            )

    def _check_file(self, index: int, file: InputFile) -> Iterator[Finding]:
        if not _PATH.match(file.path) or len(file.path) > 512:
            yield self.build_finding(
                "error",
                ("files", index, "path"),
                f"{file.path!r}: a path on drive C of letters, digits and `._-`, like C:/k/site.conf",
            )
        elif _get_windows_path(file) in RESERVED:
            yield self.build_finding("error", ("files", index, "path"), f"{file.path} is reserved: choose another name")
        elif (first := self._find_first_index(file)) < index:
            yield self.build_finding(
                "error", ("files", index, "path"), f"duplicate path {file.path}: files[{first}] has it, too"
            )
        if not _PERMISSIONS.match(file.permissions):
            yield self.build_finding(
                "error", ("files", index, "permissions"), f"{file.permissions!r}: four octal digits, like 0644"
            )

    def _find_first_index(self, file: InputFile) -> int:
        """Return the index of the first file of that path, as Windows compares paths."""
        return next(
            place for place, item in enumerate(self._inputs.files) if _get_windows_path(item) == _get_windows_path(file)
        )

    def _check_user(self, index: int, user: InputUser) -> Iterator[Finding]:
        if not _USER.match(user.name) or user.name.casefold() in _BOOLEAN:
            yield self.build_finding("error", ("users", index, "name"), f"{user.name!r}: at most 20 letters, digits and `._-`")
        for number, group in enumerate(user.groups):
            if not _GROUP.match(group) or group.casefold() in _BOOLEAN:
                yield self.build_finding("error", ("users", index, "groups", number), f"{group!r} is not a valid group name")
        for number, key in enumerate(user.ssh_authorized_keys):
            if not _SSH_KEY.match(key):
                path = ("users", index, "sshAuthorizedKeys", number)
                yield self.build_finding(
                    "error", path, "not a line of authorized_keys: type, key, and a comment without spaces"
                )

    def _check_commands(self, field: str, commands: Sequence[str]) -> Iterator[Finding]:
        for index, command in enumerate(commands):
            for problem in find_command_problems(command):
                yield self.build_finding("error", (field, index), problem)

    def _check_images(self) -> Iterator[Finding]:
        release = RELEASES.get(self._inputs.windows)
        if release is None:
            return
        for index, image in enumerate(self._inputs.images):
            matching_release = next((other for other in RELEASES.values() if other.tag in image or other.build in image), None)
            if matching_release is not None and matching_release is not release:
                yield self.build_finding(
                    "error",
                    ("images", index),
                    f"{image} is for Windows Server {matching_release.year} (build {matching_release.build}); "
                    f"these machines are {release.year} "
                    f"(build {release.build}), and process-isolated containers need the same build: use the {release.tag} one",
                )


RESERVED = frozenset(
    path.casefold()
    for path in (
        windows_proxy.PROXY_REG,
        windows_proxy.PROXY_CMD,
        "C:/k/proxy.log",
        "C:/k/kubelet-arguments.txt",
        "C:/k/kubelet-arguments.ps1",
        "C:/k/azure.json",
        network_objects.START,
        network_objects.SERVICE,
        network_objects.SOURCE_VIP,
        "C:/k/kube-proxy-start.cmd",
        "C:/k/kube-proxy.conf",
    )
)


def _get_windows_path(file: InputFile) -> str:
    return file.path.replace("\\", "/").casefold()


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
