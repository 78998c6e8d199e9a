"""What a Linux machine of a workload cluster gets of the egress settings: drop-ins, the CA, and kubeadm's environment."""

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.kubeadm import ContentSource, Entries, File, SecretKey
from transom.capi.values.cluster_objects import CONTAINERD_PROXY, ENV, SHELL, build_systemd_data
from transom.common.mappings import get_nested_value
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate, format_pem

_DROP_IN: Final = "/etc/systemd/system/{}.service.d/http-proxy.conf"
DROP_INS: Final = tuple(map(_DROP_IN.format, ("containerd", "kubelet")))
"""Those of a machine whose template says nothing else."""
_RUNTIMES: Final = {"crio": "crio", "cri-dockerd": "docker"}
"""By what a criSocket has in it, the service that pulls: kubeadm, cmd/kubeadm/app/constants/constants_unix.go has the sockets,
cri-o, contrib/systemd/crio.service and docker, "Daemon proxy configuration" the services."""
ENV_FILE: Final = "/etc/transom/proxy.env"
MACHINE_ENV: Final = "/etc/transom/machine.env"
PROFILE: Final = "/etc/profile.d/transom-proxy.sh"
_SCRIPT: Final = "/etc/transom/machine-environment.sh"
_FROM_SECRETS: Final = frozenset((*DROP_INS, *map(_DROP_IN.format, _RUNTIMES.values()), ENV_FILE, MACHINE_ENV))
_OF_TEXT: Final = frozenset((PROFILE, _SCRIPT))
CA_STEM: Final = "/etc/transom/egress-ca"
MARK: Final = " # transom"
"""The end of each of Transom's commands."""
READ_ENV: Final = f"set -a; [ ! -e {ENV_FILE} ] || . {ENV_FILE}; set +a{MARK}"
"""kubeadm copies every `*_proxy` of its environment into the static pods (kubeadm, `GetProxyEnvVars`); runcmd and the script
of Ignition are one shell for all commands."""
TRUST: Final = (
    "if command -v update-ca-trust >/dev/null; then"
    f" cp {CA_STEM}*.crt /etc/pki/ca-trust/source/anchors/ && update-ca-trust;"
    " elif [ -d /usr/local/share/ca-certificates ]; then"
    f" cp {CA_STEM}*.crt /usr/local/share/ca-certificates/ && update-ca-certificates;"
    f" else for ca in {CA_STEM}*.crt; do"
    ' cp "$ca" "/etc/ssl/certs/transom-$(basename "$ca" .crt).pem"; done; update-ca-certificates; fi'
    f"{MARK}"
)
"""Red Hat's way, Debian's, and that of Flatcar, which reads `/etc/ssl/certs/*.pem`."""
_READ_MACHINE_ENV: Final = f"[ ! -r {MACHINE_ENV} ] || {{ set -a; . {MACHINE_ENV}; set +a; }}"
READ_MACHINE_ENV: Final = f"{_READ_MACHINE_ENV}{MARK}"
"""For the commands of a worker that come after it; a control plane's kubeadm would copy them into static pods."""
SET_MACHINE_ENV: Final = f"sh {_SCRIPT}{MARK}"


def build_restart_command(services: Iterable[str]) -> str:
    """Build the command that restarts running services with their drop-ins. It names the drop-ins."""
    return f"systemctl daemon-reload && systemctl try-restart {' '.join(services)} || true{MARK}"


_RESTARTED: Final = re.compile(build_restart_command(["(.*)"]).replace("||", r"\|\|"))
RESTART: Final = build_restart_command(["containerd"])
"""cloud-init writes files when systemd has read its units already; kubeadm itself starts the kubelet, containerd runs."""
_LARGEST: Final = 10_000
"""Characters of a file; Cluster API's v1beta2 takes 10,240."""


def find_runtime_service(spec: Mapping[str, Any]) -> str:
    """Return the service that pulls images on the machines of a KubeadmConfigSpec, by its criSocket."""
    for configuration in ("joinConfiguration", "initConfiguration"):
        socket = str(get_nested_value(spec, configuration, "nodeRegistration", "criSocket") or "")
        for part, service in _RUNTIMES.items():
            if part in socket:
                return service
    return "containerd"


def build_linux_entries(secret: str, egress: Egress, *, control_plane: bool = False, runtime: str = "containerd") -> Entries:
    """Build the entries of a KubeadmConfigSpec; none where the settings are empty or for others.

    `secret` is `<id>-systemd-proxy`. Only the Secret contains the proxy, so that a change of it changes no template.
    Certificates are not secret, and their ConfigMap cannot be referred to (`contentFrom` supports Secrets): the entries
    contain them. The commands come before all others.
    """
    nodes, proxied = "Nodes" in egress.consumers, bool(egress.http_proxy or egress.https_proxy)
    running = tuple(dict.fromkeys((runtime, *egress.linux.services)))
    entries = Entries()
    if nodes and proxied:
        entries += build_drop_ins(secret, (runtime, "kubelet", *egress.linux.services))
    if "StaticPods" in egress.consumers and proxied and control_plane:
        entries += Entries((_build_secret_file(ENV_FILE, secret, ENV),), (READ_ENV,))
    if nodes and proxied and egress.linux.environment_scope == "Both":
        entries += build_machine_environment(secret, commands=not control_plane)
    if nodes and egress.trust:
        entries += build_trust_entries(egress.trust)
    if nodes and (proxied or egress.trust):
        entries += Entries(pre=(build_restart_command(running),))
    return entries


def build_drop_ins(secret: str, services: Iterable[str]) -> Entries:
    """Build the drop-in of each service."""
    return Entries(
        tuple(_build_secret_file(_DROP_IN.format(fromkey), secret, CONTAINERD_PROXY) for fromkey in dict.fromkeys(services))
    )


def build_machine_environment(secret: str, *, commands: bool) -> Entries:
    """Build the environment of the whole machine; with `commands`, also of the commands after Transom's."""
    files = (
        _build_secret_file(MACHINE_ENV, secret, SHELL),
        File(_SCRIPT, permissions="0755", content=_read_script()),
        File(PROFILE, permissions="0644", content=f"{_READ_MACHINE_ENV}\n"),
    )
    return Entries(files, (SET_MACHINE_ENV, *((READ_MACHINE_ENV,) if commands else ())))


def build_command_environment(secret: str) -> Entries:
    """Build the environment of only the commands after Transom's."""
    return Entries((_build_secret_file(MACHINE_ENV, secret, SHELL),), (READ_MACHINE_ENV,))


def build_trust_entries(certificates: Iterable[Certificate]) -> Entries:
    """Build the bundle, and the command by which the machine trusts it."""
    return Entries(tuple(_iter_ca_files(certificates)), (TRUST,))


def list_secret_paths(commands: Iterable[str]) -> frozenset[str]:
    """Return the paths of Transom's files that come from a Secret, by Transom's commands."""
    drop_in_paths = (match[1].split() for command in commands if (match := _RESTARTED.fullmatch(command)))
    return _FROM_SECRETS.union(_DROP_IN.format(service) for services in drop_in_paths for service in services)


def is_own_path(path: str) -> bool:
    """Return True if Transom writes a file of that path, without a Secret."""
    return path in _OF_TEXT or path.startswith(CA_STEM)


def _read_script() -> str:
    return (importlib.resources.files("transom.linux") / "machine-environment.sh").read_text("ascii")


def _build_secret_file(path: str, secret: str, key: str) -> File:
    return File(path, permissions="0600", content_from=ContentSource(SecretKey(secret, key)))


def _iter_ca_files(certificates: Iterable[Certificate]) -> Iterator[File]:
    """Iterate over the files of the bundle, several if it is too long for one."""
    for number, text in enumerate(_split_bundle(certificates), 1):
        yield File(f"{CA_STEM}.crt" if number == 1 else f"{CA_STEM}-{number}.crt", permissions="0644", content=text)


def _split_bundle(certificates: Iterable[Certificate]) -> Iterator[str]:
    part = ""
    for certificate in certificates:
        text = format_pem([certificate])
        if part and len(part) + len(text) > _LARGEST:
            yield part
            part = ""
        part += text
    if part:
        yield part


COMMANDS: Final = "commands.sh"
KIND_ENV: Final = "kind.env"
"""For the shell that runs kind: it hands the three variables, with its own networks added, on to its nodes
(kubernetes-sigs/kind, pkg/cluster/internal/providers/common/proxy.go)."""


class PlacedFile(msgspec.Struct, frozen=True):
    """A file by its path below the directory that is written, with its content and its permissions."""

    path: str
    content: Secret
    mode: int = 0o600


def build_first_machine_files(egress: Egress) -> tuple[PlacedFile, ...]:
    """Build the files to copy onto the machine, the commands for the shell that runs kubeadm, and kind's environment.

    None where the settings are for no machine.
    """
    entries = build_linux_entries("", egress, control_plane=True)
    if not entries.files:
        return ()
    data = build_systemd_data(egress)
    placed = [
        PlacedFile(file.path.lstrip("/"), _get_file_content(file, data), int(file.permissions, 8)) for file in entries.files
    ]
    return (*placed, PlacedFile(COMMANDS, Secret(_build_first_machine_script(entries))), PlacedFile(KIND_ENV, data[SHELL]))


def _get_file_content(file: File, data: dict[str, Secret]) -> Secret:
    return data[file.content_from.secret.key] if file.content_from is not None else Secret(file.content)


def _build_first_machine_script(entries: Entries) -> str:
    return "".join(f"{command}\n" for command in entries.pre)
