"""What a Linux machine of a workload cluster gets of the egress settings: drop-ins, the CA, and kubeadm's environment."""

from collections.abc import Iterable, Iterator
from typing import Final

from transom.capi.kubeadm import ContentSource, Entries, File, SecretKey
from transom.capi.objects import CONTAINERD_PROXY, ENV
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate, pem

DROP_INS: Final = tuple(f"/etc/systemd/system/{service}.service.d/http-proxy.conf" for service in ("containerd", "kubelet"))
ENV_FILE: Final = "/etc/transom/proxy.env"
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
RESTART: Final = f"systemctl daemon-reload && systemctl try-restart containerd || true{MARK}"
"""cloud-init writes files when systemd has read its units already; kubeadm itself starts the kubelet, containerd runs."""
_LARGEST: Final = 10_000
"""Characters of a file; Cluster API's v1beta2 takes 10,240."""


def linux_entries(secret: str, egress: Egress, *, control_plane: bool = False) -> Entries:
    """What a KubeadmConfigSpec gets; nothing where the settings are empty or for others. `secret` is `<id>-systemd-proxy`.

    The proxy stands in the Secret alone, so that a change of it changes no template. Certificates are no secret, and their
    ConfigMap cannot be referred to (`contentFrom` knows Secrets): they stand in the entries. The commands come before all
    others.
    """
    nodes, proxied = "Nodes" in egress.consumers, bool(egress.http_proxy or egress.https_proxy)
    entries = Entries()
    if nodes and proxied:
        entries += Entries(tuple(_from_secret(path, secret, CONTAINERD_PROXY) for path in DROP_INS))
    if "StaticPods" in egress.consumers and proxied and control_plane:
        entries += Entries((_from_secret(ENV_FILE, secret, ENV),), (READ_ENV,))
    if nodes and egress.trust:
        entries += Entries(tuple(_ca_files(egress.trust)), (TRUST,))
    if nodes and (proxied or egress.trust):
        entries += Entries(pre=(RESTART,))
    return entries


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
