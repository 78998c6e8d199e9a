"""What hosts that are nodes are worked on with, besides what all hosts are worked on with."""

from transom.controllers.hosts.services import HostServices
from transom.controllers.hosts.settings_turns import EARLIEST
from transom.controllers.instance import joined_nodes
from transom.controllers.instance.view import InstanceView, regarding_of
from transom.controllers.join import Members
from transom.controllers.join.api_server_trust import ApiServerTrust
from transom.controllers.join.cluster_facts import ClusterFacts
from transom.controllers.join.credential_providers import CredentialProviders
from transom.controllers.nodes.facts import NodeFacts
from transom.controllers.nodes.light_checks import LightChecks
from transom.controllers.nodes.outstanding import configurations, put_right
from transom.controllers.nodes.payload_source import PayloadSource
from transom.controllers.rollout.interruptions import Interruptions
from transom.controllers.rollout.slots import Slots
from transom.controllers.rollout.subjects import upgrades_of
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import Options
from transom.hosts.passes import PassResult
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.queue import Priority
from transom.kube.store import ObjectKey


class NodeServices:
    """Made once, for the controller of nodes."""

    def __init__(
        self,
        on: HostServices,
        *,
        options: Options,
        reports: ConditionAggregator,
        members: Members,
    ) -> None:
        self.on, self.members = on, members
        self.cluster = ClusterFacts(on.informers, on.settings)
        self.trust, self.providers = ApiServerTrust(), CredentialProviders()
        self.facts = NodeFacts(members, self.cluster)
        path, cache, builds = options.payload, options.payload_cache, options.payload_builds
        self.source = PayloadSource(path, cache or path, on.settings, self.ask_all, builds=builds) if path is not None else None
        self.unready: dict[ObjectKey, float] = {}
        """Since when a host is configured whose Node is not Ready (time.monotonic)."""
        self.cordoned: set[ObjectKey] = set()
        """Hosts whose Nodes were cordoned by this process, be it a moment ago, until they take pods."""
        self.configurations: dict[ObjectKey, dict[str, int]] = {}
        """How the services of each host were configured when this process last looked."""
        self.light_checks = LightChecks(EARLIEST * on.pace.check_interval)
        hold = on.pace.drain + on.pace.ready
        self.slots = Slots(on.informers, options.max_unavailable, hold, on.now, on.queue.add)
        self.upgrades = upgrades_of(on.informers, reports, on.resumption, on.rollouts.begun_hosts, self._identity, self._named)
        on.turns.rollouts.append(self.upgrades)
        self.interruptions = Interruptions(self.slots, on.rollouts, self.upgrades, on.pace, hold, on.now)

    def ask_all(self) -> None:
        """Have every host of a node looked at again."""
        for cached in self.on.informers.windows_instances.snapshot():
            if cached.fields.get("lifecycle") == "Node":
                self.on.queue.add(cached.key, Priority.CHECK)

    @property
    def directory(self) -> PayloadDirectory | None:
        """The payload that hosts get; None where there is none, or not all of it yet."""
        return self.source.directory if self.source is not None else None

    def _identity(self) -> str:
        return self.directory.identity if self.directory is not None else ""

    def _named(self) -> str:
        return f"payload {self.directory.payload.version}" if self.directory is not None else "the payload"

    def remember(self, case: InstanceView, found: PassResult, leadership: Leadership, *, lasting: bool) -> None:
        """Note how a host looked, and tell of what was not as its payload has it.

        `lasting`: nothing else is expected of the host, and one that looks the same at the next check needs nothing.
        """
        key = case.cached.key
        if lasting:
            self.light_checks.passed(key, found)
        else:
            self.light_checks.forget(key)
        known = case.cached.live.payload_version == (self.directory.payload.version if self.directory else "")
        left, before = self.configurations.pop(key, {}), configurations(found.before)
        if found.error is None:
            self.configurations[key] = configurations(found.after or found.before)
        if known and found.error is None and found.plan and (said := put_right(found.plan, left, before)):
            leadership.recorder.warning(regarding_of(case.cached), "PutRight", said)

    async def hold_back(self, key: ObjectKey, node: HostNode, leadership: Leadership) -> None:
        """Cordon a Node that is first seen. Raises ApiError."""
        await joined_nodes.hold_back(node, leadership)
        self.cordoned.add(key)


def stands_alone(case: InstanceView, *, emptied: bool = False) -> bool:
    """Whether there is nothing on a host that a change could harm: its Node has no pods. `emptied`: for what is to be done."""
    node = case.node
    if node is None or emptied or node.cordoned_for is not None:
        return True
    return not node.is_ready and not node.adopted and has_nothing_to_lose(node)


def has_nothing_to_lose(node: HostNode) -> bool:
    """Whether a Node has not taken pods yet; one that has may take them again, also while it is not Ready."""
    return joined_nodes.is_pending(node) or node.payload_version is None


def is_ready(node: HostNode | None) -> bool:
    """Whether there is a Node that takes pods, unless it is cordoned."""
    return node is not None and node.is_ready
