"""What is wrong with the inputs of a Windows worker, each with the reason and what to do instead."""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from transom.capi import daemons, windows_proxy
from transom.capi.commands import command_problems
from transom.capi.inputs import NETBIOS, RANDOM, SERVICE_CIDR, InputFile, InputUser, WorkerInputs, machine_prefix
from transom.capi.providers.provider import Provider
from transom.capi.upstream import JOIN_PHASES, KUBE_PROXY_OLDEST
from transom.capi.windows_release import PAUSE, RELEASES, SUPERSEDED, minor
from transom.proxy import labels
from transom.proxy.finding import Finding, Severity, field_name
from transom.shown import NAME

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


class Checks:
    """The findings about one set of inputs."""

    def __init__(self, inputs: WorkerInputs, provider: Provider, file: str = "") -> None:
        self._inputs, self._provider, self._file = inputs, provider, file
        self._object = f"{'MachinePool' if inputs.machine_pool else 'MachineDeployment'}/{inputs.deployment}"

    def finding(self, severity: Severity, path: tuple[str | int, ...], message: str) -> Finding:
        """One that names the file of the inputs."""
        return Finding(severity, self._file, self._object, field_name(path), message)

    def all(self) -> Iterator[Finding]:
        """Everything, in the order of the inputs."""
        yield from self._names()
        yield from self._versions()
        yield from self._pool()
        yield from self._store()
        yield from self._key_pair()
        yield from self._join()
        for index, file in enumerate(self._inputs.files):
            yield from self._of_file(index, file)
        for index, user in enumerate(self._inputs.users):
            yield from self._of_user(index, user)
        yield from self._of_commands("preKubeadmCommands", self._inputs.pre_kubeadm_commands)
        yield from self._of_commands("postKubeadmCommands", self._inputs.post_kubeadm_commands)
        for name, value in self._inputs.kubelet_arguments.items():
            if not _ARGUMENT.match(name) or not _VALUE.match(value):
                yield self.finding(
                    "error", ("kubeletArguments",), f"{name!r}: letters, digits and `_./:,=-` alone can be passed on"
                )
        for name, value in self._inputs.node_labels.items():
            if not labels.is_key(name) or not labels.is_value(value):
                yield self.finding("error", ("nodeLabels",), f"{name!r}: this is no label, or no value of one")
        yield from self._images()
        yield from self._network()

    def _names(self) -> Iterator[Finding]:
        inputs = self._inputs
        for field, name in (("cluster", inputs.cluster), ("namespace", inputs.namespace)):
            if not (NAME if field == "cluster" else _LABEL).match(name):
                yield self.finding("error", (field,), f"{name!r} is no name of an object")
        if len(inputs.cluster) > LABEL:
            yield self.finding(
                "error",
                ("cluster",),
                f"{inputs.cluster!r}: Cluster API puts the name into a label, which takes {LABEL} characters",
            )
        longest = LABEL - 11
        if not _LABEL.match(inputs.deployment) or len(inputs.deployment) > longest:
            yield self.finding(
                "error",
                ("name",),
                f"{inputs.deployment!r}: at most {longest} lower-case letters, digits and hyphens (a hash is added)",
            )
        if not 0 <= inputs.replicas <= 5_000:
            yield self.finding("error", ("replicas",), f"{inputs.replicas}: a number from 0 to 5,000")
        if not inputs.machine_pool or (self._provider.pool is not None and self._provider.pool.names_machines):
            yield from self._machine_names()

    def _machine_names(self) -> Iterator[Finding]:
        prefix = machine_prefix(self._inputs)
        length = len(prefix) + RANDOM
        called = f"{prefix}xxxxxx" if self._inputs.machine_pool else f"{prefix}-xxxxx"
        if not re.fullmatch(self._provider.name_pattern, prefix):
            yield self.finding(
                "error", ("machineNamePrefix",), f"{prefix!r} cannot begin a machine's name on {self._provider.name}"
            )
        elif length > self._provider.longest_name:
            yield self.finding(
                "error",
                ("machineNamePrefix",),
                f"machines are called {called}, {length} characters; {self._provider.name} takes "
                f"{self._provider.longest_name} for Windows: give a prefix of at most {self._provider.longest_name - RANDOM}",
            )
        elif length > NETBIOS:
            yield self.finding(
                "warning",
                ("machineNamePrefix",),
                f"machines are called {called}, {length} characters; NetBIOS cuts a computer's name after {NETBIOS}: "
                f"give a prefix of at most {NETBIOS - RANDOM} where that matters",
            )

    def _versions(self) -> Iterator[Finding]:
        inputs = self._inputs
        sound = True
        for field, version in (
            ("kubernetesVersion", inputs.kubernetes_version),
            ("controlPlaneVersion", inputs.control_plane_version),
        ):
            if not VERSION.match(version) and (version or field == "kubernetesVersion"):
                yield self.finding("error", (field,), f"{version!r} is no version of the form v1.N.M")
                sound = False
        if inputs.control_plane_version and sound:
            yield from self._skew()
        if sound and minor(inputs.kubernetes_version) not in PAUSE:
            yield self.finding(
                "warning",
                ("kubernetesVersion",),
                f"{inputs.kubernetes_version}: workers are made for Kubernetes 1.{min(PAUSE)} to 1.{max(PAUSE)}, "
                "and nothing is known of this one",
            )
        if inputs.windows == SUPERSEDED:
            yield self.finding(
                "warning", ("windows",), "Windows Server 2019 gets security updates alone, until January 2029: 2022 or 2025"
            )
        if inputs.windows not in RELEASES:
            yield self.finding(
                "error",
                ("windows",),
                f"Kubernetes does not list Windows Server {inputs.windows!r}: one of {', '.join(RELEASES)}",
            )

    def _network(self) -> Iterator[Finding]:
        inputs = self._inputs
        if inputs.cni == "none" and not inputs.network_name:
            message = "missing: kube-proxy waits for the pods' network, and has to know what HNS calls it (Get-HnsNetwork)"
            yield self.finding("error", ("networkName",), message)
        elif inputs.network_name and not _NETWORK.match(inputs.network_name):
            message = f"{inputs.network_name!r}: at most 64 letters, digits and `._-`"
            yield self.finding("error", ("networkName",), message)
        elif inputs.network_name and inputs.cni != "none":
            message = f"{inputs.cni} calls its network {daemons.NETWORKS[inputs.cni]}: a name is for `cni: none`"
            yield self.finding("error", ("networkName",), message)
        for field, cidrs in (("serviceCidr", inputs.service_cidr), ("podCidr", inputs.pod_cidr)):
            for cidr in filter(None, cidrs.split(",")):
                if not _is_network(cidr):
                    yield self.finding("error", (field,), f"{cidr!r} is no network such as {SERVICE_CIDR}")
        if inputs.api_server and not _ENDPOINT.match(inputs.api_server):
            yield self.finding("error", ("apiServer",), f"{inputs.api_server!r}: host:port, such as prod.example.com:6443")
        for name in inputs.daemon_images:
            if name != "kube-proxy":
                yield self.finding("error", ("daemonImages", name), "there is no such daemon here: kube-proxy alone")
        if VERSION.match(inputs.kubernetes_version) and minor(inputs.kubernetes_version) < minor(KUBE_PROXY_OLDEST.value):
            yield from self._old_image()

    def _old_image(self) -> Iterator[Finding]:
        if self._inputs.daemons == "hostprocess" and "kube-proxy" not in self._inputs.daemon_images:
            message = (
                f"upstream builds images of kube-proxy for Windows from v{KUBE_PROXY_OLDEST.value} on: whether there is "
                f"{daemons.images(self._inputs)['kube-proxy']} must be seen; daemonImages names another"
            )
            yield self.finding("warning", ("daemonImages", "kube-proxy"), message)

    def _skew(self) -> Iterator[Finding]:
        ours, theirs = self._inputs.kubernetes_version, self._inputs.control_plane_version
        if minor(ours) > minor(theirs):
            message = f"{ours} is newer than the control plane's {theirs}: upgrade that first"
            yield self.finding("error", ("kubernetesVersion",), message)
        elif minor(ours) < minor(theirs) - OLDER:
            message = f"{ours} is more than {OLDER} minor versions older than the control plane's {theirs}"
            yield self.finding("error", ("kubernetesVersion",), message)

    def _pool(self) -> Iterator[Finding]:
        if not self._inputs.machine_pool:
            return
        pool = self._provider.pool
        if pool is None:
            message = f"{self._provider.name} makes no MachinePool here: aws and azure do"
            yield self.finding("error", ("machinePool",), message)
            return
        for field, message in pool.problems(self._inputs):
            yield self.finding("error", field, message)

    def _store(self) -> Iterator[Finding]:
        store = self._inputs.secret_store
        if self._inputs.machine_pool:
            return
        if store and store not in self._provider.secret_stores:
            yield self.finding("error", ("secretStore",), f"{self._provider.name} has no {store}: {self._provider.no_store}")
        elif store:
            yield self.finding("warning", ("secretStore",), f"the bootstrap data is kept in {store}: that needs {_STORE_NEED}")
        elif self._provider.secret_stores:
            yield self.finding(
                "warning",
                ("secretStore",),
                "the join token stands in the user data, which whatever runs on the machine can read: "
                f"--secret-store {self._provider.secret_stores[0]} keeps it out",
            )

    def _join(self) -> Iterator[Finding]:
        for index, server in enumerate(self._inputs.ntp_servers):
            if not _SERVER.match(server):
                yield self.finding("error", ("ntpServers", index), f"{server!r} is no name and no address of a server")
        if self._inputs.verbosity is not None and not 0 <= self._inputs.verbosity <= _MOST_VERBOSE:
            yield self.finding("error", ("verbosity",), f"{self._inputs.verbosity}: a number from 0 to {_MOST_VERBOSE}")
        for index, phase in enumerate(self._inputs.skip_phases):
            if phase not in JOIN_PHASES.value.split(", "):
                message = f"{phase!r}: a worker's join can do without {JOIN_PHASES.value}"
                yield self.finding("error", ("skipPhases", index), message)
        if self._inputs.patches and not _PATH.match(self._inputs.patches):
            yield self.finding("error", ("patches",), f"{self._inputs.patches!r} is no path on drive C")

    def _key_pair(self) -> Iterator[Finding]:
        inputs = self._inputs
        if inputs.key_pair and inputs.provider != "aws":
            yield self.finding("error", ("keyPair",), f"{inputs.provider} has no key pairs: `users` have sshAuthorizedKeys")
        if inputs.provider == "aws" and inputs.image and inputs.machine.get("sshKeyName") == "":
            yield self.finding(
                "error",
                ("machine", "sshKeyName"),
                "without a key pair cloudbase-init finds no public keys in EC2's metadata and reads no user data, "
                "but in images of `transom capi image`: give `keyPair`, or no `image`: such a one is looked up by name",
            )

    def _of_file(self, index: int, file: InputFile) -> Iterator[Finding]:
        if not _PATH.match(file.path) or len(file.path) > 512:
            yield self.finding(
                "error",
                ("files", index, "path"),
                f"{file.path!r}: a path on drive C of letters, digits and `._-`, like C:/k/site.conf",
            )
        elif _windows_path(file) in RESERVED:
            yield self.finding("error", ("files", index, "path"), f"{file.path} is Transom's own: choose another name")
        elif (first := self._first_of(file)) < index:
            yield self.finding("error", ("files", index, "path"), f"{file.path} stands twice: files[{first}] has it, too")
        if not _PERMISSIONS.match(file.permissions):
            yield self.finding("error", ("files", index, "permissions"), f"{file.permissions!r}: four octal digits, like 0644")

    def _first_of(self, file: InputFile) -> int:
        """The place of the first file of that path, as Windows compares paths."""
        return next(place for place, one in enumerate(self._inputs.files) if _windows_path(one) == _windows_path(file))

    def _of_user(self, index: int, user: InputUser) -> Iterator[Finding]:
        if not _USER.match(user.name) or user.name.casefold() in _BOOLEAN:
            yield self.finding("error", ("users", index, "name"), f"{user.name!r}: at most 20 letters, digits and `._-`")
        for number, group in enumerate(user.groups):
            if not _GROUP.match(group) or group.casefold() in _BOOLEAN:
                yield self.finding("error", ("users", index, "groups", number), f"{group!r} is no name of a group here")
        for number, key in enumerate(user.ssh_authorized_keys):
            if not _SSH_KEY.match(key):
                path = ("users", index, "sshAuthorizedKeys", number)
                yield self.finding("error", path, "no line of an authorized_keys file: type, key, and a comment without blanks")

    def _of_commands(self, field: str, commands: Sequence[str]) -> Iterator[Finding]:
        for index, command in enumerate(commands):
            for problem in command_problems(command):
                yield self.finding("error", (field, index), problem)

    def _images(self) -> Iterator[Finding]:
        release = RELEASES.get(self._inputs.windows)
        if release is None:
            return
        for index, image in enumerate(self._inputs.images):
            found = next((other for other in RELEASES.values() if other.tag in image or other.build in image), None)
            if found is not None and found is not release:
                yield self.finding(
                    "error",
                    ("images", index),
                    f"{image} is for Windows Server {found.year} (build {found.build}); these machines are {release.year} "
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
        daemons.START,
        daemons.SERVICE,
        daemons.SOURCE_VIP,
        "C:/k/kube-proxy-start.cmd",
        "C:/k/kube-proxy.conf",
    )
)


def _windows_path(file: InputFile) -> str:
    return file.path.replace("\\", "/").casefold()


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
