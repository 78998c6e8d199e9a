"""The hosts that Transom joins: what names and addresses their certificates may have, and by which token they ask."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from transom.controllers.kept import HeldInstance
from transom.controllers.watched import Watched
from transom.controllers.windows.bootstrap_tokens import BootstrapTokens
from transom.controllers.windows.machines import machines
from transom.controllers.windows.marks import ORIGIN, SOURCE
from transom.kube.objects import Whole
from transom.kube.resources import SECRETS
from transom.kube.store import Name
from transom.windows.inventory import machine_addresses
from transom.windows.node_certificates import Member, address

OPENSHIFT_BOOTSTRAPPER: Final = "openshift-machine-config-operator"
OPENSHIFT_TOKEN: Final = "node-bootstrapper-token"  # noqa: S105  # a name
OPENSHIFT_USER: Final = f"system:serviceaccount:{OPENSHIFT_BOOTSTRAPPER}:node-bootstrapper"


class Members:
    """What is known of them, from the cluster's objects and from the passes of this process."""

    def __init__(self, watched: Watched, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._watched = watched
        self._machines = machines(watched)
        self._openshift = watched.watch(SECRETS, OPENSHIFT_BOOTSTRAPPER, f"metadata.name={OPENSHIFT_TOKEN}")
        self.tokens = BootstrapTokens(watched, now)
        self._names: dict[Name, str] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def openshift_token(self) -> Whole | None:
        """The node bootstrapper's Secret on OpenShift, whose API server takes no bootstrap tokens."""
        return self._openshift.snapshot().get(OPENSHIFT_TOKEN, OPENSHIFT_BOOTSTRAPPER)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Be told when a host's name becomes known."""
        self._listeners.append(listener)

    def learn(self, instance: Name, node_name: str) -> None:
        """The name under which a host will register, as soon as it was read: its kubelet may ask before a status says it."""
        if self._names.get(instance) != node_name:
            self._names[instance] = node_name
            for listener in self._listeners:
                listener()

    def node_name(self, held: HeldInstance) -> str:
        """The Node that an instance is or will be; empty where that is not known yet."""
        key = held.key
        return str(held.fields.get("nodeName") or self._names.get(key) or held.live.get("nodeName") or "")

    async def candidates(self, username: str, names: set[str]) -> list[Member]:
        """The members that a request may concern: by who asks, and by the names of nodes in it. Names are looked up."""
        tokens = {uid: user for user, uid in self.tokens.known()}
        found = []
        for held in self._watched.windows_instances.snapshot():
            if held.fields.get("lifecycle") != "Node":
                continue
            node_name = self.node_name(held)
            requestor = self._requestor(held, tokens)
            if node_name in names or (requestor is not None and requestor == username):
                found.append(await self._member(held, node_name, requestor))
        return found

    def _requestor(self, held: HeldInstance, tokens: dict[str, str]) -> str | None:
        if self.openshift_token is not None:
            return OPENSHIFT_USER
        return tokens.get(held.metadata.uid or "")

    async def _member(self, held: HeldInstance, node_name: str, requestor: str | None) -> Member:
        meta = held.metadata
        texts = {str(held.fields.get("address", "")), *self._machine_addresses(held)}
        addresses = {found for text in texts if (found := address(text)) is not None}
        names = {text.rstrip(".").lower() for text in texts if address(text) is None}
        for name in names:
            addresses |= await _resolved(name)
        addresses -= self._others_addresses(held)
        return Member(
            instance=f"{meta.namespace}/{meta.name}",
            node_name=node_name,
            addresses=frozenset(addresses),
            names=frozenset(names | {node_name.lower()}),
            requestor=requestor,
            others=self.openshift_token is not None and (meta.labels or {}).get(SOURCE) == "Machine",
        )

    def _machine_addresses(self, held: HeldInstance) -> Iterator[str]:
        origin = (held.metadata.annotations or {}).get(ORIGIN)
        if (held.metadata.labels or {}).get(SOURCE) == "Machine" and origin:
            for machine in self._machines.snapshot().by("origin", origin):
                yield from machine_addresses(machine.value)

    def _others_addresses(self, held: HeldInstance) -> set[str]:
        """Addresses by which other instances are reached: no name service makes them this one's."""
        own = address(str(held.fields.get("address", "")))
        all_ = {address(str(one.fields.get("address", ""))) for one in self._watched.windows_instances.snapshot()}
        return {one for one in all_ if one is not None and one != own}


async def _resolved(name: str) -> set[str]:
    try:
        found: list[tuple[Any, ...]] = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {made for *_, place in found if (made := address(str(place[0]))) is not None}
