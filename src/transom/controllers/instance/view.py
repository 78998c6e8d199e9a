"""One instance as a pass sees it: what is known of it, its host key, and how events speak of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncssh

from transom.apply.target import CredentialsWithheld, Target
from transom.controllers.instance.status import not_connected, paused
from transom.controllers.runtime.cached import ADOPT, INSTANCES, MANAGED_BY_WMCO, CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.hosts.ssh.known_hosts import Fingerprint, KnownKey, missing
from transom.kube.events import Regarding
from transom.proxy.finding import Finding
from transom.proxy.settings import Withheld
from transom.windows.nodes import WindowsInstance
from transom.windows.nodes.node_identity import Identity

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
    """Its Node, as it was recorded; None where there is none, or it is not known to be this instance's."""
    identity: Identity = _UNDECIDED
    managed: HostNode | None = None
    """A Node of another operator's that the host may be."""
    withheld: Withheld | None = None
    """Credentials that are not sent to the host's cluster."""

    @property
    def rests(self) -> bool:
        """Whether the instance is paused, and its status says so already: nothing more is written to it."""
        cached = self.cached
        said = cached.live.observed_generation == cached.metadata.generation and cached.reason("Configured") == "Paused"
        return said and bool(cached.fields.get("paused"))


class StatusKeys:
    """Host keys in the status of an instance: trusted on first use, and only the one that was recorded afterwards.

    `keep` writes a fingerprint into the status; with `required` no host is trusted on first use.
    """

    def __init__(self, name: str, fingerprint: str | None, keep: Keep, *, required: bool = False) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self._keep = keep
        self._required = required
        self.recorded: str | None = None

    def known(self, address: str, port: int) -> Sequence[KnownKey]:
        """The one of the status."""
        if self._fingerprint:
            return (Fingerprint(self._fingerprint),)
        if self._required:
            raise missing(address, port, KEY_PLACE)
        return ()

    async def record(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Write it into the status."""
        found = key.get_fingerprint()
        await self._keep(found)
        self._fingerprint = self.recorded = found

    def remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return f"clear status.hostKeyFingerprint of WindowsInstance {self._name}"


def regarding_of(cached: CachedInstance) -> Regarding:
    """An instance, as the subject of events."""
    meta = cached.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def managed_message(node: HostNode) -> str:
    """Why a host whose Node is another operator's is left alone."""
    return (
        f"Node {node.metadata.name} is managed by another operator (annotation {MANAGED_BY_WMCO}); "
        f'annotate it with {ADOPT}: "true" to have it worked on'
    )


def refusal(case: InstanceView, *, require_host_keys: bool = False) -> Conditions | None:
    """Why the host is not connected to; None where it is."""
    if case.instance is None or (case.errors and not case.instance.spec.paused):
        return not_connected("InvalidSpec", "; ".join(f"{one.field}: {one.message}" for one in case.errors))
    if case.instance.spec.paused:
        return paused()
    if case.managed is not None:
        return not_connected("ManagedByOther", managed_message(case.managed))
    if case.missing_key is not None:
        return not_connected("KeyMissing", case.missing_key)
    if require_host_keys and not case.instance.spec.host_key and not case.cached.live.host_key_fingerprint:
        spec = case.instance.spec
        return not_connected("HostKeyMissing", str(missing(spec.address, spec.port, KEY_PLACE)))
    if case.withheld is not None and case.target is None:
        return not_connected("CredentialsWithheld", str(CredentialsWithheld(case.withheld)))
    if case.target is None:
        message = "the egress settings are not valid, and no valid ones are known: the host is left as it is"
        # what was applied before the settings became invalid is still there
        known = case.cached.reason("ProxyApplied") not in (None, "NotChecked", "Paused")
        return {} if known else {"Configured": Condition("Unknown", "SettingsInvalid", message)}
    return None
