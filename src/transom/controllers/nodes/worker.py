"""Hosts that become workers, and stay ones: everything of the payload, in one pass.

Each pass begins from what is there: a process that was killed at any step left a host that the next pass goes on with.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from transom.apply.roll_out import changes_settings
from transom.apply.target import restarts
from transom.controllers.hosts.proxy_only import peers
from transom.controllers.hosts.work import Done, HostSession
from transom.controllers.instance import joined_nodes
from transom.controllers.instance.joined_nodes import mark
from transom.controllers.instance.node_identities import NotRecorded, error_of, node_ip
from transom.controllers.instance.view import InstanceView, regarding_of
from transom.controllers.nodes.outstanding import AdoptedNodeFound, outstanding, remarks, taken_over
from transom.controllers.nodes.progress import REASONS, NodeProgress
from transom.controllers.nodes.proxy_meanwhile import PREPARATION
from transom.controllers.nodes.services import NodeServices, is_ready, stands_alone
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import HostError
from transom.hosts.passes import Admit, PassResult
from transom.hosts.passes import configure as hosts
from transom.hosts.passes.configure import Configured, Worker
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube import ApiError
from transom.proxy.settings import Egress
from transom.windows.host import ObservedState
from transom.windows.nodes import support
from transom.windows.payload.worker import Facts
from transom.windows.planning import Plan

_log: Final = structlog.get_logger("transom.nodes")


@dataclass(frozen=True)
class WorkerNode:
    """A pass that makes a host a worker. What it answers is as `HostWork` says."""

    nodes: NodeServices
    directory: PayloadDirectory
    emptied: bool = False
    earlier: frozenset[str] | None = None
    """The UIDs of the Nodes that were there when the pass began, where none of them was known to be its."""

    def stands_alone(self, case: InstanceView) -> bool:
        """Nor does one whose Node was emptied."""
        return stands_alone(case, emptied=self.emptied)

    # --- on the host

    async def carry_out(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """The pass, told of while it lasts, and a boot where the host needs one and disturbs nobody by it."""
        case, target = on.case, on.target
        facts = self.nodes.facts.of(case, on.leadership)
        try:
            taken = await peers(on)
        except HostError as error:
            return PassResult(error=error)

        async def known(actual: ObservedState) -> Facts:
            on.check(actual)
            return await self._known(facts, case, actual, on.leadership)

        async def wanted(plan: Plan) -> bool:
            # what else is done to a host does not wait for how others are with their settings
            return not changes_settings(plan) or await admit()

        progress = self._progress(on)
        telling = asyncio.ensure_future(progress.run())
        try:
            again = on.owed or self.emptied or case.cached.reason("EgressWorks") != "Fetched"
            when = "now" if self.emptied else restarts(target)
            worker = Worker(self.directory, known, target.egress, when, fetch_anyway=again, taken=taken)
            found = await hosts.configure(target.access, on.host_keys, on.settings, worker, report=progress, admit=wanted)
            if found.error is None and found.reboot and self._may_boot(case):
                await self._boot(on, found)
        finally:
            telling.cancel()
            # waited for, not awaited: where this pass is cancelled meanwhile, that must not pass for the end of the telling
            await asyncio.wait((telling,))
            if not telling.cancelled():
                telling.result()
        return found

    def _progress(self, on: HostSession) -> NodeProgress:
        case, leadership = on.case, on.leadership

        async def write(condition: Condition) -> None:
            await self.nodes.on.status.write(case, {"Configured": condition}, {}, leadership)

        settled = case.cached.reason("Configured") not in (None, "NotChecked", *REASONS)
        return NodeProgress(write, leadership.recorder, regarding_of(case.cached), settled=settled)

    async def _known(self, facts: Facts, case: InstanceView, actual: ObservedState, leadership: Leadership) -> Facts:
        """The facts of a host that was read: its name is recorded before its kubelet can ask for a certificate with it.

        Raises HostError: then it gets no token, and nothing is changed on it.
        """
        on, given = self.nodes.on, str(case.cached.fields.get("nodeIP") or "")
        try:
            identity, cached = await on.identities.settle(
                on.cases.current(case).cached, leadership, said=actual.computer_name, reached=actual.reached
            )
            if (error := error_of(identity)) is not None:
                raise error
            before, case = case.node, on.cases.identified(case, identity, cached)
            if before is None and case.node is not None and case.node.adopted:
                raise AdoptedNodeFound(f"the host is Node {case.node.metadata.name}, which was adopted: the next pass knows it")
            facts = await self.nodes.providers.added(facts, self.directory.payload, leadership.client)
            return await self.nodes.facts.joining(facts, case, node_ip(actual, given), leadership)
        except ApiError as error:
            raise NotRecorded(f"which Node the host is, and its token, could not be written down: {error}") from None

    def _may_boot(self, case: InstanceView) -> bool:
        """Whether a boot disturbs nobody: the Node was emptied, or is not Ready, or is not there."""
        identities = self.nodes.on.identities
        return self.emptied or not is_ready(identities.node(identities.of(case.cached)))

    async def _boot(self, on: HostSession, found: Configured) -> None:
        cached = on.case.cached
        on.leadership.recorder.normal(regarding_of(cached), "Rebooting", f"{found.reboot}: the host boots once")
        self.nodes.interruptions.booted(cached, self.nodes.on.turns.beat(on.case))
        try:
            await hosts.reboot(on.target.access, on.host_keys, on.settings)
        except HostError as error:
            # the host may be on its way down; the next pass sees what came of it
            _log.info("boot not confirmed", instance=cached.metadata.name, error=str(error))

    # --- what came of it

    async def judge(self, on: HostSession, found: PassResult, given: Egress | None) -> None:
        """Tell the rollout of the payload, and who interrupted the Node."""
        case, target, nodes, turns = on.case, on.target, self.nodes, self.nodes.on.turns
        away = case.node is not None and not case.node.is_ready
        upgrade = nodes.interruptions.turn(case.cached.key) if self.emptied or away else None
        if self.emptied or upgrade is not None:
            nodes.interruptions.worked(case.cached, found, turns.before(case))
        if upgrade is not None:
            got = msgspec.structs.replace(target, egress=given or target.egress)
            turns.judge(upgrade, case, got, found, on.leadership)
        elif not self.emptied and _is_as_asked_for(found):
            upgrade = await nodes.upgrades.meet(target, turns.digest(on.leadership))
            turns.judge_found(upgrade, case, target, found, on.leadership)

    async def conclude(self, case: InstanceView, found: PassResult, done: Done, leadership: Leadership) -> Done:
        """What is there, and what is not yet: of the payload, of the Node, and of the way back to taking pods."""
        if found.error is not None or not isinstance(found, Configured):
            return done
        payload, node, key = self.directory.payload, case.node, case.cached.key
        if found.reboot:
            return self._booting(case, found, done)
        done = replace(done, fields=done.fields | {"payload_version": payload.version})
        if lacks := outstanding(found, node):
            done = done.saying(Configured=Condition("False", "Waiting", lacks))
        elif said := "; ".join(self._remarks(case, found, leadership)):
            done = done.saying(Configured=Condition("True", "UpToDate", f"the host is as the settings ask for; {said}"))
        if node is not None:
            if not node.adopted and self._has_come(node) and joined_nodes.is_first(node, installed=True):
                await self.nodes.hold_back(key, node, leadership)
            await mark(case.cached, node, payload.version, done.fields.get("state_hash"), leadership)
            if not lacks and (joined_nodes.is_pending(node) or key in self.nodes.cordoned):
                await joined_nodes.let_in(node, leadership)
                self.nodes.cordoned.discard(key)
        done = self._readiness(case, found.node_name, done, leadership)
        interrupted = node is not None and (self.emptied or node.cordoned_for is not None)
        if node is None or not interrupted or await self.nodes.interruptions.give_back(case.cached, node, leadership):
            return done
        said = f"payload {payload.version} is installed; Node {found.node_name} takes pods again when its kubelet was heard of"
        waits = done.saying(Configured=Condition("False", "WaitingForNode", said))
        return replace(waits, result=Result(again=self.nodes.on.pace.unready / 4))

    def _booting(self, case: InstanceView, found: Configured, done: Done) -> Done:
        waits = "" if self._may_boot(case) else f"; Node {found.node_name} is drained before the host boots"
        done = done.saying(
            RebootRequired=Condition("True", PREPARATION, found.reboot),
            Configured=Condition("False", "RebootRequired", f"{found.reboot}{waits}"),
        )
        return replace(done, result=Result(again=self.nodes.on.pace.unready / 4))

    def _has_come(self, node: HostNode) -> bool:
        """Whether a Node registered while its host was worked on."""
        return self.earlier is not None and node.metadata.uid not in self.earlier

    def _remarks(self, case: InstanceView, found: Configured, leadership: Leadership) -> list[str]:
        """What is worth a word though the host is as it should be."""
        state, cluster = found.after or found.before, self.nodes.cluster
        version = state.os_version if state is not None else ""
        unknown = [
            *support.problems(version, platform=cluster.platform, vxlan_port=cluster.vxlan_port),
            *support.programs(
                ssh_server=state.ssh_server if state is not None else "",
                runtime=case.node.runtime if case.node is not None else "",
                openshift=cluster.known_version if cluster.network else "",
            ),
        ]
        for problem in unknown:
            leadership.recorder.warning(regarding_of(case.cached), "UnsupportedVersion", problem)
        taken = taken_over(state) if state is not None else ()
        return [*taken, *remarks(found, self.directory.payload, cluster.linux_versions()), *unknown]

    def _readiness(self, case: InstanceView, name: str, done: Done, leadership: Leadership) -> Done:
        """What is said of the Node, and when the host is looked at again: sooner while it is not Ready."""
        key, node, pace, unready = case.cached.key, case.node, self.nodes.on.pace, self.nodes.unready
        if is_ready(node):
            unready.pop(key, None)
            waits = done.conditions["Configured"].reason == "Waiting"
            return replace(done, result=Result(again=pace.unready / 4)) if waits else done
        done = replace(done, result=Result(again=pace.unready))
        if case.identity.refusal:
            return done
        lasted = time.monotonic() - unready.setdefault(key, time.monotonic())
        if lasted >= pace.ready:
            what = "has not registered" if node is None else "is not Ready"
            message = (
                f"Node {name} {what} {lasted / 60:.0f} min after its kubelet was started: look at the kubelet's log on the host"
            )
            if case.cached.reason("NodeReady") != "NeverReady":
                leadership.recorder.warning(regarding_of(case.cached), "NeverReady", message)
            return done.saying(NodeReady=Condition("False", "NeverReady", message))
        if node is None:
            message = f"the kubelet was started; Node {name} has not registered yet"
            return done.saying(NodeReady=Condition("False", "Registering", message))
        return done

    def remember(self, case: InstanceView, found: PassResult, leadership: Leadership) -> None:
        """As for every node."""
        self.nodes.remember(case, found, leadership, lasting=True)


def _is_as_asked_for(found: PassResult) -> bool:
    """Whether a host was looked at, and has all of its payload."""
    return isinstance(found, Configured) and found.error is None and not found.plan and not found.waiting
