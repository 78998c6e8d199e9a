"""Instances of lifecycle Node to nodes: a host that has nothing but SSH becomes a worker, and stays one."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

import msgspec
import structlog

from transom.apply.roll_out import changes_settings
from transom.apply.target import Target, restarts
from transom.controllers.hosts.concerns import of_node, wanted
from transom.controllers.hosts.controller import EARLIEST, HostsController
from transom.controllers.hosts.session import HostSession, visit
from transom.controllers.instance import first_configuration
from transom.controllers.instance.identity_errors import NotRecorded, error_of, node_ip
from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.instance.node_marks import mark
from transom.controllers.instance.status import not_connected
from transom.controllers.instance.view import InstanceView, regarding_of
from transom.controllers.join.api_server_trust import ApiServerTrust
from transom.controllers.join.cluster_facts import ClusterFacts
from transom.controllers.join.credential_providers import CredentialProviders
from transom.controllers.join.members import Members
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.nodes.facts import NodeFacts
from transom.controllers.nodes.light_checks import LightChecks
from transom.controllers.nodes.outstanding import AdoptedNodeFound, configurations, outstanding, put_right, remarks, taken_over
from transom.controllers.nodes.payload_source import PayloadSource
from transom.controllers.nodes.progress import REASONS, NodeProgress
from transom.controllers.rollout.interruptions import Interruptions, Purpose
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.rollout.slots import Slots
from transom.controllers.rollout.subjects import upgrades_of
from transom.controllers.runtime.cached import CachedInstance, HostNode
from transom.controllers.runtime.condition_aggregator import ConditionAggregator
from transom.controllers.runtime.conditions import Condition, Conditions, Fields, timestamp
from transom.controllers.runtime.controller import Result
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.leadership import Leadership
from transom.controllers.runtime.options import Options
from transom.controllers.runtime.settings import CurrentSettings
from transom.hosts.errors import HostError, PutBack
from transom.hosts.passes import configure as hosts
from transom.hosts.passes.configure import Configured, Worker
from transom.hosts.passes.light_check import look
from transom.hosts.passes.passes import Admit, PassResult
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.kube.errors import ApiError
from transom.kube.queue import Priority
from transom.kube.store import ObjectKey
from transom.sources.payload import PayloadError
from transom.windows.host.state import ObservedState
from transom.windows.nodes import skew, support
from transom.windows.nodes.instance import Lifecycle
from transom.windows.parts.adopted import UNATTENDED
from transom.windows.payload.payload import API_SERVER_CA, BOOTSTRAP_KUBECONFIG, Payload
from transom.windows.payload.worker import Facts, others
from transom.windows.planning.plan import Plan

_log: Final = structlog.get_logger("transom.nodes")
_PREPARATION: Final = "Preparation"
"""The reason of RebootRequired where it is for Transom to boot the host."""
_ADOPTED: Final = Condition(
    "True",
    "Adopted",
    "another operator made this host a node: its services and files stay as they are. Transom keeps proxy, trust and SSH key, "
    f"and does not look after {', '.join(UNATTENDED)}: `transom adopt --services` has it do so",
)


class NodesController(HostsController):
    """What `HostsController` does for a host, and everything else that makes it a node.

    Each pass begins from what is there: a process that was killed at any step left a host that the next pass goes on with.
    """

    lifecycle: ClassVar[Lifecycle] = "Node"
    refused_again: ClassVar[float | None] = 600.0

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        *,
        options: Options,
        observe: Callable[[PassResult], None],
        reports: ConditionAggregator,
        rollouts: Rollouts,
        keys: KeyRotation,
        members: Members,
        identities: NodeIdentities,
        now: Callable[[], datetime],
    ) -> None:
        pace = options.pace
        super().__init__(
            informers,
            settings,
            pace=pace,
            observe=observe,
            rollouts=rollouts,
            keys=keys,
            identities=identities,
            tokens=members.tokens,
            require_host_keys=options.require_host_keys,
            now=now,
        )
        self._members = members
        self._cluster = ClusterFacts(informers, settings)
        self._trust, self._providers = ApiServerTrust(), CredentialProviders()
        self._facts = NodeFacts(members, self._cluster)
        path, cache = options.payload, options.payload_cache
        builds = options.payload_builds
        self._source = PayloadSource(path, cache or path, settings, self._ask_all, builds=builds) if path is not None else None
        self._unready: dict[ObjectKey, float] = {}
        """Since when a host is configured whose Node is not Ready (time.monotonic)."""
        hold = pace.drain + pace.ready
        self._held: set[ObjectKey] = set()
        """Hosts whose Nodes were cordoned by this process, be it a moment ago, until they take pods."""
        self._configurations: dict[ObjectKey, dict[str, int]] = {}
        """How the services of each host were configured when this process last looked."""
        self._light_checks = LightChecks(EARLIEST * pace.check_interval)
        self._slots = Slots(informers, options.max_unavailable, hold, now, self.queue.add)
        self._upgrades = upgrades_of(
            informers, reports, self._resumption, rollouts.begun_hosts, lambda: self._identity, self._named
        )
        self._turns.rollouts.append(self._upgrades)
        self._interruptions = Interruptions(self._slots, self._rollouts, self._upgrades, pace, hold, now)

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        super().begin()
        self._cluster.subscribe(self._ask_all)

    def _ask_all(self) -> None:
        for cached in self._informers.windows_instances.snapshot():
            if cached.fields.get("lifecycle") == self.lifecycle:
                self.queue.add(cached.key, Priority.CHECK)

    @property
    def _directory(self) -> PayloadDirectory | None:
        return self._source.directory if self._source is not None else None

    @property
    def _identity(self) -> str:
        return self._directory.identity if self._directory is not None else ""

    def _named(self) -> str:
        return f"payload {self._directory.payload.version}" if self._directory is not None else "the payload"

    def _node_changed(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        super()._node_changed(name, before, after)
        self._slots.node_changed(name.name, after)
        for cached in self._informers.windows_instances.snapshot().by("node", name.name):
            if self._interruptions.awaited(key := cached.key):
                self.queue.add(key)

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """As `HostsController` says. An instance that is to go needs no slot."""
        cached = self._informers.windows_instances.snapshot().get(key)
        if cached is None or cached.metadata.deletion_timestamp is not None:
            self._interruptions.drop(key)
            self._held.discard(key)
            self._configurations.pop(key, None)
            self._light_checks.forget(key)
        return await super().reconcile(key, leadership)

    async def _refusal(self, case: InstanceView, leadership: Leadership) -> Conditions | None:
        refused = await super()._refusal(case, leadership)
        if refused is None and (error := error_of(case.identity)) is not None:
            return not_connected(type(error).__name__, str(error))
        if refused is not None or self._source is None:
            return refused
        try:
            incomplete = await self._source.open()
        except PayloadError as error:
            return not_connected("PayloadInvalid", str(error))
        payload = self._source.payload
        assert payload is not None
        if why := self._cluster.network_refusal(payload.networks):
            return not_connected("NetworkNotSupported", why)
        if why := skew.refusal(payload.kubernetes, await self._cluster.server_version(leadership.client)):
            return not_connected("VersionSkew", why)
        if (cluster := self._cluster.cluster()) is None:
            return not_connected(
                "ApiServerUnknown",
                "nothing says how hosts reach the API server: neither ConfigMap kube-public/cluster-info, nor OpenShift's "
                "Infrastructure with the ConfigMap kube-root-ca.crt",
            )
        if why := await self._trust.refusal(cluster):
            readers = ", ".join(payload.readers_of(API_SERVER_CA, BOOTSTRAP_KUBECONFIG))
            message = (
                f"{readers} would not connect to {cluster.get('server')}, by the CAs of {self._cluster.published_in}: {why}"
            )
            return not_connected("ApiServerNotTrusted", message)
        egress = case.target.egress if case.target is not None else None
        if egress is not None and (egress.http_proxy or egress.https_proxy) and not egress.api_server_known:
            return not_connected(
                "ApiServerUnknown",
                "NO_PROXY lacks the API server's host, which is not known: set spec.networks.internalAPIHost of "
                "EgressProxy/cluster",
            )
        # a node gets its proxy and trust meanwhile
        return not_connected(incomplete.reason, incomplete.message) if incomplete is not None and case.node is None else None

    async def _pass(self, case: InstanceView, target: Target, leadership: Leadership) -> Result:
        node, key = case.node, case.cached.key
        if node is not None and node.adopted and not node.takes:
            self._interruptions.end(key)
            if await self._is_unchanged(case, target, leadership):
                return self._next_check()
            return await super()._pass(replace(case, later=_ADOPTED), target, leadership)
        if self._source is None or node is None:
            self._interruptions.end(key)
            nodes = frozenset(node.metadata.uid or "" for node in self._informers.nodes.snapshot())
            return await super()._pass(replace(case, earlier=nodes if node is None else None), target, leadership)
        if (incomplete := await self._source.open()) is not None or self._directory is None:
            return await super()._pass(replace(case, later=incomplete), target, leadership)
        if not node.adopted and first_configuration.is_first(node, installed=bool(case.cached.live.get("payloadVersion"))):
            await self._hold_back(key, node, leadership)
        await first_configuration.respect(node, leadership)
        purpose, why = self._interruption(case, self._directory.payload.version)
        if node.cordoned_for is not None:
            if (waits := await self._awaited(case, node, purpose, leadership)) is not None:
                return waits
        elif purpose is None:
            self._interruptions.forget(key)
        turn = self._turns.of(case, leadership)
        if purpose is None or not _is_ready(node):
            if purpose == "upgrade" and not _has_nothing_to_lose(node):
                away = await self._interruptions.admit_away(case.cached, target, why, turn)
                case = replace(case, later=away.condition if away is not None else None)
            if purpose is None and await self._is_unchanged(case, target, leadership):
                return self._next_check()
            return await super()._pass(case, target, leadership)
        pending = await self._interruptions.prepare(case.cached, target, node, purpose, why, leadership, turn)
        if pending is None:
            return await super()._pass(replace(case, drained=True), target, leadership)
        if pending.draining or (self._done.get(key) == target.egress and self._is_fresh(case.cached)):
            conditions = _said(pending.condition, case.cached)
            self._tell_trouble(case, conditions, leadership)
            await self._write(case, conditions, {}, leadership)
            return Result(again=pending.again)
        return await super()._pass(replace(case, later=pending.condition), target, leadership)

    async def _is_unchanged(self, case: InstanceView, target: Target, leadership: Leadership) -> bool:
        """Whether a light check was enough, which is made of a node that is well and that nothing is expected of."""
        key, node, payload = case.cached.key, case.node, self._directory
        if self._source is None or payload is None:
            return False
        watched = self._light_checks.watched(key)
        rollout = self._rollouts.known(target)
        owed = rollout is None or target.instance.name in rollout.changed or self._turns.failed(target)
        if watched is None or node is None or owed or self._done.get(key) != target.egress:
            return False
        if case.cached.reason("Ready") != "Ready" or not node.is_ready or key in self._held:
            return False
        on = visit(case, target, leadership, self._pace, lambda *of: self._cases.managed(case.cached, *of), self._contact)
        leadership.permit()
        try:
            values = await self._facts.node_values(node, payload.payload, leadership)
            seen = await look(target.access, on.host_keys, on.settings, watched)
        except HostError as error:
            # the pass that follows says what is wrong
            _log.info("light check not made", instance=key.name, error=str(error))
            return False
        wished = (target.egress, target.access, target.withheld, wanted(case.cached))
        inputs = (*wished, payload.identity, self._facts.of(case, leadership), of_node(node), values)
        if not self._light_checks.is_unchanged(key, inputs, seen.digest):
            return False
        leadership.permit()
        self._observe(PassResult(channels=seen.channels, seconds=seen.seconds))
        await self._write(self._cases.current(case), {}, {"lastChecked": timestamp(self._now())}, leadership)
        _log.info("host as it was", channels=seen.channels, seconds=round(seen.seconds, 2))
        return True

    async def _hold_back(self, key: ObjectKey, node: HostNode, leadership: Leadership) -> None:
        await first_configuration.hold_back(node, leadership)
        self._held.add(key)

    def _interruption(self, case: InstanceView, version: str) -> tuple[Purpose | None, str]:
        """For what the Node of a host has to be drained, and a sentence on it."""
        installed = (case.node.payload_version if case.node else None) or case.cached.live.get("payloadVersion")
        if case.node is not None and case.node.takes and not installed:
            return "upgrade", f"{', '.join(case.node.takes)} are taken over, with payload {version}"
        if installed and installed != version:
            return "upgrade", f"payload {installed} is installed, and {version} is to be"
        if case.cached.reason("RebootRequired") == _PREPARATION:
            return "reboot", "the host has to boot to complete its preparation"
        return None, ""

    async def _awaited(
        self, case: InstanceView, node: HostNode, purpose: Purpose | None, leadership: Leadership
    ) -> Result | None:
        """What is done with a host whose work has ended, and whose kubelet is to be heard of; None: there is work."""
        key = case.cached.key
        kept_back = self._interruptions.put_back(case.cached)
        awaited = self._interruptions.awaited(key)
        if kept_back is None and (purpose is not None or not awaited):
            return None
        if not await self._interruptions.give_back(case.cached, node, leadership):
            return Result(again=self._pace.unready / (4 if awaited else 1))
        if kept_back is None:
            done: Conditions = {"Configured": Condition("True", "UpToDate", "the host is as the settings ask for")}
            await self._write(case, done, {"payloadVersion": node.payload_version}, leadership)
        return Result(again=self._pace.check_interval)

    def _stands_alone(self, case: InstanceView) -> bool:
        node = case.node
        if node is None or case.drained or node.cordoned_for is not None:
            return True
        return not node.is_ready and not node.adopted and _has_nothing_to_lose(node)

    async def _carry_out(self, on: HostSession) -> PassResult:
        case, target = on.case, on.target
        found = await super()._carry_out(on)
        away = case.node is not None and not case.node.is_ready and case.later is None
        upgrade = self._interruptions.turn(case.cached.key) if case.drained or away else None
        if case.drained or upgrade is not None:
            self._interruptions.worked(case.cached, found, self._turns.before(case))
        if upgrade is not None:
            egress = self._given.get(case.cached.key, target.egress)
            self._turns.judge(upgrade, case, msgspec.structs.replace(target, egress=egress), found, on.leadership)
        elif not case.drained and _is_as_asked_for(found):
            upgrade = await self._upgrades.meet(target, self._turns.digest(on.leadership))
            if target.instance.name in upgrade.changed:
                # it failed once the version was on it, and is well now
                self._turns.judge(upgrade, case, target, found, on.leadership)
            else:
                upgrade.come_out(target.instance.name, "right")
        return found

    async def _work(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        case, target, leadership = on.case, on.target, on.leadership
        payload, directory = (self._source.payload, self._source.directory) if self._source is not None else (None, None)
        if payload is None:
            return await super()._work(on, admit, change_expected=change_expected)
        if case.later is not None or directory is None:
            own = (service.name for service in payload.services if service.egress)
            services = (*own, *others(payload, target.egress))
            windows = msgspec.structs.replace(target.egress.windows, services=services)
            target = msgspec.structs.replace(target, egress=msgspec.structs.replace(target.egress, windows=windows))
            return await super()._work(replace(on, target=target), admit, change_expected=change_expected)
        facts = self._facts.of(case, leadership)
        try:
            taken = await self._peers(on)
        except HostError as error:
            return PassResult(error=error)

        async def known(actual: ObservedState) -> Facts:
            on.check(actual)
            return await self._known(facts, case, actual, leadership)

        async def write(condition: Condition) -> None:
            await self._write(self._cases.current(case), {"Configured": condition}, {}, leadership)

        async def wanted(plan: Plan) -> bool:
            # what else is done to a host does not wait for how others are with their settings
            return not changes_settings(plan) or await admit()

        settled = case.cached.reason("Configured") not in (None, "NotChecked", *REASONS)
        progress = NodeProgress(write, leadership.recorder, regarding_of(case.cached), settled=settled)
        telling = asyncio.ensure_future(progress.run())
        try:
            again = on.owed or case.drained or case.cached.reason("EgressWorks") != "Fetched"
            when = "now" if case.drained else restarts(target)
            worker = Worker(directory, known, target.egress, when, fetch_anyway=again, taken=taken)
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

    async def _known(self, facts: Facts, case: InstanceView, actual: ObservedState, leadership: Leadership) -> Facts:
        """The facts of a host that was read: its name is recorded before its kubelet can ask for a certificate with it.

        Raises HostError: then it gets no token, and nothing is changed on it.
        """
        given = str(case.cached.fields.get("nodeIP") or "")
        try:
            identity, cached = await self._identities.settle(
                self._cases.current(case).cached, leadership, said=actual.computer_name, reached=actual.reached
            )
            if (error := error_of(identity)) is not None:
                raise error
            before, case = case.node, self._cases.identified(case, identity, cached)
            if before is None and case.node is not None and case.node.adopted:
                raise AdoptedNodeFound(f"the host is Node {case.node.metadata.name}, which was adopted: the next pass knows it")
            if self._source is not None and self._source.payload is not None:
                facts = await self._providers.added(facts, self._source.payload, leadership.client)
            return await self._facts.joining(facts, case, node_ip(actual, given), leadership)
        except ApiError as error:
            raise NotRecorded(f"which Node the host is, and its token, could not be written down: {error}") from None

    def _may_boot(self, case: InstanceView) -> bool:
        """A host disturbs nobody when it boots whose Node was emptied, or is not Ready, or is not there."""
        return case.drained or not _is_ready(self._identities.node(self._identities.of(case.cached)))

    async def _boot(self, on: HostSession, found: Configured) -> None:
        cached = on.case.cached
        on.leadership.recorder.normal(regarding_of(cached), "Rebooting", f"{found.reboot}: the host boots once")
        self._interruptions.booted(cached, self._turns.beat(on.case))
        try:
            await hosts.reboot(on.target.access, on.host_keys, on.settings)
        except HostError as error:
            # the host may be on its way down; the next pass sees what came of it
            _log.info("boot not confirmed", instance=cached.metadata.name, error=str(error))

    async def _conclude(
        self, case: InstanceView, found: PassResult, conditions: Conditions, fields: Fields, leadership: Leadership
    ) -> Result:
        node = case.node
        done = await super()._conclude(case, found, conditions, fields, leadership)
        if found.error is not None:
            return done
        if case.later is not None:
            del conditions["Configured"]
            conditions |= _said(case.later, case.cached)
            if case.cached.reason("RebootRequired") == _PREPARATION:
                del conditions["RebootRequired"]
            return done if case.later is _ADOPTED else Result(again=self._pace.unready)
        if not isinstance(found, Configured) or self._directory is None:
            message = (
                "there is no payload to install: run `transom run` with --payload DIR. Proxy and trust are as the settings ask"
            )
            conditions["Configured"] = Condition("False", "PayloadMissing", message)
            return done
        payload = self._directory.payload
        if found.reboot:
            conditions["RebootRequired"] = Condition("True", _PREPARATION, found.reboot)
            waits = "" if self._may_boot(case) else f"; Node {found.node_name} is drained before the host boots"
            conditions["Configured"] = Condition("False", "RebootRequired", f"{found.reboot}{waits}")
            return Result(again=self._pace.unready / 4)
        fields["payloadVersion"] = payload.version
        if lacks := outstanding(found, node):
            conditions["Configured"] = Condition("False", "Waiting", lacks)
        elif said := "; ".join(self._remarks(case, found, payload, leadership)):
            conditions["Configured"] = Condition("True", "UpToDate", f"the host is as the settings ask for; {said}")
        if node is not None:
            if not node.adopted and _is_new(node, case) and first_configuration.is_first(node, installed=True):
                await self._hold_back(case.cached.key, node, leadership)
            await mark(case.cached, node, payload.version, fields.get("stateHash"), leadership)
            if not lacks and (first_configuration.is_pending(node) or case.cached.key in self._held):
                await first_configuration.let_in(node, leadership)
                self._held.discard(case.cached.key)
        outcome = self._readiness(case, node, found.node_name, conditions, leadership, done)
        interrupted = node is not None and (case.drained or node.cordoned_for is not None)
        if node is None or not interrupted or await self._interruptions.give_back(case.cached, node, leadership):
            return outcome
        said = f"payload {payload.version} is installed; Node {found.node_name} takes pods again when its kubelet was heard of"
        conditions["Configured"] = Condition("False", "WaitingForNode", said)
        return Result(again=self._pace.unready / 4)

    @property
    def _interval(self) -> float:
        every = self._pace.check_interval
        return min(every, self._pace.node_check) if self._source is not None else every

    def _tell(
        self, case: InstanceView, target: Target, found: PassResult, conditions: Conditions, leadership: Leadership
    ) -> None:
        super()._tell(case, target, found, conditions, leadership)
        if case.later in (None, _ADOPTED):
            self._light_checks.passed(case.cached.key, found)
        else:
            self._light_checks.forget(case.cached.key)
        known = case.cached.live.get("payloadVersion") == (self._directory.payload.version if self._directory else None)
        left, before = self._configurations.pop(case.cached.key, {}), configurations(found.before)
        if found.error is None:
            self._configurations[case.cached.key] = configurations(found.after or found.before)
        if known and found.error is None and found.plan and (said := put_right(found.plan, left, before)):
            leadership.recorder.warning(regarding_of(case.cached), "PutRight", said)

    def _remarks(self, case: InstanceView, found: Configured, payload: Payload, leadership: Leadership) -> list[str]:
        """What is worth a word though the host is as it should be."""
        state = found.after or found.before
        version, port = state.os_version if state is not None else "", self._cluster.vxlan_port
        unknown = [
            *support.problems(version, platform=self._cluster.platform, vxlan_port=port),
            *support.programs(
                ssh_server=state.ssh_server if state is not None else "",
                runtime=case.node.runtime if case.node is not None else "",
                openshift=self._cluster.known_version if self._cluster.network else "",
            ),
        ]
        for problem in unknown:
            leadership.recorder.warning(regarding_of(case.cached), "UnsupportedVersion", problem)
        taken = taken_over(state) if state is not None else ()
        return [*taken, *remarks(found, payload, self._cluster.linux_versions()), *unknown]

    def _readiness(
        self, case: InstanceView, node: HostNode | None, name: str, conditions: Conditions, leadership: Leadership, done: Result
    ) -> Result:
        """What is said of the Node, and when the host is looked at again: sooner while it is not Ready."""
        key = case.cached.key
        if _is_ready(node):
            self._unready.pop(key, None)
            return Result(again=self._pace.unready / 4) if conditions["Configured"].reason == "Waiting" else done
        if case.identity.refusal:
            return Result(again=self._pace.unready)
        since = self._unready.setdefault(key, time.monotonic())
        lasted = time.monotonic() - since
        if lasted >= self._pace.ready:
            what = "has not registered" if node is None else "is not Ready"
            message = (
                f"Node {name} {what} {lasted / 60:.0f} min after its kubelet was started: look at the kubelet's log on the host"
            )
            conditions["NodeReady"] = Condition("False", "NeverReady", message)
            if case.cached.reason("NodeReady") != "NeverReady":
                leadership.recorder.warning(regarding_of(case.cached), "NeverReady", message)
        elif node is None:
            message = f"the kubelet was started; Node {name} has not registered yet"
            conditions["NodeReady"] = Condition("False", "Registering", message)
        return Result(again=self._pace.unready)


def _is_new(node: HostNode, case: InstanceView) -> bool:
    """Whether a Node registered while its host was worked on."""
    return case.earlier is not None and node.metadata.uid not in case.earlier


def _is_as_asked_for(found: PassResult) -> bool:
    """Whether a host was looked at, and has all of its payload."""
    return isinstance(found, Configured) and found.error is None and not found.plan and not found.waiting


def _has_nothing_to_lose(node: HostNode) -> bool:
    """Whether a Node has not taken pods yet; one that has may take them again, also while it is not Ready."""
    return first_configuration.is_pending(node) or node.payload_version is None


def _is_ready(node: HostNode | None) -> bool:
    return node is not None and node.is_ready


def _said(later: Condition, cached: CachedInstance) -> Conditions:
    """Why a host is not upgraded yet. What went wrong on this very host says more than that others wait for it."""
    known = later.reason == "RolloutHalted" and cached.reason("Configured") == PutBack.__name__
    return {} if known else {"Configured": later}
