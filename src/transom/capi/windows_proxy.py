r"""The egress settings on a Windows machine before its first image pull.

The same plan as over SSH makes a file `C:/k/proxy.reg`, and a script imports it before `kubeadm join`. It imports it once more
afterwards: whatever re-creates the kubelet's service takes its environment away. The ledger is in the file: a pass over SSH
finds nothing left to do.
"""

import base64
import gzip
import hashlib
from collections.abc import Iterable
from types import MappingProxyType

from transom.capi.content import script
from transom.capi.kubeadm import ContentSource, Entries, File, SecretKey, encoded
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host import ObservedState, Service, ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.parts import certificates
from transom.windows.planning import desired_settings, plan
from transom.windows.registry import Key, Registry, reg
from transom.windows.registry.names import listed

KEY = "proxyReg"
"""The key of the Secret; its value is `secret_value`."""
PROXY_REG = "C:/k/proxy.reg"
PROXY_CMD = "C:/k/proxy.cmd"
IMAGE_SERVICES = ("containerd", "kubelet")
"""The services of a worker's image that take the settings."""
BEFORE_JOIN = r"cmd.exe /d /c C:\k\proxy.cmd"
OR_STOP = "if errorlevel 1 exit /b 1"
"""After it: a machine without its proxy does not join, the script of all commands ends. No `||`, which Wine reads otherwise."""
AFTER_JOIN = r"cmd.exe /d /c C:\k\proxy.cmd after-join"
CALLS = (BEFORE_JOIN, OR_STOP, AFTER_JOIN)
"""Ours, wherever they stand."""


def secret_name(cluster_id: str) -> str:
    """The Secret that holds the file of a cluster's Windows machines."""
    return f"{cluster_id}-windows-proxy"


def proxy_reg(egress: Egress, cluster_id: str) -> bytes:
    r"""The `.reg` file: what a plan makes of a new machine, the ledger with it. It holds credentials.

    Settings without proxy and CA give a file that changes nothing. The ledger's salt comes from the cluster's id, so that the
    same settings give the same file. It lies beside what it salts on every machine, and hides nothing from a reader of the
    file.
    """
    salt = hashlib.sha256(f"transom windows-proxy {cluster_id}".encode()).digest()[:16]
    return reg.render(plan(desired_settings(egress), _image(egress), salt).edits)


def secret_value(egress: Egress, cluster_id: str) -> Secret:
    """`proxy_reg`, gzipped (without a time) and in base64: the text that stands in the Secret under `KEY`."""
    return Secret(base64.b64encode(gzip.compress(proxy_reg(egress, cluster_id), mtime=0)).decode("ascii"))


def entries(secret: str) -> Entries:
    """What a KubeadmConfigSpec gets: the file by reference to the Secret, the script, and the two calls of it.

    The call and what stops the join come first of all commands before it, and the other call last of those after it.
    """
    return Entries(
        files=(
            File(
                PROXY_REG,
                permissions="0600",
                encoding="gzip+base64",
                content_from=ContentSource(SecretKey(secret, KEY)),
            ),
            encoded(PROXY_CMD, script("proxy.cmd")),
        ),
        pre=(BEFORE_JOIN, OR_STOP),
        post=(AFTER_JOIN,),
    )


def _image(egress: Egress) -> ObservedState:
    """A worker's image before its first boot: its services, stopped, and certificate stores with nothing in them."""
    services = tuple(name for name in IMAGE_SERVICES if listed(name, egress.windows.services))
    keys = [rf"{SERVICES}\{name}" for name in services]
    keys += [certificates.store(name) for name in (certificates.ROOT, certificates.CA)]
    return ObservedState(_empty(keys), tuple(Service(name, ServiceState.STOPPED) for name in services), dependencies={})


def _empty(paths: Iterable[str]) -> Registry:
    return Registry(Key(path, MappingProxyType({})) for path in paths)
