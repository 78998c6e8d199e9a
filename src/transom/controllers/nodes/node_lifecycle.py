"""Windows hosts that Transom makes nodes, and keeps: whether one can be worked on, and what is done to each of them now."""

from typing import Final

import structlog

from transom.apply.target import Target
from transom.controllers.hosts.host_work import HostWork, StageResult
from transom.controllers.hosts.triggers import get_relevant_fields, get_user_fields
from transom.controllers.instance_state import joined_nodes
from transom.controllers.instance_state.node_identities import to_error
from transom.controllers.instance_state.status import build_not_connected_conditions
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.nodes.interim_proxy import (
    PREPARATION,
    build_waiting_conditions,
    for_adopted_node,
    for_missing_payload,
    for_postponed_payload,
)
from transom.controllers.nodes.payload_source import IncompletePayload
from transom.controllers.nodes.services import NodeServices, has_never_had_pods
from transom.controllers.nodes.worker import WorkerNodeWork
from transom.controllers.rollout.interruptions import Purpose
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import HostError
from transom.hosts.passes.base_pass import PassResult
from transom.hosts.passes.light_check import run_light_check
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.store import ObjectKey
from transom.sources.payload import PayloadError
from transom.windows.nodes import support
from transom.windows.nodes.windows_instance import Lifecycle
from transom.windows.payload.payload import API_SERVER_CA, BOOTSTRAP_KUBECONFIG, Payload

_log: Final = structlog.get_logger("transom.nodes")


class NodeLifecycle:
    """The hosts of lifecycle Node. What it answers is as `HostLifecycle` says."""

    name: Lifecycle = "Node"
    refusal_requeue_after: float | None = 600.0

    def __init__(self, nodes: NodeServices) -> None:
        self._nodes, self._on = nodes, nodes.on
        self._interruptions = nodes.interruptions
        self.tokens = nodes.members.tokens

    def subscribe(self) -> None:
        """Follow the Nodes and what is known of the cluster."""
        self._on.informers.nodes.subscribe(self._on_node_change)
        self._nodes.cluster.subscribe(self._nodes.enqueue_all_hosts)

    def _on_node_change(self, name: ObjectKey, _: HostNode | None, after: HostNode | None) -> None:
        self._nodes.slots.update_node(name.name, after)
        for cached in self._on.informers.windows_instances.take_snapshot().list_by_index("node", name.name):
            if self._interruptions.is_heartbeat_awaited(cached.key):
                self._on.queue.add(cached.key)

    def forget(self, key: ObjectKey) -> None:
        """Release the host's slot."""
        self._interruptions.drop_instance(key)
        self._nodes.forget(key)

    # --- whether a host is connected to

    async def find_connection_refusal(self, view: InstanceView, leadership: Leadership) -> Conditions | None:
        """Return conditions for problems with the Node's name, the payload or the address of the API server."""
        if (error := to_error(view.identity)) is not None:
            return build_not_connected_conditions(type(error).__name__, str(error))
        if (source := self._nodes.source) is None:
            return None
        try:
            opened = await source.open()
        except PayloadError as error:
            return build_not_connected_conditions("PayloadInvalid", str(error))
        refused = await self._find_cluster_refusal(view, opened.payload, leadership)
        if refused is not None:
            return refused
        # a node gets its proxy and trust meanwhile
        if isinstance(opened, IncompletePayload) and view.node is None:
            return build_not_connected_conditions(opened.condition.reason, opened.condition.message)
        return None

    async def _find_cluster_refusal(self, view: InstanceView, payload: Payload, leadership: Leadership) -> Conditions | None:
        cluster = self._nodes.cluster
        if why := cluster.explain_network_refusal(payload.networks):
            return build_not_connected_conditions("NetworkNotSupported", why)
        if why := support.find_skew_refusal(payload.kubernetes, await cluster.read_server_version(leadership.client)):
            return build_not_connected_conditions("VersionSkew", why)
        if (server := cluster.find_kubeconfig_cluster()) is None:
            return build_not_connected_conditions(
                "ApiServerUnknown",
                "nothing says how hosts reach the API server: neither ConfigMap kube-public/cluster-info, nor OpenShift's "
                "Infrastructure with the ConfigMap kube-root-ca.crt",
            )
        if why := await self._nodes.trust.find_trust_problem(server):
            readers = ", ".join(payload.list_readers(API_SERVER_CA, BOOTSTRAP_KUBECONFIG))
            message = f"{readers} would not connect to {server.get('server')}, by the CAs of {cluster.ca_source}: {why}"
            return build_not_connected_conditions("ApiServerNotTrusted", message)
        egress = view.target.egress if view.target is not None else None
        if egress is not None and (egress.http_proxy or egress.https_proxy) and not egress.api_server_known:
            return build_not_connected_conditions(
                "ApiServerUnknown",
                "NO_PROXY lacks the API server's host, which is not known: set spec.networks.internalAPIHost of "
                "EgressProxy/cluster",
            )
        return None

    # --- what is done to it

    async def choose_work(self, view: InstanceView, target: Target, leadership: Leadership) -> HostWork | StageResult:
        """Return the payload's work if the host may get it now, else proxy and trust; a result if a light check was enough."""
        nodes, node, key = self._nodes, view.node, view.cached.key
        if node is not None and node.is_adopted and not node.services_to_take_over:
            self._interruptions.end_interruption(key)
            return await self._run_light_check(view, target, leadership) or for_adopted_node(nodes)
        if nodes.source is None:
            self._interruptions.end_interruption(key)
            return for_missing_payload(nodes)
        node_uids = (
            frozenset(item.metadata.uid or "" for item in self._on.informers.nodes.take_snapshot()) if node is None else None
        )
        if node is None:
            self._interruptions.end_interruption(key)
        directory = await nodes.source.open()
        if isinstance(directory, IncompletePayload):
            return for_postponed_payload(nodes, directory.condition)
        if node is None:
            return WorkerNodeWork(nodes, directory, earlier=node_uids)
        return await self._choose_for_node(view, target, node, directory, leadership)

    async def _choose_for_node(
        self, view: InstanceView, target: Target, node: HostNode, directory: PayloadDirectory, leadership: Leadership
    ) -> HostWork | StageResult:
        nodes, key = self._nodes, view.cached.key
        if not node.is_adopted and joined_nodes.is_first_observation(node, installed=bool(view.cached.live.payload_version)):
            await nodes.cordon_new_node(key, node, leadership)
        await joined_nodes.respect_manual_uncordon(node, leadership)
        purpose, why = self._find_drain_purpose(view, node, directory.payload.version)
        if node.cordoned_for is not None:
            if (awaited := await self._await_kubelet(view, node, purpose, leadership)) is not None:
                return awaited
        elif purpose is None:
            self._interruptions.release_node_slot(key)
        if purpose is not None and node.is_ready:
            return await self._choose_interrupting_work(view, target, node, directory, purpose, why, leadership)
        if purpose == "upgrade" and not has_never_had_pods(node):
            away = await self._interruptions.admit_unavailable_node(view.cached, target, why, leadership)
            if away is not None:
                return for_postponed_payload(nodes, away.condition)
        if purpose is None and (unchanged := await self._run_light_check(view, target, leadership)) is not None:
            return unchanged
        return WorkerNodeWork(nodes, directory)

    async def _choose_interrupting_work(
        self,
        view: InstanceView,
        target: Target,
        node: HostNode,
        directory: PayloadDirectory,
        purpose: Purpose,
        why: str,
        leadership: Leadership,
    ) -> HostWork | StageResult:
        """Choose the payload once the Node is drained; until then proxy and trust, where they may change."""
        key, services = view.cached.key, self._on
        pending = await self._interruptions.prepare(view.cached, target, node, purpose, why, leadership)
        if pending is None:
            return WorkerNodeWork(self._nodes, directory, node_drained=True)
        settled = services.host_rollout.get_memory(key).applied_settings == target.egress and services.schedule.is_fresh(
            view.cached
        )
        if pending.draining or settled:
            return StageResult(Result(again=pending.again), view, build_waiting_conditions(pending.condition, view.cached))
        return for_postponed_payload(self._nodes, pending.condition)

    def _find_drain_purpose(self, view: InstanceView, node: HostNode, version: str) -> tuple[Purpose | None, str]:
        """For what the Node of a host has to be drained, and a sentence on it."""
        installed = node.payload_version or view.cached.live.payload_version
        if node.services_to_take_over and not installed:
            return "upgrade", f"{', '.join(node.services_to_take_over)} are taken over, with payload {version}"
        if installed and installed != version:
            return "upgrade", f"payload {installed} is installed, and {version} is required"
        if view.cached.get_reason("RebootRequired") == PREPARATION:
            return "reboot", "a reboot is required to complete the preparation of the host"
        return None, ""

    async def _await_kubelet(
        self, view: InstanceView, node: HostNode, purpose: Purpose | None, leadership: Leadership
    ) -> StageResult | None:
        """Return the result for a host whose work has ended and whose kubelet must report; None if there is work."""
        pace = self._on.pace
        kept_back = self._interruptions.get_rollback_condition(view.cached)
        awaited = self._interruptions.is_heartbeat_awaited(view.cached.key)
        if kept_back is None and (purpose is not None or not awaited):
            return None
        if not await self._interruptions.uncordon_when_ready(view.cached, node, leadership):
            return StageResult(Result(again=pace.unready / (4 if awaited else 1)))
        again = Result(again=pace.check_interval)
        if kept_back is not None:
            return StageResult(again)
        conditions = {"Configured": Condition("True", "UpToDate", "the host matches the settings")}
        return StageResult(again, view, conditions, {"payload_version": node.payload_version})

    async def _run_light_check(self, view: InstanceView, target: Target, leadership: Leadership) -> StageResult | None:
        """Return the result if a light check of a healthy node was enough."""
        key, node, services, checks = view.cached.key, view.node, self._on, self._nodes.light_checks
        if (payload := self._nodes.directory) is None:
            return None
        watched = checks.get_watched_items(key)
        if (
            watched is None
            or node is None
            or self._is_awaited_by_rollout(target)
            or services.host_rollout.get_memory(key).applied_settings != target.egress
        ):
            return None
        if view.cached.get_reason("Ready") != "Ready" or not node.is_ready or self._nodes.get_memory(key).is_cordoned:
            return None
        session = services.start_session(view, target, leadership)
        leadership.permit()
        try:
            values = await self._nodes.facts.read_node_values(node, payload.payload, leadership)
            seen = await run_light_check(target.access, session.host_keys, session.settings, watched)
        except HostError as error:
            # the pass that follows says what is wrong
            _log.info("light check not made", instance=key.name, error=str(error))
            return None
        wished = (target.egress, target.access, target.withheld, get_user_fields(view.cached))
        inputs = (*wished, payload.identity, self._nodes.facts.read_facts(view, leadership), get_relevant_fields(node), values)
        if not checks.is_unchanged(key, inputs, seen.digest):
            return None
        leadership.permit()
        services.observe(PassResult(channels=seen.channels, seconds=seen.seconds))
        _log.info("host unchanged", channels=seen.channels, seconds=round(seen.seconds, 2))
        return StageResult(
            services.schedule.schedule_next_check(),
            services.reader.refresh(view),
            fields={"last_checked": services.schedule.get_timestamp()},
        )

    def _is_awaited_by_rollout(self, target: Target) -> bool:
        """Return True if a rollout of settings still waits for the host's report."""
        rollout = self._on.rollouts.find(target)
        return rollout is None or target.instance.name in rollout.unresolved or self._on.host_rollout.has_failed(target)
