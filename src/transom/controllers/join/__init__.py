"""How a host becomes a node: its token, its names and addresses, the facts of its cluster.

`Members` are the hosts that are to join; several controllers know them.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.runtime.cached import SOURCE, CachedInstance
from transom.controllers.runtime.informers import Informers, addresses_of, spelled
from transom.kube.objects import Whole
from transom.kube.resources import SECRETS
from transom.windows.nodes import address
from transom.windows.nodes.inventory import machine_addresses
from transom.windows.nodes.node_certificates import Member

OPENSHIFT_BOOTSTRAPPER: Final = "openshift-machine-config-operator"
OPENSHIFT_TOKEN: Final = "node-bootstrapper-token"  # noqa: S105  # a name
OPENSHIFT_USER: Final = f"system:serviceaccount:{OPENSHIFT_BOOTSTRAPPER}:node-bootstrapper"


class Members:
    """What is known of them from the cluster's objects. Nothing is asked of a name service."""

    def __init__(
        self, informers: Informers, identities: NodeIdentities, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._informers = informers
        self.identities = identities
        self._openshift = informers.watch(SECRETS, OPENSHIFT_BOOTSTRAPPER, f"metadata.name={OPENSHIFT_TOKEN}")
        self.tokens = BootstrapTokens(informers, now)

    @property
    def openshift_token(self) -> Whole | None:
        """The node bootstrapper's Secret on OpenShift, whose API server takes no bootstrap tokens."""
        return self._openshift.snapshot().named(OPENSHIFT_TOKEN, OPENSHIFT_BOOTSTRAPPER)

    def candidates(self, username: str, names: set[str]) -> list[Member]:
        """The members that a request may concern: by whose token asks, and by the names of nodes in it."""
        snapshot = self._informers.windows_instances.snapshot()
        tokens = dict(self.tokens.known())
        asking = tokens.get(username)
        named = {cached.key for name in names for cached in self.identities.named(name)}
        found = []
        for cached in snapshot:
            if cached.fields.get("lifecycle") != "Node" or (cached.metadata.uid != asking and cached.key not in named):
                continue
            member = self._member(cached, next((user for user, uid in tokens.items() if uid == cached.metadata.uid), None))
            if member.requestor == username or member.node_name in names:
                found.append(member)
        return found

    def _member(self, cached: CachedInstance, token: str | None) -> Member:
        meta, shared = cached.metadata, self.openshift_token is not None
        cached = self.identities.newest(cached)
        identity = self.identities.of(cached)
        of_machine = [text for machine in self.identities.machines_of(cached) for text in machine_addresses(machine.value)]
        texts = [str(cached.fields.get("address") or ""), str(cached.fields.get("nodeIP") or ""), *of_machine]
        given = {found for text in texts if (found := address(text)) is not None}
        # two hosts behind one address: it is neither's own, unless somebody says so
        reached = addresses_of(cached) - given
        return Member(
            instance=f"{meta.namespace}/{meta.name}",
            node_name=identity.name,
            node_uid=identity.uid,
            addresses=frozenset(given | {one for one in reached if not any(self._others_at(cached, one))}),
            names=frozenset({spelled(text) for text in texts if text and address(text) is None} | {identity.name} - {""}),
            requestor=OPENSHIFT_USER if shared else token,
            shared=shared,
            others=shared and (meta.labels or {}).get(SOURCE) == "Machine",
            refusal=identity.message if identity.refusal else "",
        )

    def _others_at(self, cached: CachedInstance, text: str) -> Iterator[CachedInstance]:
        for other in self._informers.windows_instances.snapshot().by("address", text):
            if other.metadata.uid != cached.metadata.uid:
                yield other
