"""One instance as a pass sees it: what is known of it, its host key, and how events speak of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncssh

from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.kept import ADOPT, INSTANCES, MANAGED_BY_WMCO, HeldInstance, HostNode
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.status import not_connected
from transom.hosts.errors import HostError
from transom.hosts.known_hosts import Fingerprint, KnownKey
from transom.kube.events import Regarding
from transom.proxy.finding import Finding
from transom.windows.instance import WindowsInstance

FINGERPRINT: Final = "hostKeyFingerprint"


class ManagedByOther(HostError):
    """The host's Node belongs to another operator."""


@dataclass(frozen=True)
class Case:
    """What is known of one instance, all of it at one moment."""

    held: HeldInstance
    instance: WindowsInstance | None
    errors: tuple[Finding, ...]
    target: Target | None
    missing_key: str | None
    node: HostNode | None
    later: Verdict | None = None
    """What else is to be done to the host, and not yet."""
    drained: bool = False
    """Whether its Node was emptied for what is to be done."""

    @property
    def rests(self) -> bool:
        """Whether the instance is paused, and its status says so already: nothing more is written to it."""
        held = self.held
        said = held.live.get("observedGeneration") == held.metadata.generation and held.reason("Configured") == "Paused"
        return said and bool(held.fields.get("paused"))


class StatusKeys:
    """Host keys in the status of an instance: trusted on first use, and only the one that was recorded afterwards."""

    def __init__(self, name: str, fingerprint: str | None) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self.recorded: str | None = None

    def known(self, address: str, port: int) -> Sequence[KnownKey]:
        """The one of the status."""
        return (Fingerprint(self._fingerprint),) if self._fingerprint else ()

    def record(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Keep it for the status."""
        self.recorded = key.get_fingerprint()

    def remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return f"clear status.hostKeyFingerprint of WindowsInstance {self._name}"


def regarding_of(held: HeldInstance) -> Regarding:
    """An instance, as the subject of events."""
    meta = held.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def managed_message(node: HostNode) -> str:
    """Why a host whose Node is another operator's is left alone."""
    return (
        f"Node {node.metadata.name} is managed by another operator (annotation {MANAGED_BY_WMCO}); "
        f'annotate it with {ADOPT}: "true" to have it worked on'
    )


def refusal(case: Case) -> Verdicts | None:
    """Why the host is not connected to; None where it is."""
    if case.instance is None or (case.errors and not case.instance.spec.paused):
        return not_connected("InvalidSpec", "; ".join(f"{one.field}: {one.message}" for one in case.errors))
    if case.instance.spec.paused:
        return not_connected("Paused", "spec.paused is set: the host is not connected to", configured="Unknown")
    if case.node is not None and case.node.managed_by_other:
        return not_connected("ManagedByOther", managed_message(case.node))
    if case.missing_key is not None:
        return not_connected("KeyMissing", case.missing_key)
    if case.target is None:
        message = "the egress settings are not valid, and no valid ones are known: the host is left as it is"
        # what was applied before the settings became invalid is still there
        known = case.held.reason("ProxyApplied") not in (None, "NotChecked")
        return {} if known else {"Configured": Verdict("Unknown", "SettingsInvalid", message)}
    return None
