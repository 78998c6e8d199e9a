"""Hosts that become workers, and stay ones: everything of the payload, in one pass.

Each pass begins with the observed state: if a process is killed at any step, the next pass continues.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from transom.apply.roll_out import has_settings_change
from transom.controllers.hosts.host_work import HostSession, StageResult
from transom.controllers.hosts.proxy_only import read_predecessor_state
from transom.controllers.instance_state import joined_nodes
from transom.controllers.instance_state.joined_nodes import annotate_node
from transom.controllers.instance_state.node_identities import NodeNameUnknown, NotRecorded, select_node_ip, to_error
from transom.controllers.instance_state.view import InstanceView, to_regarding
from transom.controllers.nodes.interim_proxy import PREPARATION
from transom.controllers.nodes.node_messages import AdoptedNodeFound, describe_outstanding, iter_remarks, iter_takeover_notes
from transom.controllers.nodes.progress import REASONS, NodeProgressWriter
from transom.controllers.nodes.services import NodeServices, can_change_without_drain, is_ready
from transom.controllers.rollout.host_rollout import PassRecord
from transom.controllers.runtime.cached_objects import HOST_NAME, CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import HostError
from transom.hosts.passes import configure as hosts
from transom.hosts.passes.base_pass import Admit, PassResult
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.errors import ApiError
from transom.proxy.settings import Egress
from transom.windows.host.host_state import ObservedState
from transom.windows.nodes import support
from transom.windows.nodes.platform_names import choose_node_name, find_name_script
from transom.windows.payload.worker import Facts
from transom.windows.planning.planner import Plan

_log: Final = structlog.get_logger("transom.nodes")


@dataclass(frozen=True)
class WorkerNodeWork:
    """A pass that makes a host a worker. What it answers is as `HostWork` says."""

    nodes: NodeServices
    directory: PayloadDirectory
    node_drained: bool = False
    earlier: frozenset[str] | None = None
    """The UIDs of the Nodes that existed when the pass began, if none of them was known to be its own."""

    def can_bypass_rollout(self, view: InstanceView) -> bool:
        """Nor does one whose Node was emptied."""
        return can_change_without_drain(view, is_drained=self.node_drained)

    # --- on the host

    async def run_pass(self, session: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """Run the pass, report its progress, and reboot the host if that is required and harms no pods."""
        case, target = session.view, session.target
        facts = self.nodes.facts.read_facts(case, session.leadership)
        try:
            taken = await read_predecessor_state(session)
        except HostError as error:
            return PassResult(error=error)

        async def add_host_facts(actual: ObservedState) -> Facts:
            session.check_state(actual)
            return await self._add_host_facts(facts, case, actual, session.leadership)

        async def should_apply(plan: Plan) -> bool:
            # what else is done to a host does not wait for how others are with their settings
            return not has_settings_change(plan) or await admit()

        progress = self._build_progress(session)
        telling = asyncio.ensure_future(progress.run())
        try:
            again = session.change_in_flight or self.node_drained or case.cached.get_reason("EgressWorks") != "Fetched"
            when = "now" if self.node_drained else target.choose_restart_time()
            worker = WorkerSpec(
                self.directory,
                add_host_facts,
                target.egress,
                when,
                fetch_anyway=again,
                taken=taken,
                name_script=find_name_script(facts.platform) if _needs_name(case.cached) else None,
            )
            result = await hosts.configure_worker(
                target.access, session.host_keys, session.settings, worker, report=progress, admit=should_apply
            )
            if result.error is None and result.reboot and self._can_reboot(case):
                await self._reboot(session, result)
        finally:
            telling.cancel()
            # waited for, not awaited: where this pass is cancelled meanwhile, that must not pass for the end of the telling
            await asyncio.wait((telling,))
            if not telling.cancelled():
                telling.result()
        return result

    def _build_progress(self, session: HostSession) -> NodeProgressWriter:
        case, leadership = session.view, session.leadership

        async def write(condition: Condition) -> None:
            await self.nodes.on.status.write(case, {"Configured": condition}, {}, leadership)

        settled = case.cached.get_reason("Configured") not in (None, "NotChecked", *REASONS)
        return NodeProgressWriter(write, leadership.recorder, to_regarding(case.cached), settled=settled)

    async def _add_host_facts(self, facts: Facts, view: InstanceView, actual: ObservedState, leadership: Leadership) -> Facts:
        """Add the facts of a host that was read: its name is recorded before its kubelet can request a certificate with it.

        Raises HostError: then it gets no token, and nothing is changed on it.
        """
        services, configured_ip = self.nodes.on, str(view.cached.spec_fields.get("nodeIP") or "")
        try:
            identity, cached = await services.identities.resolve_and_record(
                services.reader.refresh(view).cached,
                leadership,
                reported_name=_choose_name(view.cached, actual, facts.platform),
                reached=actual.reached,
            )
            if (error := to_error(identity)) is not None:
                raise error
            before, view = view.node, services.reader.with_identity(view, identity, cached)
            if before is None and view.node is not None and view.node.is_adopted:
                raise AdoptedNodeFound(f"the host is Node {view.node.metadata.name}, which was adopted: the next pass knows it")
            facts = await self.nodes.providers.add_configuration(facts, self.directory.payload, leadership.client)
            return await self.nodes.facts.add_node_facts(facts, view, select_node_ip(actual, configured_ip), leadership)
        except ApiError as error:
            raise NotRecorded(f"which Node the host is, and its token, could not be written down: {error}") from None

    def _can_reboot(self, view: InstanceView) -> bool:
        """Return True if a reboot harms no pods: the Node is drained, not Ready, or does not exist."""
        identities = self.nodes.on.identities
        return self.node_drained or not is_ready(identities.get_node(identities.identify(view.cached)))

    async def _reboot(self, session: HostSession, result: ConfigureResult) -> None:
        cached = session.view.cached
        session.leadership.recorder.record_normal(to_regarding(cached), "Rebooting", f"{result.reboot}: the host reboots")
        self.nodes.interruptions.record_reboot(cached, self.nodes.on.host_rollout.find_newest_heartbeat(session.view))
        try:
            await hosts.request_reboot(session.target.access, session.host_keys, session.settings)
        except HostError as error:
            # the host may be on its way down; the next pass sees what came of it
            _log.info("boot not confirmed", instance=cached.metadata.name, error=str(error))

    # --- what came of it

    async def report_pass(self, session: HostSession, result: PassResult, record: PassRecord, fallback: Egress | None) -> None:
        """Tell the rollout of the payload, and who interrupted the Node."""
        case, target, nodes, host_rollout = session.view, session.target, self.nodes, self.nodes.on.host_rollout
        away = case.node is not None and not case.node.is_ready
        upgrade = nodes.interruptions.get_rollout(case.cached.key) if self.node_drained or away else None
        if self.node_drained or upgrade is not None:
            nodes.interruptions.record_pass(case.cached, result, record.heartbeat_before_change)
        if upgrade is not None:
            got = msgspec.structs.replace(target, egress=fallback or target.egress)
            host_rollout.report_pass(upgrade, case, got, result, record, session.leadership)
        elif not self.node_drained and _is_complete(result):
            upgrade = await host_rollout.open_rollout(nodes.upgrades, target, session.leadership)
            host_rollout.report_conforming(upgrade, case, target, result, record, session.leadership)

    async def build_result(
        self, view: InstanceView, pass_result: PassResult, base: StageResult, leadership: Leadership
    ) -> StageResult:
        """Return what is installed and what is missing: of the payload, of the Node, and until it accepts pods again."""
        if pass_result.error is not None or not isinstance(pass_result, ConfigureResult):
            return base
        payload, node, key = self.directory.payload, view.node, view.cached.key
        if pass_result.reboot:
            return self._build_rebooting_result(view, pass_result, base)
        base = replace(base, fields=base.fields | {"payload_version": payload.version})
        if lacks := describe_outstanding(pass_result, node):
            base = base.with_conditions(Configured=Condition("False", "Waiting", lacks))
        elif message := "; ".join(self._list_remarks(view, pass_result, leadership)):
            base = base.with_conditions(Configured=Condition("True", "UpToDate", f"the host matches the settings; {message}"))
        if node is not None:
            if not node.is_adopted and self._has_registered(node) and joined_nodes.is_first_observation(node, installed=True):
                await self.nodes.cordon_new_node(key, node, leadership)
            await annotate_node(view.cached, node, payload.version, base.fields.get("state_hash"), leadership)
            if not lacks and (joined_nodes.is_pending(node) or self.nodes.get_memory(key).is_cordoned):
                await joined_nodes.uncordon_joined_node(node, leadership)
                self.nodes.get_memory(key).is_cordoned = False
        base = self._add_readiness(view, pass_result.node_name, base, leadership)
        interrupted = node is not None and (self.node_drained or node.cordoned_for is not None)
        if node is None or not interrupted or await self.nodes.interruptions.uncordon_when_ready(view.cached, node, leadership):
            return base
        message = (
            f"payload {payload.version} is installed; Node {pass_result.node_name} takes pods again when its kubelet "
            f"was heard of"
        )
        waits = base.with_conditions(Configured=Condition("False", "WaitingForNode", message))
        return replace(waits, result=Result(again=self.nodes.on.pace.unready / 4))

    def _build_rebooting_result(self, view: InstanceView, result: ConfigureResult, base: StageResult) -> StageResult:
        waits = "" if self._can_reboot(view) else f"; Node {result.node_name} is drained before the host boots"
        base = base.with_conditions(
            RebootRequired=Condition("True", PREPARATION, result.reboot),
            Configured=Condition("False", "RebootRequired", f"{result.reboot}{waits}"),
        )
        return replace(base, result=Result(again=self.nodes.on.pace.unready / 4))

    def _has_registered(self, node: HostNode) -> bool:
        """Return True if a Node registered during the pass."""
        return self.earlier is not None and node.metadata.uid not in self.earlier

    def _list_remarks(self, view: InstanceView, result: ConfigureResult, leadership: Leadership) -> list[str]:
        """Return notes on a host that is configured as desired."""
        state, cluster = result.after or result.before, self.nodes.cluster
        version = state.os_version if state is not None else ""
        unknown = [
            *support.iter_windows_problems(version, platform=cluster.platform, vxlan_port=cluster.vxlan_port),
            *support.iter_outdated_programs(
                ssh_server=state.ssh_server if state is not None else "",
                runtime=view.node.runtime if view.node is not None else "",
                openshift=cluster.known_version if cluster.network else "",
            ),
        ]
        for problem in unknown:
            leadership.recorder.record_warning(to_regarding(view.cached), "UnsupportedVersion", problem)
        taken = iter_takeover_notes(state) if state is not None else ()
        return [*taken, *iter_remarks(result, self.directory.payload, cluster.list_linux_versions()), *unknown]

    def _add_readiness(self, view: InstanceView, name: str, base: StageResult, leadership: Leadership) -> StageResult:
        """Return the result with the Node's state and the time of the next check, earlier while it is not Ready."""
        node, pace, memory = view.node, self.nodes.on.pace, self.nodes.get_memory(view.cached.key)
        if is_ready(node):
            memory.unready_since = None
            waits = base.conditions["Configured"].reason == "Waiting"
            return replace(base, result=Result(again=pace.unready / 4)) if waits else base
        base = replace(base, result=Result(again=pace.unready))
        if view.identity.refusal:
            return base
        if memory.unready_since is None:
            memory.unready_since = time.monotonic()
        lasted = time.monotonic() - memory.unready_since
        if lasted >= pace.ready:
            what = "has not registered" if node is None else "is not Ready"
            message = (
                f"Node {name} {what} {lasted / 60:.0f} min after its kubelet was started: look at the kubelet's log on the host"
            )
            if view.cached.get_reason("NodeReady") != "NeverReady":
                leadership.recorder.record_warning(to_regarding(view.cached), "NeverReady", message)
            return base.with_conditions(NodeReady=Condition("False", "NeverReady", message))
        if node is None:
            message = f"the kubelet was started, but Node {name} has not registered yet"
            return base.with_conditions(NodeReady=Condition("False", "Registering", message))
        return base

    def remember_pass(self, view: InstanceView, result: PassResult, leadership: Leadership) -> None:
        """As for every node."""
        self.nodes.record_pass(view, result, leadership, is_final=True)


def _needs_name(cached: CachedInstance) -> bool:
    """Return True if no object and no earlier pass names the Node of a host."""
    return not cached.spec_fields.get("nodeName") and not cached.live.node_name and not _is_named_by_machine(cached)


def _is_named_by_machine(cached: CachedInstance) -> bool:
    return HOST_NAME in (cached.metadata.annotations or {})


def _choose_name(cached: CachedInstance, actual: ObservedState, platform: str) -> str:
    """Return the name of the Node of a host, as its platform has it. Raises NodeNameUnknown."""
    if cached.spec_fields.get("nodeName") or _is_named_by_machine(cached):
        return actual.computer_name
    name = choose_node_name(
        platform,
        recorded=cached.live.node_name,
        computer_name=actual.computer_name,
        dns_domain=actual.dns_domain,
        metadata_name=actual.metadata_name,
    )
    if not name:
        complaint = f" ({actual.metadata_complaint})" if actual.metadata_complaint else ""
        raise NodeNameUnknown(
            f"the metadata service of {platform} does not answer on the host{complaint}, and the cloud knows the Node by the"
            " name there. Make the service reachable, or set spec.nodeName (nodeName= in windows-instances) to the name that"
            " the cloud has for the instance"
        )
    return name


def _is_complete(result: PassResult) -> bool:
    """Return True if a host was read and has its whole payload."""
    return isinstance(result, ConfigureResult) and result.error is None and not result.plan and not result.waiting
