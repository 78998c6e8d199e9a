"""First-boot data: what a new Windows machine runs so that it can be reached over SSH, behind a proxy too.

The script runs at every boot (`persist`), so each part asks before it acts. It holds nothing secret: instance metadata can be
read by whoever runs on the machine.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate
from transom.windows import certificates, winhttp
from transom.windows.first_boot import SCRIPT

OPENSSH_MSI: Final = (
    "https://github.com/PowerShell/Win32-OpenSSH/releases/download/v9.8.3.0p2-Preview/OpenSSH-Win64-v9.8.3.0.msi"
)
COMMENT: Final = "transom"
"""The comment of the public key in `administrators_authorized_keys`: the line is Transom's."""
_LIMITS: Final = {"AZURE": 64 * 1024, "GCP": 256 * 1024, "VSPHERE": 64 * 1024, "NUTANIX": 32 * 1024}
_LEAST: Final = 16 * 1024
"""Bytes that AWS takes before it encodes them ("Run commands when you launch an EC2 instance"), and the least of all."""


class UserData(msgspec.Struct, frozen=True):
    """The text, and the certificates that it has no room for: hosts get those with their first pass."""

    text: str
    left_out: tuple[Certificate, ...] = ()


def user_data(public_key: str, egress: Egress, *, platform: str = "", openssh_msi: str = OPENSSH_MSI) -> UserData:
    """User data for a key (type and base64, as in `id_ed25519.pub`) and the settings of the cluster.

    `platform` is the type of OpenShift's Infrastructure: GCP takes a bare script, the others one in tags. `openssh_msi` is
    where the installer of OpenSSH is when Windows cannot get the capability. Raises ValueError for a URL that is not https,
    and for a key that is not one line.
    """
    limit = _LIMITS.get(platform.upper(), _LEAST)
    kept: list[Certificate] = []
    text = _text(public_key, egress, kept, platform, openssh_msi)
    left_out = []
    for certificate in egress.trust:
        longer = _text(public_key, egress, [*kept, certificate], platform, openssh_msi)
        if len(longer.encode()) > limit:
            left_out.append(certificate)
        else:
            kept.append(certificate)
            text = longer
    return UserData(text, tuple(left_out))


def _text(public_key: str, egress: Egress, trust: Iterable[Certificate], platform: str, openssh_msi: str) -> str:
    script = _script(public_key, egress, trust, openssh_msi)
    return script if platform.upper() == "GCP" else f"<powershell>\n{script}</powershell>\n<persist>true</persist>\n"


def _script(public_key: str, egress: Egress, trust: Iterable[Certificate], openssh_msi: str) -> str:
    parts = public_key.split()
    if len(parts) < 2 or len(public_key.splitlines()) != 1:
        raise ValueError("a public key is one line: its type and its base64")
    if not openssh_msi.startswith("https://"):
        raise ValueError("the installer of OpenSSH must have an https URL")
    win_http = winhttp.settings(egress)
    proxy = winhttp.proxy_for_https(egress)
    values = {
        "CERTIFICATES": "\n".join(_certificate(one) for one in trust),
        "WINHTTP": _quoted(base64.b64encode(win_http).decode() if win_http else ""),
        "WINHTTP_HEX": _quoted(win_http.hex() if win_http else ""),
        "PROXY": _quoted(f"http://{proxy}" if proxy else ""),
        "MSI": _quoted(openssh_msi),
        "KEY": _quoted(f"{parts[0]} {parts[1]} {COMMENT}"),
        "COMMENT": COMMENT,
    }
    text = "".join(_chosen(SCRIPT, first_boot=bool(win_http or values["CERTIFICATES"])))
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _chosen(template: str, *, first_boot: bool) -> Iterator[str]:
    """The lines of the template; the part between its `#[` and `#]` only where there is something for the first boot."""
    within = False
    for line in template.splitlines(keepends=True):
        if line.startswith(("#[", "#]")):
            within = line.startswith("#[")
        elif first_boot or not within:
            yield line


def _certificate(one: Certificate) -> str:
    store = certificates.ROOT if one.self_issued else certificates.CA
    blob = base64.b64encode(certificates.blob(one.der, one.sha1).data).decode()
    note = json.dumps({"added": True, "subject": one.subject}, separators=(",", ":"))
    # a list in a list would come out flat
    values = {"Store": store, "Sha1": one.sha1, "Note": note, "Blob": blob}
    return f"        @{{ {'; '.join(f'{name} = {_quoted(value)}' for name, value in values.items())} }}"


def _quoted(text: str) -> str:
    """A literal of PowerShell. Its parser takes the typographic quotes for plain ones, so each of them is doubled."""
    return "'" + "".join(character * 2 if character in "'‘’‚‛" else character for character in text) + "'"
