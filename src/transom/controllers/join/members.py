"""How a host becomes a node: its token, its names and addresses, the facts of its cluster.

`Members` are the hosts that are to join; several controllers know them.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.runtime.cached_objects import SOURCE, CachedInstance
from transom.controllers.runtime.informers import Informers, list_addresses, normalize_host
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import SECRETS
from transom.windows.nodes.inventory import list_machine_addresses
from transom.windows.nodes.node_certificates import Member
from transom.windows.nodes.windows_instance import MAX_ADDRESSES, parse_ip_address

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
    def openshift_token(self) -> UnstructuredObject | None:
        """The node bootstrapper's Secret on OpenShift, whose API server takes no bootstrap tokens."""
        return self._openshift.take_snapshot().find_named(OPENSHIFT_TOKEN, OPENSHIFT_BOOTSTRAPPER)

    def find_candidates(self, username: str, names: set[str]) -> list[Member]:
        """Return the members that a request may concern, by the token's holder and by the Node names in it."""
        snapshot = self._informers.windows_instances.take_snapshot()
        tokens = dict(self.tokens.iter_token_holders())
        asking = tokens.get(username)
        named = {cached.key for name in names for cached in self.identities.iter_instances_named(name)}
        members = []
        for cached in snapshot:
            if cached.spec_fields.get("lifecycle") != "Node" or (cached.metadata.uid != asking and cached.key not in named):
                continue
            member = self._build_member(
                cached, next((user for user, uid in tokens.items() if uid == cached.metadata.uid), None)
            )
            if member.requestor == username or member.node_name in names:
                members.append(member)
        return members

    def _build_member(self, cached: CachedInstance, token: str | None) -> Member:
        meta, shared = cached.metadata, self.openshift_token is not None
        cached = self.identities.get_newest(cached)
        identity = self.identities.identify(cached)
        of_machine = [
            text for machine in self.identities.list_machines(cached) for text in list_machine_addresses(machine.value)
        ]
        fields = cached.spec_fields
        more = fields.get("addresses")
        of_spec = [str(text) for text in more[:MAX_ADDRESSES]] if isinstance(more, list) else []
        texts = [str(fields.get("address") or ""), str(fields.get("nodeIP") or ""), *of_spec, *of_machine]
        addresses = {parsed for text in texts if (parsed := parse_ip_address(text)) is not None}
        # two hosts behind one address: it belongs to neither, unless a user assigns it
        reached = list_addresses(cached) - addresses
        return Member(
            instance=f"{meta.namespace}/{meta.name}",
            node_name=identity.name,
            node_uid=identity.uid,
            addresses=frozenset(
                addresses | {item for item in reached if not any(self._find_others_with_address(cached, item))}
            ),
            names=frozenset(
                {normalize_host(text) for text in texts if text and parse_ip_address(text) is None} | {identity.name} - {""}
            ),
            requestor=OPENSHIFT_USER if shared else token,
            shared=shared,
            others=shared and (meta.labels or {}).get(SOURCE) == "Machine",
            refusal=identity.message if identity.refusal else "",
        )

    def _find_others_with_address(self, cached: CachedInstance, text: str) -> Iterator[CachedInstance]:
        for other in self._informers.windows_instances.take_snapshot().list_by_index("address", text):
            if other.metadata.uid != cached.metadata.uid:
                yield other
