"""What hosts that are nodes are worked on with, besides what all hosts are worked on with."""

from dataclasses import dataclass, field

from transom.controllers.hosts.check_schedule import EARLIEST
from transom.controllers.hosts.services import HostServices
from transom.controllers.instance_state import joined_nodes
from transom.controllers.instance_state.view import InstanceView, to_regarding
from transom.controllers.join.api_server_trust import ApiServerTrust
from transom.controllers.join.cluster_facts import ClusterFacts
from transom.controllers.join.credential_providers import CredentialProviders
from transom.controllers.join.members import Members
from transom.controllers.nodes.facts import NodeFacts
from transom.controllers.nodes.light_checks import LightChecks
from transom.controllers.nodes.node_messages import describe_repairs, hash_configurations
from transom.controllers.nodes.payload_source import PayloadSource
from transom.controllers.rollout.interruptions import Interruptions
from transom.controllers.rollout.kinds import make_upgrade_rollouts
from transom.controllers.rollout.slots import UnavailabilitySlots
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import Options
from transom.hosts.passes.base_pass import PassResult
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.queue import Priority
from transom.kube.store import ObjectKey


@dataclass
class NodeMemory:
    """What this process remembers of one host with a payload from one reconciliation to the next."""

    unready_since: float | None = None
    """Since when its Node has not been Ready although the host is configured (time.monotonic)."""
    is_cordoned: bool = False
    """Whether this process has cordoned the Node, be it a moment ago, and not yet uncordoned it."""
    configurations: dict[str, int] = field(default_factory=dict)
    """How its services were configured when this process last looked."""


class NodeServices:
    """Made once, for the controller of nodes."""

    def __init__(
        self,
        services: HostServices,
        *,
        options: Options,
        reports: ConditionAggregator,
        members: Members,
    ) -> None:
        self.on, self.members = services, members
        self.cluster = ClusterFacts(services.informers, services.settings)
        self.trust, self.providers = ApiServerTrust(), CredentialProviders()
        self.facts = NodeFacts(members, self.cluster)
        path, cache, builds = options.payload, options.payload_cache, options.payload_builds
        self.source = (
            PayloadSource(path, cache or path, services.settings, self.enqueue_all_hosts, builds=builds)
            if path is not None
            else None
        )
        self._memory: dict[ObjectKey, NodeMemory] = {}
        self.light_checks = LightChecks(EARLIEST * services.pace.check_interval)
        hold = services.pace.drain + services.pace.ready
        self.slots = UnavailabilitySlots(services.informers, options.max_unavailable, hold, services.now, services.queue.add)
        self.upgrades = make_upgrade_rollouts(
            services.informers,
            reports,
            services.resume_annotation,
            services.rollouts.in_flight_hosts,
            self._get_payload_identity,
            self._get_payload_name,
        )
        services.host_rollout.rollouts.append(self.upgrades)
        self.interruptions = Interruptions(
            self.slots, services.rollouts, self.upgrades, services.host_rollout, services.pace, hold, services.now
        )

    def get_memory(self, key: ObjectKey) -> NodeMemory:
        """Return what this process remembers of a host."""
        return self._memory.setdefault(key, NodeMemory())

    def forget(self, key: ObjectKey) -> None:
        """Forget a host that is gone, or whose instance is being deleted."""
        self._memory.pop(key, None)
        self.light_checks.forget(key)

    def enqueue_all_hosts(self) -> None:
        """Have every host of a node looked at again."""
        for cached in self.on.informers.windows_instances.take_snapshot():
            if cached.spec_fields.get("lifecycle") == "Node":
                self.on.queue.add(cached.key, Priority.CHECK)

    @property
    def directory(self) -> PayloadDirectory | None:
        """The payload that hosts get; None if there is none, or if it is incomplete."""
        return self.source.directory if self.source is not None else None

    def _get_payload_identity(self) -> str:
        return self.directory.identity if self.directory is not None else ""

    def _get_payload_name(self) -> str:
        return f"payload {self.directory.payload.version}" if self.directory is not None else "the payload"

    def record_pass(self, view: InstanceView, result: PassResult, leadership: Leadership, *, is_final: bool) -> None:
        """Record the state of a host and report what differed from its payload.

        `is_final`: nothing else is expected of the host, so one that looks the same needs nothing.
        """
        key = view.cached.key
        if is_final:
            self.light_checks.record_pass(key, result)
        else:
            self.light_checks.forget(key)
        known = view.cached.live.payload_version == (self.directory.payload.version if self.directory else "")
        memory, before = self.get_memory(key), hash_configurations(result.before)
        left, memory.configurations = memory.configurations, {}
        if result.error is None:
            memory.configurations = hash_configurations(result.after or result.before)
        if known and result.error is None and result.plan and (repairs := describe_repairs(result.plan, left, before)):
            leadership.recorder.record_warning(to_regarding(view.cached), "PutRight", repairs)

    async def cordon_new_node(self, key: ObjectKey, node: HostNode, leadership: Leadership) -> None:
        """Cordon a Node that is first seen. Raises ApiError."""
        await joined_nodes.cordon_new_node(node, leadership)
        self.get_memory(key).is_cordoned = True


def can_change_without_drain(view: InstanceView, *, is_drained: bool = False) -> bool:
    """Return True if a change harms no pods because the Node has none. `is_drained`: it was drained for the change."""
    node = view.node
    if node is None or is_drained or node.cordoned_for is not None:
        return True
    return not node.is_ready and not node.is_adopted and has_never_had_pods(node)


def has_never_had_pods(node: HostNode) -> bool:
    """Return True if a Node has not accepted pods yet; one that has may do so again even while it is not Ready."""
    return joined_nodes.is_pending(node) or node.payload_version is None


def is_ready(node: HostNode | None) -> bool:
    """Return True if there is a Node that accepts pods unless it is cordoned."""
    return node is not None and node.is_ready
