"""Instances of lifecycle Node to nodes: a host that has nothing but SSH becomes a worker, and stays one."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

import msgspec
import structlog

from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.controller import Outcome, Surroundings
from transom.controllers.kept import HeldInstance, HostNode
from transom.controllers.term import Term
from transom.controllers.windows.case import Case, regarding_of
from transom.controllers.windows.cluster_facts import ClusterFacts
from transom.controllers.windows.controller import WindowsController
from transom.controllers.windows.hosts import Target, restarts
from transom.controllers.windows.interruptions import Interruptions, Purpose
from transom.controllers.windows.node_facts import NodeFacts
from transom.controllers.windows.node_marks import mark
from transom.controllers.windows.node_progress import REASONS, NodeProgress
from transom.controllers.windows.payload_source import PayloadSource
from transom.controllers.windows.rollout import changes_settings
from transom.controllers.windows.rollouts import Digest, Subject, rollouts_of
from transom.controllers.windows.slots import Slots
from transom.controllers.windows.status import not_connected
from transom.controllers.windows.visit import Visit
from transom.hosts import configure as hosts
from transom.hosts.configure import Configured, Worker
from transom.hosts.errors import HostError, PutBack
from transom.hosts.passes import PassResult
from transom.hosts.payload_directory import PayloadDirectory
from transom.kube.queue import Priority
from transom.kube.store import Name
from transom.sources.payload import PayloadError
from transom.windows import skew
from transom.windows.instance import Lifecycle
from transom.windows.plan import Plan
from transom.windows.state import HostState
from transom.windows.worker import Facts, node_name, others

_log: Final = structlog.get_logger("transom.nodes")
_PREPARATION: Final = "Preparation"
"""The reason of RebootRequired where it is for Transom to boot the host."""
_ADOPTED: Final = Verdict(
    "True",
    "Adopted",
    "another operator made this host a node: its services and files stay as they are. Transom keeps proxy, trust and SSH key",
)


class NodesController(WindowsController):
    """What `WindowsController` does for a host, and everything else that makes it a node.

    Each pass begins from what is there: a process that was killed at any step left a host that the next pass goes on with.
    """

    lifecycle: ClassVar[Lifecycle] = "Node"
    refused_again: ClassVar[float | None] = 600.0

    def __init__(self, on: Surroundings) -> None:
        pace = on.options.pace
        super().__init__(
            on.watched,
            on.settings,
            pace=pace,
            observe=on.observe,
            rollouts=on.rollouts,
            keys=on.keys,
            tokens=on.members.tokens,
            now=on.now,
        )
        self._members = on.members
        self._cluster = ClusterFacts(on.watched, on.settings)
        self._facts = NodeFacts(on.members, self._cluster)
        path, cache = on.options.payload, on.options.payload_cache
        self._source = PayloadSource(path, cache or path, on.settings, self._ask_all) if path is not None else None
        self._unready: dict[Name, float] = {}
        """Since when a host is configured whose Node is not Ready (time.monotonic)."""
        hold = pace.drain + pace.ready
        self._slots = Slots(on.watched, on.options.max_unavailable, hold, on.now, self.queue.add)
        upgrade = Subject("upgrade", lambda _: self._identity, lambda _: self._identity, self._named, "use another payload")
        self._upgrades = rollouts_of(on.watched, on.reports, upgrade, self.lifecycle)
        self._upgrades.join(self.queue.add)
        self._interruptions = Interruptions(self._slots, self._rollouts, self._upgrades, pace, hold, on.now)

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        super().begin()
        self._cluster.subscribe(self._ask_all)

    def _ask_all(self) -> None:
        for held in self._watched.windows_instances.snapshot():
            if held.fields.get("lifecycle") == self.lifecycle:
                self.queue.add(held.key, Priority.CHECK)

    @property
    def _directory(self) -> PayloadDirectory | None:
        return self._source.directory if self._source is not None else None

    @property
    def _identity(self) -> str:
        return self._directory.identity if self._directory is not None else ""

    def _named(self) -> str:
        return f"payload {self._directory.payload.version}" if self._directory is not None else "the payload"

    def _node_changed(self, name: Name, before: HostNode | None, after: HostNode | None) -> None:
        super()._node_changed(name, before, after)
        self._slots.node_changed(name[1], after)
        for held in self._watched.windows_instances.snapshot().by("node", name[1]):
            if self._interruptions.awaited(key := held.key):
                self.queue.add(key)

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """As `WindowsController` says. An instance that is to go needs no slot."""
        held = self._watched.windows_instances.snapshot().get(key[1], key[0])
        if held is None or held.metadata.deletion_timestamp is not None:
            self._interruptions.drop(key)
        try:
            return await super().reconcile(key, term)
        finally:
            self._upgrades.done(key)

    async def _refusal(self, case: Case, term: Term) -> Verdicts | None:
        refused = await super()._refusal(case, term)
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
        if why := skew.refusal(payload.kubernetes, await self._cluster.server_version(term.client)):
            return not_connected("VersionSkew", why)
        if self._cluster.cluster() is None:
            return not_connected(
                "ApiServerUnknown",
                "nothing says how hosts reach the API server: neither ConfigMap kube-public/cluster-info, nor OpenShift's "
                "Infrastructure with the ConfigMap kube-root-ca.crt",
            )
        egress = case.target.egress if case.target is not None else None
        if egress is not None and (egress.http_proxy or egress.https_proxy) and not egress.api_server_known:
            return not_connected(
                "ApiServerUnknown",
                "NO_PROXY lacks the API server's host, which is not known: set spec.networks.internalAPIHost of "
                "EgressProxy/cluster",
            )
        # a node gets its proxy and trust meanwhile
        return not_connected(incomplete.reason, incomplete.message) if incomplete is not None and case.node is None else None

    async def _pass(self, case: Case, target: Target, term: Term) -> Outcome:
        node, key = case.node, case.held.key
        if node is not None and node.adopted:
            self._interruptions.forget(key)
            return await super()._pass(replace(case, later=_ADOPTED), target, term)
        if self._source is None or node is None:
            self._interruptions.forget(key)
            return await super()._pass(case, target, term)
        if (incomplete := await self._source.open()) is not None or self._directory is None:
            return await super()._pass(replace(case, later=incomplete), target, term)
        purpose, why = self._interruption(case, self._directory.payload.version)
        if node.cordoned_for is not None:
            if (waits := await self._awaited(case, node, purpose, term)) is not None:
                return waits
        elif purpose is None:
            self._interruptions.forget(key)
        if purpose is None or not _is_ready(node):
            return await super()._pass(case, target, term)
        pending = await self._interruptions.prepare(case.held, target, node, purpose, why, term, self._digest(term))
        if pending is None:
            return await super()._pass(replace(case, drained=True), target, term)
        if pending.draining or (self._done.get(key) == target.egress and self._is_fresh(case.held)):
            verdicts = _said(pending.verdict, case.held)
            self._tell_trouble(case, verdicts, term)
            await self._write(case, verdicts, {}, term)
            return Outcome(again=pending.again)
        return await super()._pass(replace(case, later=pending.verdict), target, term)

    def _interruption(self, case: Case, version: str) -> tuple[Purpose | None, str]:
        """For what the Node of a host has to be drained, and a sentence on it."""
        installed = (case.node.payload_version if case.node else None) or case.held.live.get("payloadVersion")
        if installed and installed != version:
            return "upgrade", f"payload {installed} is installed, and {version} is to be"
        if case.held.reason("RebootRequired") == _PREPARATION:
            return "reboot", "the host has to boot to complete its preparation"
        return None, ""

    async def _awaited(self, case: Case, node: HostNode, purpose: Purpose | None, term: Term) -> Outcome | None:
        """What is done with a host whose work has ended, and whose kubelet is to be heard of; None: there is work."""
        key = case.held.key
        kept_back = self._interruptions.put_back(case.held)
        awaited = self._interruptions.awaited(key)
        if kept_back is None and (purpose is not None or not awaited):
            return None
        if not await self._interruptions.give_back(case.held, node, term):
            return Outcome(again=self._pace.unready / (4 if awaited else 1))
        if kept_back is None:
            await self._write(
                case, {"Configured": Verdict("True", "UpToDate", "the host is as the settings ask for")}, {}, term
            )
        return Outcome(again=self._pace.check_interval)

    def _digest(self, term: Term) -> Digest:
        return lambda text: self._hash_key.digest(text, term)

    def _stands_alone(self, case: Case) -> bool:
        return not _is_ready(case.node) or case.drained or (case.node is not None and case.node.cordoned_for is not None)

    async def _carry_out(self, on: Visit) -> PassResult:
        case, begun, found = on.case, self._now(), PassResult()
        try:
            found = await super()._carry_out(on)
        finally:
            if case.drained:
                key = case.held.key
                self._interruptions.worked(case.held, found)
                self._upgrades.came_out(key, on.target, found, self._heard(case, found, on.term, begun))
        return found

    def _failed_changes(self, target: Target) -> list[str]:
        name = self._upgrades.failed_change(target)
        return [*super()._failed_changes(target), *([name] if name else [])]

    async def _work(self, on: Visit, admit: Callable[[], bool], *, change_expected: bool) -> PassResult:
        case, target, term = on.case, on.target, on.term
        payload, directory = (self._source.payload, self._source.directory) if self._source is not None else (None, None)
        if payload is None:
            return await super()._work(on, admit, change_expected=change_expected)
        key = case.held.key
        if case.later is not None or directory is None:
            own = (service.name for service in payload.services if service.egress)
            services = (*own, *others(payload, target.egress))
            windows = msgspec.structs.replace(target.egress.windows, services=services)
            target = msgspec.structs.replace(target, egress=msgspec.structs.replace(target.egress, windows=windows))
            return await super()._work(replace(on, target=target), admit, change_expected=change_expected)
        facts = await self._facts.of(case, term)

        def known(actual: HostState) -> Facts:
            on.check(actual)
            # before the kubelet starts: it asks for its certificate in its first second
            self._members.learn(key, node_name(facts, actual.computer_name))
            return facts

        async def write(verdict: Verdict) -> None:
            await self._write(self._cases.current(case), {"Configured": verdict}, {}, term)

        def wanted(plan: Plan) -> bool:
            # what else is done to a host does not wait for how others are with their settings
            return not changes_settings(plan) or admit()

        settled = case.held.reason("Configured") not in (None, "NotChecked", *REASONS)
        progress = NodeProgress(write, term.recorder, regarding_of(case.held), settled=settled)
        telling = asyncio.ensure_future(progress.run())
        try:
            again = case.held.reason("EgressWorks") != "Fetched"
            when = "now" if case.drained else restarts(target)
            worker = Worker(directory, known, target.egress, when, fetch_anyway=again)
            found = await hosts.configure(target.access, on.host_keys, on.settings, worker, report=progress, admit=wanted)
            if found.error is None and found.reboot and self._may_boot(case, found):
                await self._boot(on, found)
        finally:
            telling.cancel()
            # waited for, not awaited: where this pass is cancelled meanwhile, that must not pass for the end of the telling
            await asyncio.wait((telling,))
            if not telling.cancelled():
                telling.result()
        return found

    def _may_boot(self, case: Case, found: Configured) -> bool:
        """A host disturbs nobody when it boots whose Node was emptied, or is not Ready, or is not there."""
        node = self._watched.nodes.snapshot().get(found.node_name) if found.node_name else None
        return case.drained or not _is_ready(node)

    async def _boot(self, on: Visit, found: Configured) -> None:
        held = on.case.held
        on.term.recorder.normal(regarding_of(held), "Rebooting", f"{found.reboot}: the host boots once")
        self._interruptions.booted(held)
        try:
            await hosts.reboot(on.target.access, on.host_keys, on.settings)
        except HostError as error:
            # the host may be on its way down; the next pass sees what came of it
            _log.info("boot not confirmed", instance=held.metadata.name, error=str(error))

    async def _conclude(
        self,
        case: Case,
        node: HostNode | None,
        found: PassResult,
        verdicts: Verdicts,
        fields: dict[str, str | None],
        term: Term,
    ) -> Outcome:
        done = await super()._conclude(case, node, found, verdicts, fields, term)
        if found.error is not None:
            return done
        if case.later is not None:
            del verdicts["Configured"]
            verdicts |= _said(case.later, case.held)
            if case.held.reason("RebootRequired") == _PREPARATION:
                del verdicts["RebootRequired"]
            return done if case.later is _ADOPTED else Outcome(again=self._pace.unready)
        if not isinstance(found, Configured) or self._directory is None:
            message = (
                "there is no payload to install: run `transom run` with --payload DIR. Proxy and trust are as the settings ask"
            )
            verdicts["Configured"] = Verdict("False", "PayloadMissing", message)
            return done
        payload = self._directory.payload
        fields["nodeName"] = found.node_name
        node = self._watched.nodes.snapshot().get(found.node_name)
        if found.reboot:
            verdicts["RebootRequired"] = Verdict("True", _PREPARATION, found.reboot)
            waits = "" if self._may_boot(case, found) else f"; Node {found.node_name} is drained before the host boots"
            verdicts["Configured"] = Verdict("False", "RebootRequired", f"{found.reboot}{waits}")
            return Outcome(again=self._pace.unready / 4)
        fields["payloadVersion"] = payload.version
        if found.waits:
            listed = "; ".join(f"{one.service} waits for {one.needs}: {one.why}" for one in found.waits)
            verdicts["Configured"] = Verdict("False", "Waiting", listed)
        elif (odd := skew.warning(payload.kubernetes, self._cluster.linux_versions())) is not None:
            verdicts["Configured"] = Verdict("True", "UpToDate", f"the host is as the settings ask for; {odd}")
        if node is not None:
            await mark(case.held, node, payload.version, fields.get("stateHash"), term)
        outcome = self._readiness(case, node, found.node_name, verdicts, term, done)
        interrupted = node is not None and (case.drained or node.cordoned_for is not None)
        if node is None or not interrupted or await self._interruptions.give_back(case.held, node, term):
            return outcome
        said = f"payload {payload.version} is installed; Node {found.node_name} takes pods again when its kubelet was heard of"
        verdicts["Configured"] = Verdict("False", "WaitingForNode", said)
        return Outcome(again=self._pace.unready / 4)

    def _readiness(
        self, case: Case, node: HostNode | None, name: str, verdicts: Verdicts, term: Term, done: Outcome
    ) -> Outcome:
        """What is said of the Node, and when the host is looked at again: sooner while it is not Ready."""
        key = case.held.key
        if _is_ready(node):
            self._unready.pop(key, None)
            return Outcome(again=self._pace.unready / 4) if verdicts["Configured"].reason == "Waiting" else done
        since = self._unready.setdefault(key, time.monotonic())
        lasted = time.monotonic() - since
        if lasted >= self._pace.ready:
            what = "has not registered" if node is None else "is not Ready"
            message = (
                f"Node {name} {what} {lasted / 60:.0f} min after its kubelet was started: look at the kubelet's log on the host"
            )
            verdicts["NodeReady"] = Verdict("False", "NeverReady", message)
            if case.held.reason("NodeReady") != "NeverReady":
                term.recorder.warning(regarding_of(case.held), "NeverReady", message)
        elif node is None:
            message = f"the kubelet was started; Node {name} has not registered yet"
            verdicts["NodeReady"] = Verdict("False", "Registering", message)
        return Outcome(again=self._pace.unready)


def _is_ready(node: HostNode | None) -> bool:
    return node is not None and node.is_ready


def _said(later: Verdict, held: HeldInstance) -> Verdicts:
    """Why a host is not upgraded yet. What went wrong on this very host says more than that others wait for it."""
    known = later.reason == "RolloutHalted" and held.reason("Configured") == PutBack.__name__
    return {} if known else {"Configured": later}
