"""The options of an operator, from the flags of `transom run`."""

from pathlib import Path

import msgspec

from transom.common.installers import OPENSSH_URL
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.ssh_client import Timeouts
from transom.kube.lease import TERMS, LeaseTimings
from transom.kube.permitted_networks import PermittedNetworks
from transom.kube.reflector import PACE, ReflectorTimings
from transom.proxy.trust import SYSTEM_CA_FILE


class HostTimings(msgspec.Struct, frozen=True):
    """How hosts are worked on: seconds between two checks of one, and how long things on it may take.

    Hosts that are nodes are checked after `node_check` seconds at the latest, give or take a tenth, for services and files that
    others have changed.
    A node that is not Ready is looked at again after `unready` seconds; after `ready` of them it is said to be in trouble. A
    node that cannot be drained in `drain` seconds takes pods again; until then it is looked at each `drain_step` seconds. A
    Machine whose host accepts none of the keys for `refused` seconds may be replaced. A host that cannot be reached for `gone`
    seconds is not waited for when its instance is deleted.
    """

    check_interval: float = 1800.0
    node_check: float = 540.0
    unready: float = 60.0
    ready: float = 600.0
    drain: float = 600.0
    drain_step: float = 5.0
    refused: float = 600.0
    gone: float = 600.0
    rights: float = 30.0
    """Seconds after which a right that is missing is reported."""
    timeouts: Timeouts = Timeouts()
    patience: ServiceTimeouts = ServiceTimeouts()


class Options(msgspec.Struct, frozen=True):
    """How an operator works."""

    namespace: str = "transom-system"
    workers: int = 32
    leader_elect: bool = True
    controllers: tuple[str, ...] | None = None
    """Names; None is all of them."""
    pace: HostTimings = HostTimings()
    reflector: ReflectorTimings = PACE
    terms: LeaseTimings = TERMS
    payload: Path | None = None
    """The directory with `payload.yaml`; None: nothing is installed on hosts."""
    payload_cache: Path | None = None
    """Where files are fetched to that the payload names by URL and does not have; None: the payload's directory."""
    payload_builds: bool = False
    """Whether the payload's directory is the operator's own: it completes it as `payload build` does."""
    openssh_msi: str = OPENSSH_URL
    """Where machines get OpenSSH from; their user data contains it."""
    system_ca_file: str = SYSTEM_CA_FILE
    """The CAs to which a bundle that replaces a trust store is added."""
    max_unavailable: int = 1
    """Nodes that may be away at once."""
    require_host_keys: bool = False
    """Whether no host is trusted on first use."""
    workload_cluster_networks: PermittedNetworks = PermittedNetworks()
    """Where API servers of workload clusters may be, whose kubeconfigs others write."""
    operator_condition: str = ""
    """The object by which OLM hears whether an upgrade of the operator may come; empty: there is none."""
