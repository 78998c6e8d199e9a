"""What a Linux machine of a workload cluster gets of the egress settings: drop-ins, the CA, and kubeadm's environment."""

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.kubeadm import ContentSource, Entries, File, SecretKey
from transom.capi.objects import CONTAINERD_PROXY, ENV, SHELL, systemd_data
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate, pem

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
"""Ends each command of ours."""
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


def restart(services: Iterable[str]) -> str:
    """The command after which services that run have their drop-ins. It says which drop-ins were put there."""
    return f"systemctl daemon-reload && systemctl try-restart {' '.join(services)} || true{MARK}"


_RESTARTED: Final = re.compile(restart(["(.*)"]).replace("||", r"\|\|"))
RESTART: Final = restart(["containerd"])
"""cloud-init writes files when systemd has read its units already; kubeadm itself starts the kubelet, containerd runs."""
_LARGEST: Final = 10_000
"""Characters of a file; Cluster API's v1beta2 takes 10,240."""


def runtime_of(spec: Mapping[str, Any]) -> str:
    """The service that pulls images on the machines of a KubeadmConfigSpec, by its criSocket."""
    for configuration in ("joinConfiguration", "initConfiguration"):
        socket = str(((spec.get(configuration) or {}).get("nodeRegistration") or {}).get("criSocket") or "")
        for part, service in _RUNTIMES.items():
            if part in socket:
                return service
    return "containerd"


def linux_entries(secret: str, egress: Egress, *, control_plane: bool = False, runtime: str = "containerd") -> Entries:
    """What a KubeadmConfigSpec gets; nothing where the settings are empty or for others. `secret` is `<id>-systemd-proxy`.

    The proxy stands in the Secret alone, so that a change of it changes no template. Certificates are no secret, and their
    ConfigMap cannot be referred to (`contentFrom` knows Secrets): they stand in the entries. The commands come before all
    others.
    """
    nodes, proxied = "Nodes" in egress.consumers, bool(egress.http_proxy or egress.https_proxy)
    running = tuple(dict.fromkeys((runtime, *egress.linux.services)))
    entries = Entries()
    if nodes and proxied:
        entries += drop_ins(secret, (runtime, "kubelet", *egress.linux.services))
    if "StaticPods" in egress.consumers and proxied and control_plane:
        entries += Entries((_from_secret(ENV_FILE, secret, ENV),), (READ_ENV,))
    if nodes and proxied and egress.linux.environment_scope == "Both":
        entries += machine_environment(secret, commands=not control_plane)
    if nodes and egress.trust:
        entries += trusted(egress.trust)
    if nodes and (proxied or egress.trust):
        entries += Entries(pre=(restart(running),))
    return entries


def drop_ins(secret: str, services: Iterable[str]) -> Entries:
    """The drop-in of each service."""
    return Entries(tuple(_from_secret(_DROP_IN.format(one), secret, CONTAINERD_PROXY) for one in dict.fromkeys(services)))


def machine_environment(secret: str, *, commands: bool) -> Entries:
    """The environment of all of the machine; with `commands`, of those that come after ours, too."""
    files = (
        _from_secret(MACHINE_ENV, secret, SHELL),
        File(_SCRIPT, permissions="0755", content=_script()),
        File(PROFILE, permissions="0644", content=f"{_READ_MACHINE_ENV}\n"),
    )
    return Entries(files, (SET_MACHINE_ENV, *((READ_MACHINE_ENV,) if commands else ())))


def command_environment(secret: str) -> Entries:
    """The environment of the commands that come after ours, and of nothing else."""
    return Entries((_from_secret(MACHINE_ENV, secret, SHELL),), (READ_MACHINE_ENV,))


def trusted(certificates: Iterable[Certificate]) -> Entries:
    """The bundle, and the command by which the machine trusts it."""
    return Entries(tuple(_ca_files(certificates)), (TRUST,))


def paths_from_secrets(commands: Iterable[str]) -> frozenset[str]:
    """Where files of ours are that come from a Secret, beside these commands of ours."""
    found = (match[1].split() for command in commands if (match := _RESTARTED.fullmatch(command)))
    return _FROM_SECRETS.union(_DROP_IN.format(service) for services in found for service in services)


def is_ours(path: str) -> bool:
    """Whether a file of that path, which comes from no Secret, is one that is put there here."""
    return path in _OF_TEXT or path.startswith(CA_STEM)


def _script() -> str:
    return (importlib.resources.files("transom.linux") / "machine-environment.sh").read_text("ascii")


def _from_secret(path: str, secret: str, key: str) -> File:
    return File(path, permissions="0600", content_from=ContentSource(SecretKey(secret, key)))


def _ca_files(certificates: Iterable[Certificate]) -> Iterator[File]:
    """The bundle as one file, or as several where it is too long for one."""
    for number, text in enumerate(_parts(certificates), 1):
        yield File(f"{CA_STEM}.crt" if number == 1 else f"{CA_STEM}-{number}.crt", permissions="0644", content=text)


def _parts(certificates: Iterable[Certificate]) -> Iterator[str]:
    part = ""
    for certificate in certificates:
        text = pem([certificate])
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


def first_machine_files(egress: Egress) -> tuple[PlacedFile, ...]:
    """What to copy onto the machine, the commands to run in the shell that runs kubeadm, and kind's environment.

    None where the settings are for no machine.
    """
    entries = linux_entries("", egress, control_plane=True)
    if not entries.files:
        return ()
    data = systemd_data(egress)
    placed = [PlacedFile(file.path.lstrip("/"), _first_content(file, data), int(file.permissions, 8)) for file in entries.files]
    return (*placed, PlacedFile(COMMANDS, Secret(_first_script(entries))), PlacedFile(KIND_ENV, data[SHELL]))


def _first_content(file: File, data: dict[str, Secret]) -> Secret:
    return data[file.content_from.secret.key] if file.content_from is not None else Secret(file.content)


def _first_script(entries: Entries) -> str:
    return "".join(f"{command}\n" for command in entries.pre)
