"""The first control plane machine of the cluster that Transom will live in: no operator, no Secret, and `kubeadm init` to come.

It gets what an entry of a template would give it, as files to be copied, with the values in them.
"""

from typing import Final

import msgspec

from transom.capi.kubeadm import Entries, File
from transom.capi.machine_files import linux_entries
from transom.capi.objects import SHELL, systemd_data
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

COMMANDS: Final = "commands.sh"
KIND_ENV: Final = "kind.env"
"""For the shell that runs kind: it hands the three variables, with its own networks added, on to its nodes
(kubernetes-sigs/kind, pkg/cluster/internal/providers/common/proxy.go)."""


class PlacedFile(msgspec.Struct, frozen=True):
    """A file by its path below the directory that is written, with its content and its permissions."""

    path: str
    content: Secret
    mode: int = 0o600


def files(egress: Egress) -> tuple[PlacedFile, ...]:
    """What to copy onto the machine, the commands to run in the shell that runs kubeadm, and kind's environment.

    None where the settings are for no machine.
    """
    entries = linux_entries("", egress, control_plane=True)
    if not entries.files:
        return ()
    data = systemd_data(egress)
    placed = [PlacedFile(file.path.lstrip("/"), _content(file, data), int(file.permissions, 8)) for file in entries.files]
    return (*placed, PlacedFile(COMMANDS, Secret(_script(entries))), PlacedFile(KIND_ENV, data[SHELL]))


def _content(file: File, data: dict[str, Secret]) -> Secret:
    return data[file.content_from.secret.key] if file.content_from is not None else Secret(file.content)


def _script(entries: Entries) -> str:
    return "".join(f"{command}\n" for command in entries.pre)
