"""Windows hosts that Transom makes nodes, and keeps: whether one can be worked on, and what is done to each of them now."""

from typing import Final

import structlog

from transom.apply.target import Target
from transom.controllers.hosts.triggers import of_node, wanted
from transom.controllers.hosts.work import Done, HostWork
from transom.controllers.instance import joined_nodes
from transom.controllers.instance.node_identities import error_of
from transom.controllers.instance.status import not_connected
from transom.controllers.instance.view import InstanceView
from transom.controllers.nodes.proxy_meanwhile import PREPARATION, adopted, postponed, waiting, without_payload
from transom.controllers.nodes.services import NodeServices, has_nothing_to_lose
from transom.controllers.nodes.worker import WorkerNode
from transom.controllers.rollout.interruptions import Purpose
from transom.controllers.rollout.rollouts import Turn
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import HostError
from transom.hosts.passes import PassResult
from transom.hosts.passes.light_check import look
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.store import ObjectKey
from transom.sources.payload import PayloadError
from transom.windows.nodes import Lifecycle, support
from transom.windows.payload import API_SERVER_CA, BOOTSTRAP_KUBECONFIG, Payload

_log: Final = structlog.get_logger("transom.nodes")


class NodeHosts:
    """The hosts of lifecycle Node. What it answers is as `HostLifecycle` says."""

    name: Lifecycle = "Node"
    refused_again: float | None = 600.0

    def __init__(self, nodes: NodeServices) -> None:
        self._nodes, self._on = nodes, nodes.on
        self._interruptions = nodes.interruptions
        self.tokens = nodes.members.tokens

    def begin(self) -> None:
        """Follow the Nodes and what is known of the cluster."""
        self._on.informers.nodes.subscribe(self._node_changed)
        self._nodes.cluster.subscribe(self._nodes.ask_all)

    def _node_changed(self, name: ObjectKey, _: HostNode | None, after: HostNode | None) -> None:
        self._nodes.slots.node_changed(name.name, after)
        for cached in self._on.informers.windows_instances.snapshot().by("node", name.name):
            if self._interruptions.awaited(cached.key):
                self._on.queue.add(cached.key)

    def forget(self, key: ObjectKey) -> None:
        """It needs no slot."""
        self._interruptions.drop(key)
        self._nodes.cordoned.discard(key)
        self._nodes.configurations.pop(key, None)
        self._nodes.light_checks.forget(key)

    # --- whether a host is connected to

    async def refusal(self, case: InstanceView, leadership: Leadership) -> Conditions | None:
        """What is wrong with its name, with the payload, or with the way to the API server."""
        if (error := error_of(case.identity)) is not None:
            return not_connected(type(error).__name__, str(error))
        if (source := self._nodes.source) is None:
            return None
        try:
            incomplete = await source.open()
        except PayloadError as error:
            return not_connected("PayloadInvalid", str(error))
        payload = source.payload
        assert payload is not None
        refused = await self._refusal_of_cluster(case, payload, leadership)
        if refused is not None:
            return refused
        # a node gets its proxy and trust meanwhile
        return not_connected(incomplete.reason, incomplete.message) if incomplete is not None and case.node is None else None

    async def _refusal_of_cluster(self, case: InstanceView, payload: Payload, leadership: Leadership) -> Conditions | None:
        cluster = self._nodes.cluster
        if why := cluster.network_refusal(payload.networks):
            return not_connected("NetworkNotSupported", why)
        if why := support.skew_refusal(payload.kubernetes, await cluster.server_version(leadership.client)):
            return not_connected("VersionSkew", why)
        if (server := cluster.cluster()) is None:
            return not_connected(
                "ApiServerUnknown",
                "nothing says how hosts reach the API server: neither ConfigMap kube-public/cluster-info, nor OpenShift's "
                "Infrastructure with the ConfigMap kube-root-ca.crt",
            )
        if why := await self._nodes.trust.refusal(server):
            readers = ", ".join(payload.readers_of(API_SERVER_CA, BOOTSTRAP_KUBECONFIG))
            message = f"{readers} would not connect to {server.get('server')}, by the CAs of {cluster.published_in}: {why}"
            return not_connected("ApiServerNotTrusted", message)
        egress = case.target.egress if case.target is not None else None
        if egress is not None and (egress.http_proxy or egress.https_proxy) and not egress.api_server_known:
            return not_connected(
                "ApiServerUnknown",
                "NO_PROXY lacks the API server's host, which is not known: set spec.networks.internalAPIHost of "
                "EgressProxy/cluster",
            )
        return None

    # --- what is done to it

    async def choose(self, case: InstanceView, target: Target, leadership: Leadership) -> HostWork | Done:
        """The payload where it may be brought to the host now, proxy and trust where not; nothing where a look was enough."""
        nodes, node, key = self._nodes, case.node, case.cached.key
        if node is not None and node.adopted and not node.takes:
            self._interruptions.end(key)
            return await self._unchanged(case, target, leadership) or adopted(nodes)
        if nodes.source is None:
            self._interruptions.end(key)
            return without_payload(nodes)
        there = frozenset(one.metadata.uid or "" for one in self._on.informers.nodes.snapshot()) if node is None else None
        if node is None:
            self._interruptions.end(key)
        incomplete = await nodes.source.open()
        if incomplete is not None:
            return postponed(nodes, incomplete)
        directory = nodes.directory
        assert directory is not None  # it is complete
        if node is None:
            return WorkerNode(nodes, directory, earlier=there)
        return await self._choose_for_node(case, target, node, directory, leadership)

    async def _choose_for_node(
        self, case: InstanceView, target: Target, node: HostNode, directory: PayloadDirectory, leadership: Leadership
    ) -> HostWork | Done:
        nodes, key = self._nodes, case.cached.key
        if not node.adopted and joined_nodes.is_first(node, installed=bool(case.cached.live.payload_version)):
            await nodes.hold_back(key, node, leadership)
        await joined_nodes.respect(node, leadership)
        purpose, why = self._interruption(case, node, directory.payload.version)
        if node.cordoned_for is not None:
            if (awaited := await self._awaited(case, node, purpose, leadership)) is not None:
                return awaited
        elif purpose is None:
            self._interruptions.forget(key)
        turn = self._on.turns.of(case, leadership)
        if purpose is not None and node.is_ready:
            return await self._interrupted(case, target, node, directory, purpose, why, turn, leadership)
        if purpose == "upgrade" and not has_nothing_to_lose(node):
            away = await self._interruptions.admit_away(case.cached, target, why, turn)
            if away is not None:
                return postponed(nodes, away.condition)
        if purpose is None and (unchanged := await self._unchanged(case, target, leadership)) is not None:
            return unchanged
        return WorkerNode(nodes, directory)

    async def _interrupted(
        self,
        case: InstanceView,
        target: Target,
        node: HostNode,
        directory: PayloadDirectory,
        purpose: Purpose,
        why: str,
        turn: Turn,
        leadership: Leadership,
    ) -> HostWork | Done:
        """The payload once the Node was emptied; until then proxy and trust, where they may be another."""
        key, on = case.cached.key, self._on
        pending = await self._interruptions.prepare(case.cached, target, node, purpose, why, leadership, turn)
        if pending is None:
            return WorkerNode(self._nodes, directory, emptied=True)
        settled = on.settings_turns.reached.get(key) == target.egress and on.schedule.is_fresh(case.cached)
        if pending.draining or settled:
            return Done(Result(again=pending.again), case, waiting(pending.condition, case.cached))
        return postponed(self._nodes, pending.condition)

    def _interruption(self, case: InstanceView, node: HostNode, version: str) -> tuple[Purpose | None, str]:
        """For what the Node of a host has to be drained, and a sentence on it."""
        installed = node.payload_version or case.cached.live.payload_version
        if node.takes and not installed:
            return "upgrade", f"{', '.join(node.takes)} are taken over, with payload {version}"
        if installed and installed != version:
            return "upgrade", f"payload {installed} is installed, and {version} is to be"
        if case.cached.reason("RebootRequired") == PREPARATION:
            return "reboot", "the host has to boot to complete its preparation"
        return None, ""

    async def _awaited(
        self, case: InstanceView, node: HostNode, purpose: Purpose | None, leadership: Leadership
    ) -> Done | None:
        """What is done with a host whose work has ended, and whose kubelet is to be heard of; None: there is work."""
        pace = self._on.pace
        kept_back = self._interruptions.put_back(case.cached)
        awaited = self._interruptions.awaited(case.cached.key)
        if kept_back is None and (purpose is not None or not awaited):
            return None
        if not await self._interruptions.give_back(case.cached, node, leadership):
            return Done(Result(again=pace.unready / (4 if awaited else 1)))
        again = Result(again=pace.check_interval)
        if kept_back is not None:
            return Done(again)
        said = {"Configured": Condition("True", "UpToDate", "the host is as the settings ask for")}
        return Done(again, case, said, {"payload_version": node.payload_version})

    async def _unchanged(self, case: InstanceView, target: Target, leadership: Leadership) -> Done | None:
        """What is said where a light check was enough, of a node that is well and that nothing is expected of."""
        key, node, on, checks = case.cached.key, case.node, self._on, self._nodes.light_checks
        if (payload := self._nodes.directory) is None:
            return None
        watched = checks.watched(key)
        if watched is None or node is None or self._is_owed(target) or on.settings_turns.reached.get(key) != target.egress:
            return None
        if case.cached.reason("Ready") != "Ready" or not node.is_ready or key in self._nodes.cordoned:
            return None
        session = on.session(case, target, leadership)
        leadership.permit()
        try:
            values = await self._nodes.facts.node_values(node, payload.payload, leadership)
            seen = await look(target.access, session.host_keys, session.settings, watched)
        except HostError as error:
            # the pass that follows says what is wrong
            _log.info("light check not made", instance=key.name, error=str(error))
            return None
        wished = (target.egress, target.access, target.withheld, wanted(case.cached))
        inputs = (*wished, payload.identity, self._nodes.facts.of(case, leadership), of_node(node), values)
        if not checks.is_unchanged(key, inputs, seen.digest):
            return None
        leadership.permit()
        on.observe(PassResult(channels=seen.channels, seconds=seen.seconds))
        _log.info("host as it was", channels=seen.channels, seconds=round(seen.seconds, 2))
        return Done(on.schedule.next_check(), on.cases.current(case), fields={"last_checked": on.schedule.timestamp()})

    def _is_owed(self, target: Target) -> bool:
        """Whether a rollout of settings still has to hear of the host."""
        rollout = self._on.rollouts.known(target)
        return rollout is None or target.instance.name in rollout.changed or self._on.turns.failed(target)
