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

import msgspec

from transom.capi.bootstrap.kubeadm import ContentSource, Entries, File, SecretKey, encode_file
from transom.capi.worker.file_content import read_script
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.host_state import ObservedState, Service, ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.parts import certificates
from transom.windows.planning.planner import build_desired_settings, plan
from transom.windows.registry import reg
from transom.windows.registry.names import is_listed
from transom.windows.registry.registry import Key, Registry

KEY = "proxyReg"
"""The key of the Secret; its value is `encode_proxy_reg`."""
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


def build_secret_name(cluster_id: str) -> str:
    """Return the name of the Secret with the file for a cluster's Windows machines."""
    return f"{cluster_id}-windows-proxy"


def render_proxy_reg(egress: Egress, cluster_id: str) -> bytes:
    r"""Render the `.reg` file: the result of a plan for a new machine, with its ledger. It contains credentials.

    Settings without proxy and CA give a file that changes nothing. The ledger's salt comes from the cluster's id, so that the
    same settings give the same file. It is next to the salted values on every machine, and hides nothing from a reader of the
    file.
    """
    salt = hashlib.sha256(f"transom windows-proxy {cluster_id}".encode()).digest()[:16]
    # its script imports registry values alone
    desired = msgspec.structs.replace(build_desired_settings(egress), profile="")
    return reg.render(plan(desired, _build_image_state(egress), salt).edits)


def encode_proxy_reg(egress: Egress, cluster_id: str) -> Secret:
    """Return the `.reg` file, gzipped (without a time) and in base64: the value of `KEY` in the Secret."""
    return Secret(base64.b64encode(gzip.compress(render_proxy_reg(egress, cluster_id), mtime=0)).decode("ascii"))


def build_windows_entries(secret: str) -> Entries:
    """Build the entries of a KubeadmConfigSpec: the file by reference to the Secret, the script, and its two calls.

    The first call and what stops the join come first of all commands before it, and the other call last of those after it.
    """
    return Entries(
        files=(
            File(
                PROXY_REG,
                permissions="0600",
                encoding="gzip+base64",
                content_from=ContentSource(SecretKey(secret, KEY)),
            ),
            encode_file(PROXY_CMD, read_script("proxy.cmd")),
        ),
        pre=(BEFORE_JOIN, OR_STOP),
        post=(AFTER_JOIN,),
    )


def _build_image_state(egress: Egress) -> ObservedState:
    """Return the state of a worker's image before its first boot: its services, stopped, and empty certificate stores."""
    services = tuple(name for name in IMAGE_SERVICES if is_listed(name, egress.windows.services))
    keys = [rf"{SERVICES}\{name}" for name in services]
    keys += [certificates.get_store_path(name) for name in (certificates.ROOT, certificates.CA)]
    return ObservedState(
        _build_empty_keys(keys), tuple(Service(name, ServiceState.STOPPED) for name in services), dependencies={}
    )


def _build_empty_keys(paths: Iterable[str]) -> Registry:
    return Registry(Key(path, MappingProxyType({})) for path in paths)
