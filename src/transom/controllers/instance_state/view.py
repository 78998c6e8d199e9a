"""One instance as a pass sees it: its known state, its host key, and its reference in events."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncssh

from transom.apply.errors import CredentialsWithheld
from transom.apply.target import Target
from transom.controllers.instance_state.status import build_not_connected_conditions, build_paused_conditions
from transom.controllers.runtime.cached_objects import INSTANCES, MANAGED_BY_WMCO, CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.hosts.ssh.known_hosts import Fingerprint, KnownKey, build_missing_key_error
from transom.kube.events import Regarding
from transom.proxy.finding import Finding
from transom.proxy.settings import WithheldSettings
from transom.windows.nodes.node_identity import Identity
from transom.windows.nodes.windows_instance import WindowsInstance

KEY_PLACE: Final = "spec.hostKey of the WindowsInstance"
Keep = Callable[[str], Awaitable[None]]
"""Records the fingerprint of a host's key. Raises HostError, and what ends every pass."""


_UNDECIDED: Final = Identity()


@dataclass(frozen=True)
class InstanceView:
    """What is known of one instance, all of it at one moment."""

    cached: CachedInstance
    instance: WindowsInstance | None
    errors: tuple[Finding, ...]
    target: Target | None
    missing_key: str | None
    node: HostNode | None
    """Its recorded Node; None if none exists, or if it may belong to another instance."""
    identity: Identity = _UNDECIDED
    managed: HostNode | None = None
    """A Node of another operator's that the host may be."""
    withheld: WithheldSettings | None = None
    """Credentials that are not sent to the host's cluster."""

    @property
    def needs_no_write(self) -> bool:
        """Whether the instance is paused and its status already reports it: nothing more is written."""
        cached = self.cached
        is_reported = (
            cached.live.observed_generation == cached.metadata.generation and cached.get_reason("Configured") == "Paused"
        )
        return is_reported and bool(cached.spec_fields.get("paused"))


class StatusHostKeys:
    """Host keys in the status of an instance: trusted on first use, and only the one that was recorded afterwards.

    `keep` writes a fingerprint into the status; with `required` no host is trusted on first use.
    """

    def __init__(self, name: str, fingerprint: str | None, keep: Keep, *, required: bool = False) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self._keep = keep
        self._required = required
        self.recorded: str | None = None

    def list_known_keys(self, address: str, port: int) -> Sequence[KnownKey]:
        """Return the host key of the status."""
        if self._fingerprint:
            return (Fingerprint(self._fingerprint),)
        if self._required:
            raise build_missing_key_error(address, port, KEY_PLACE)
        return ()

    async def record_key(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Write it into the status."""
        fingerprint = key.get_fingerprint()
        await self._keep(fingerprint)
        self._fingerprint = self.recorded = fingerprint

    def describe_remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return f"run `transom forget {self._name} --host-key`"


def to_regarding(cached: CachedInstance) -> Regarding:
    """Return an instance as the subject of events."""
    meta = cached.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def format_managed_message(node: HostNode) -> str:
    """Why a host whose Node is another operator's is left alone."""
    return (
        f"Node {node.metadata.name} is managed by another operator (annotation {MANAGED_BY_WMCO}); "
        "`transom adopt --from wmco` hands it over"
    )


def build_refusal_conditions(view: InstanceView, *, require_host_keys: bool = False) -> Conditions | None:
    """Why the host is not connected to; None where it is."""
    if view.instance is None or (view.errors and not view.instance.spec.paused):
        return build_not_connected_conditions(
            "InvalidSpec", "; ".join(f"{error.field}: {error.message}" for error in view.errors)
        )
    if view.instance.spec.paused:
        return build_paused_conditions()
    if view.managed is not None:
        return build_not_connected_conditions("ManagedByOther", format_managed_message(view.managed))
    if view.missing_key is not None:
        return build_not_connected_conditions("KeyMissing", view.missing_key)
    if require_host_keys and not view.instance.spec.host_key and not view.cached.live.host_key_fingerprint:
        spec = view.instance.spec
        return build_not_connected_conditions(
            "HostKeyMissing", str(build_missing_key_error(spec.address, spec.port, KEY_PLACE))
        )
    if view.withheld is not None and view.target is None:
        return build_not_connected_conditions("CredentialsWithheld", str(CredentialsWithheld(view.withheld)))
    if view.target is None:
        message = "the egress settings are not valid, and no valid ones are known: the host is unchanged"
        # what was applied before the settings became invalid is still there
        known = view.cached.get_reason("ProxyApplied") not in (None, "NotChecked", "Paused")
        return {} if known else {"Configured": Condition("Unknown", "SettingsInvalid", message)}
    return None
