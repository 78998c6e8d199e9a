"""How large a machine's user data becomes: the text that CABPK makes of a KubeadmConfigSpec, with a token of the usual length.

The layout is that of Cluster API 1.14's template for a joining node; tests hold it against the real program's output.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import msgspec


class UserDataLimit(msgspec.Struct, frozen=True):
    """How much user data a machine can have, in bytes, as the provider counts: gzipped where it does so, then in base64.

    `remedy` is what else there is to do where it is too much.
    """

    most: int
    gzip: bool
    base64: bool
    source: str
    remedy: str = ""


_JOIN = """---
apiVersion: kubeadm.k8s.io/v1beta4
caCertPath: ""
discovery:
  bootstrapToken:
    apiServerEndpoint: {endpoint}
    caCertHashes:
    - sha256:{digest}
    token: {token}
    unsafeSkipCAVerification: false
  tlsBootstrapToken: ""
kind: JoinConfiguration
{registration}
"""
_PLACEHOLDER = (
    "-   path: /run/cluster-api/placeholder\n    owner: root:root\n    permissions: '0640'\n    content: \"This placeholder "
    "file is used to create the /run/cluster-api sub directory in a way that is compatible with both Linux and Windows (mkdir "
    '-p /run/cluster-api does not work with Windows)"\n'
)
_KUBEADM = (
    "  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml {verbosity} && echo success > "
    "/run/cluster-api/bootstrap-success.complete\n"
)


def render_user_data(spec: Mapping[str, Any], texts: Mapping[tuple[str, str], str]) -> bytes:
    """Render the text; `texts` are the values of Secrets by name and key. Unknown and missing values count as empty."""
    parts = ["## template: jinja\n#cloud-config\n\nwrite_files:\n"]
    parts += [_render_file(file, texts) for file in spec.get("files") or ()]
    join = _JOIN.format(
        endpoint="an-api-server.with-a-name-of-the-usual-length.example.com:6443",
        digest="0123456789abcdef" * 4,
        token="a" * 6 + "." + "b" * 16,
        registration=json.dumps(spec["joinConfiguration"], indent=2),
    )
    parts.append(
        "-   path: /run/kubeadm/kubeadm-join-config.yaml\n    owner: root:root\n    permissions: '0640'\n    content: |\n"
    )
    parts += [_indent(join), _PLACEHOLDER, "runcmd:\n"]
    parts += [_render_command(command) for command in spec.get("preKubeadmCommands") or ()]
    parts.append(_KUBEADM.format(verbosity=f"--v {spec['verbosity']}" if "verbosity" in spec else ""))
    parts += [_render_command(command) for command in spec.get("postKubeadmCommands") or ()]
    if servers := (spec.get("ntp") or {}).get("servers"):
        parts += ["ntp:\n  enabled: true\n  servers:\n", *(f"    - {server}\n" for server in servers)]
    parts += [_render_user(user) for user in spec.get("users") or ()]
    return "".join(parts).encode()


def measure_size(text: bytes, limit: UserDataLimit) -> int:
    """Return the number of bytes that the provider counts."""
    if limit.gzip:
        text = gzip.compress(text, mtime=0)
    return len(base64.b64encode(text)) if limit.base64 else len(text)


def _render_file(file: Mapping[str, Any], texts: Mapping[tuple[str, str], str]) -> str:
    source = (file.get("contentFrom") or {}).get("secret") or {}
    content = texts.get((source.get("name", ""), source.get("key", "")), "") if source else str(file.get("content", ""))
    head = f"-   path: {file.get('path', '')}\n" + (f'    encoding: "{file["encoding"]}"\n' if "encoding" in file else "")
    return head + f"    permissions: '{file.get('permissions', '')}'\n    content: |\n" + _indent(content)


def _render_command(command: str) -> str:
    return f"  - {json.dumps(command)}\n"


def _indent(text: str) -> str:
    return "".join(f"      {line}\n" for line in text.splitlines())


def _render_user(user: Mapping[str, Any]) -> str:
    keys = "".join(f"      - {key}\n" for key in user.get("sshAuthorizedKeys") or ())
    return f"users:\n  - name: {user.get('name', '')}\n    groups: {user.get('groups', '')}\n    ssh_authorized_keys:\n{keys}"
