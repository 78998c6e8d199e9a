"""What an infrastructure provider adds to a Windows worker, as data."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.check.upstream import Fact
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.worker.user_data import UserDataLimit
from transom.proxy.finding import Path, Severity

Object = Mapping[str, Any]
Faults = Iterator[tuple[Path, Severity, str]]
"""What is wrong: the field, how bad it is, and the message."""
Examine = Callable[[Object, Object], Faults]
"""Finds errors in a user's own machines: in the machine's spec, in addition to their KubeadmConfigSpec."""


def _find_no_faults(_: Object, __: Object) -> Faults:
    yield from ()


def _build_no_entries(_: str) -> Entries:
    return Entries()


class Pool(msgspec.Struct, frozen=True):
    """Machines that the infrastructure creates and replaces automatically, behind a MachinePool of Cluster API.

    `spec` makes the pool's `spec`, `called` its name. `names_machines`: their names begin as the inputs say. `problems` are
    what of the inputs is wrong for a pool alone: the field and the message.
    """

    kind: str
    spec: Callable[[WorkerInputs], dict[str, Any]]
    called: Callable[[WorkerInputs], str]
    limit: UserDataLimit
    names_machines: bool
    problems: Callable[[WorkerInputs], Iterator[tuple[Path, str]]]
    notes: Callable[[WorkerInputs], tuple[str, ...]]
    faults: Examine = _find_no_faults
    """Of the pool's `spec`."""


class Builder(msgspec.Struct, frozen=True):
    """A Packer plugin and its builder of images; `variables` are its own, with defaults (None: must be given), `body` is HCL2.

    In `body` `@WINDOWS@` is the year. `secret` names the variables that are not shown. `sysprep` is the script of
    `image/files` that ends the build.
    """

    plugin: str
    source: str
    version: str
    type: str
    variables: Mapping[str, Any]
    body: str
    secret: tuple[str, ...] = ()
    sysprep: Literal["quit", "shutdown", "ec2launch"] = "quit"


def render_winrm(user: str) -> str:
    """Render how Packer connects to the machine that it builds on, as lines of a body."""
    return f'''  communicator   = "winrm"
  winrm_use_ssl  = true
  winrm_insecure = true
  winrm_username = "{user}"
'''


def render_sysprep_shutdown(width: int) -> str:
    """Render how sysprep shuts the machine down, and Packer's password until then; names are padded to `width`."""
    values = {
        "shutdown_command": '"powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:/k/sysprep.ps1"',
        "shutdown_timeout": '"1h"',
        "winrm_password": "var.winrm_password",
    }
    return "".join(f"  {name:{width}} = {value}\n" for name, value in values.items())


class Provider(msgspec.Struct, frozen=True):
    """An infrastructure provider."""

    name: str
    title: str
    """As people write it."""
    template: str
    api_version: str
    machine: Callable[[WorkerInputs], dict[str, Any]]
    """Makes the machine template's `spec.template.spec`."""
    node_name: str
    """What cloudbase-init's template engine finds the node's name by."""
    metadata_services: tuple[str, ...]
    """cloudbase-init's classes, for the image."""
    builder: Builder
    """Makes the images."""
    limit: UserDataLimit
    longest_name: int
    """The longest name of a machine, in letters."""
    name_pattern: str = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    secret_stores: tuple[str, ...] = ()
    """Those that can hold the bootstrap data."""
    no_store: str = ""
    """Why there is none, for people."""
    kubelet_arguments: Mapping[str, str] = MappingProxyType({"cloud-provider": "external"})
    annotations: Callable[[WorkerInputs], dict[str, str]] = lambda _: {}
    entries: Callable[[str], Entries] = _build_no_entries
    """What the bootstrap data has besides, made of the machine template's name."""
    notes: Callable[[WorkerInputs], tuple[str, ...]] = lambda _: ()
    faults: Examine = _find_no_faults
    """Of the machine template's `spec.template.spec`."""
    pool: Pool | None = None
    image: str = ""
    """For people: by what the worker finds the image that `transom capi image` builds; empty: it has to be given."""
    facts: tuple[Fact, ...] = ()
    """What is relied on of the provider's project, for the table of `docs/windows-workers.md`."""
    static_addresses: bool = False
    """Whether machines get their addresses from the metadata, and not by DHCP."""
