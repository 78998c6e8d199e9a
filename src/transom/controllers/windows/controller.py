"""Instances to hosts: each WindowsInstance is a key; a pass on its host, and what came of it in its status."""

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import asyncssh
import structlog

from transom.controllers.conditions import Verdict, Verdicts, timestamp
from transom.controllers.controller import Outcome
from transom.controllers.hash_key import HashKey
from transom.controllers.kept import ADOPT, INSTANCES, MANAGED_BY_WMCO, HeldInstance, HostNode
from transom.controllers.options import Pace
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster, CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched, cluster_index, place_of, read_instance
from transom.controllers.windows import status
from transom.controllers.windows.heartbeats import Heartbeats
from transom.controllers.windows.hosts import Target, one_pass
from transom.controllers.windows.rollouts import Rollouts
from transom.hosts.errors import HostError
from transom.hosts.known_hosts import Fingerprint, HostKeys, KnownKey
from transom.hosts.passes import PassResult, Settings
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.objects import Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import Name
from transom.proxy.finding import Finding
from transom.proxy.settings import Egress
from transom.windows import instance as instances
from transom.windows import ledger
from transom.windows.instance import Lifecycle, WindowsInstance
from transom.windows.state import HostState

_log: Final = structlog.get_logger("transom.windows")
_EXPECTED: Final = ("Waiting", "RebootRequired", "UpgradePending")
"""Reasons why a host is not configured yet, and nothing is wrong."""
_FINGERPRINT: Final = "hostKeyFingerprint"
Observe = Callable[[PassResult], None]


class ManagedByOther(HostError):
    """The host's Node belongs to another operator."""


@dataclass(frozen=True)
class Case:
    """What is known of one instance, all of it at one moment."""

    held: HeldInstance
    instance: WindowsInstance | None
    errors: tuple[Finding, ...]
    target: Target | None
    missing_key: str | None
    node: HostNode | None


class WindowsController:
    """Decides which hosts concern a change, and works on one host at a time when it is told to."""

    lifecycle: ClassVar[Lifecycle] = "Egress"
    """Of which instances; the others are somebody else's."""
    refused_again: ClassVar[float | None] = None
    """Seconds after which a host that is not connected to is thought of again, where no object says when."""

    def __init__(
        self,
        watched: Watched,
        settings: CurrentSettings,
        *,
        pace: Pace = Pace(),  # noqa: B008  # frozen
        observe: Observe = lambda _: None,
        reports: Reports | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._watched = watched
        self._settings = settings
        self._pace = pace
        self._observe = observe
        self._now = now
        self._draw = draw
        self._done: dict[Name, Egress] = {}
        """What each host was brought to, as far as this process knows: other settings than these will change it."""
        self._written: dict[Name, tuple[str | None, HeldInstance]] = {}
        self._hash_key = HashKey(watched)
        self.queue: KeyQueue[Name] = KeyQueue()
        self._rollouts = Rollouts(self._hosts_of, self.queue.add, reports or Reports())
        self._heartbeats = Heartbeats(watched.nodes)

    def begin(self) -> None:
        """Follow the stores, which have been filled: every instance that is there is asked for at once."""
        self._watched.windows_instances.subscribe(self._instance_changed)
        self._watched.nodes.subscribe(self._node_changed)
        self._watched.secrets.subscribe(self._secret_changed)
        self._settings.subscribe(self._settings_changed)

    # --- which object concerns which key

    def _instance_changed(self, name: Name, before: HeldInstance | None, after: HeldInstance | None) -> None:
        # what was written is in the store now, or overtaken
        self._written.pop(name, None)
        if after is None:
            self.queue.forget(name)
            if before is not None:
                self._tell_same_place(before)
        elif before is None:
            self.queue.add(name, Priority.CHECK if _is_settled(after) else Priority.CHANGE)
        elif _wanted(before) != _wanted(after):
            self.queue.add(name)
            self._tell_same_place(before)

    def _tell_same_place(self, before: HeldInstance) -> None:
        """Who had the same address is no longer in the way of the others."""
        for held in self._watched.windows_instances.snapshot().by("place", place_of(before)):
            self.queue.add((held.metadata.namespace, held.metadata.name))

    def _node_changed(self, name: Name, before: HostNode | None, after: HostNode | None) -> None:
        self._heartbeats.seen(name[1], after)
        if _concern(before) == _concern(after):
            return
        instances_ = self._watched.windows_instances.snapshot()
        found = instances_.by("node", name[1])
        for node in (before, after):
            for address in node.addresses if node else ():
                found += instances_.by("address", address)
        for held in found:
            self.queue.add((held.metadata.namespace, held.metadata.name), Priority.CHECK)

    def _secret_changed(self, name: Name, before: Whole | None, after: Whole | None) -> None:
        old, new = ((held.value.get("data") if held else None) for held in (before, after))
        if old != new or (before is None) != (after is None):
            for held in self._watched.windows_instances.snapshot().by("secret", name[1]):
                self.queue.add((held.metadata.namespace, held.metadata.name))

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        instances_ = self._watched.windows_instances.snapshot()
        for cluster in clusters:
            for held in instances_.by("cluster", cluster_index(cluster)):
                self.queue.add((held.metadata.namespace, held.metadata.name))

    # --- one key

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Bring one host to its settings and say so in its status. Raises ApiError where the status cannot be written."""
        try:
            return await self._reconcile(key, term)
        finally:
            self._rollouts.done(key)

    async def _reconcile(self, key: Name, term: Term) -> Outcome:
        held = self._watched.windows_instances.snapshot().get(key[1], key[0])
        if held is None or held.fields.get("lifecycle", "Egress") != self.lifecycle:
            return Outcome()
        case = self._load(key)
        if case is None or case.held.metadata.deletion_timestamp is not None:
            return Outcome()
        refused = await self._refusal(case, term)
        if refused is not None:
            self._tell_trouble(case, refused, term)
            await self._write(case, refused, {}, term)
            return Outcome(again=self.refused_again)
        assert case.target is not None  # a case without one is refused
        return await self._pass(case, case.target, term)

    def _hosts_of(self, cluster: Cluster) -> int:
        """How many hosts get the settings of a cluster."""
        return len(self._watched.windows_instances.snapshot().by("cluster", cluster_index(cluster)))

    async def _pass(self, case: Case, target: Target, term: Term) -> Outcome:
        host_keys = StatusKeys(case.held.metadata.name, case.held.live.get(_FINGERPRINT))
        made = Settings(term.owner, None, self._pace.timeouts, self._pace.patience, term.permit)

        def check(actual: HostState) -> None:
            term.permit()
            if (node := self._node(target.instance, actual.computer_name)) is not None and node.managed_by_other:
                raise ManagedByOther(managed_message(node))

        term.permit()
        found = await self._carry_out(case, target, host_keys, made, check, term)
        term.permit()
        if found.waiting and found.error is None:
            return await self._wait(case, target, term)
        case = self._current(case)
        self._observe(found)
        state = found.after or found.before
        node = case.node or (self._node(target.instance, state.computer_name) if state else None)
        name = target.instance.spec.node_name or (node.metadata.name if node else None)
        verdicts = status.after_pass(target.egress, found) | {"NodeReady": status.node_ready(node, name)}
        fields = {
            "nodeName": name or (state.computer_name.lower() if state else None),
            "hostKeyFingerprint": host_keys.recorded,
            "osVersion": state.os_version if state else None,
            "stateHash": await self._state_hash(state, term),
            "lastChecked": timestamp(self._now()) if found.before is not None else None,
        }
        outcome = await self._conclude(case, node, found, verdicts, fields, term)
        self._tell(case, target, found, verdicts, term)
        await self._write(case, verdicts, fields, term)
        if found.error is not None:
            _log.warning("host not done", reason=status.reason_of(found.error), error=str(found.error))
            return Outcome(failed=True)
        _log.info("host done", result=found.result, channels=found.channels, seconds=round(found.seconds, 2))
        return outcome

    async def _refusal(self, case: Case, term: Term) -> Verdicts | None:
        """Why the host is not connected to; None where it is."""
        return _refusal(case)

    async def _carry_out(
        self, case: Case, target: Target, host_keys: HostKeys, made: Settings, check: Callable[[HostState], None], term: Term
    ) -> PassResult:
        """The work on the host itself; its troubles are in the result."""
        key = (case.held.metadata.namespace, case.held.metadata.name)
        done = self._done.get(key)
        if done != target.egress and not self._rollouts.may_connect(key, target):
            return PassResult(waiting=True)
        self._done.pop(key, None)
        begun, found = self._now(), PassResult()
        try:
            found = await one_pass(
                target,
                host_keys,
                made,
                check=check,
                change_expected=done is not None and done != target.egress,
                fetch_anyway=case.held.reason("EgressWorks") != "Fetched",
                admit=lambda: self._rollouts.admit(key, target),
            )
        finally:
            self._rollouts.came_out(key, target, found, self._heard(case, found, term, begun))
        if found.error is None and not found.waiting:
            self._done[key] = target.egress
        return found

    def _heard(self, case: Case, found: PassResult, term: Term, begun: datetime) -> Coroutine[Any, Any, bool] | None:
        """Whether the Node is heard of after its kubelet was restarted; None where that says nothing about a change."""
        ready = case.node.ready if case.node else None
        if case.node is None or ready is None or ready.status != "True" or "kubelet" not in map(str.casefold, found.restarted):
            return None
        return self._heartbeats.heard_of(case.node.metadata.name, begun, term.client)

    async def _wait(self, case: Case, target: Target, term: Term) -> Outcome:
        """It is not the host's turn: it is asked for when it is. What a rollout that was stopped leaves out is told so."""
        if why := self._rollouts.stopped(target):
            await self._write(case, {"Configured": Verdict("False", "RolloutHalted", why)}, {}, term)
        return Outcome()

    async def _conclude(
        self,
        case: Case,
        node: HostNode | None,
        found: PassResult,
        verdicts: Verdicts,
        fields: dict[str, str | None],
        term: Term,
    ) -> Outcome:
        """When a host that was done is looked at again. What else is to be said of it goes into `verdicts` and `fields`."""
        # many hosts that were begun at once do not stay together
        return Outcome(again=self._pace.check_interval * (0.9 + 0.2 * self._draw()))

    def _current(self, case: Case) -> Case:
        """The case with the status that was written meanwhile."""
        key = (case.held.metadata.namespace, case.held.metadata.name)
        _, written = self._written.get(key, (None, None))
        latest = self._watched.windows_instances.snapshot().get(key[1], key[0])
        for held in (written, latest):
            if held is not None and held.metadata.uid == case.held.metadata.uid:
                return replace(case, held=held)
        return case

    def _load(self, key: Name) -> Case | None:
        """What the stores say, without a wait in between."""
        snapshot = self._watched.windows_instances.snapshot()
        held = snapshot.get(key[1], key[0])
        if held is None:
            return None
        based, written = self._written.get(key, (None, held))
        if based == held.metadata.resource_version:
            held = written
        else:
            self._written.pop(key, None)
        read = read_instance(held, self._watched.namespace)
        errors = [finding for finding in read.findings if finding.severity == "error"]
        found = next(iter(read.windows_instances), None)
        if found is None:
            return Case(held, None, tuple(errors), None, None, None)
        objects = self._watched.instance_objects(found)
        errors += [one for one in instances.examine([found], objects) if one.severity == "error" and not _of_key(one)]
        spec = found.spec
        others = [
            one.metadata.name
            for one in snapshot.by("place", f"{spec.address.casefold()} {spec.port}")
            if (one.metadata.creation_timestamp or "", one.metadata.name)
            < (held.metadata.creation_timestamp or "", held.metadata.name)
        ]
        if spec.address and others:
            message = f"WindowsInstance {others[0]} has the same address and port: one host is one WindowsInstance"
            errors.append(found.place.error(("spec", "address"), message))
        key_text = instances.private_key(found, objects)
        egress = self._settings.of(found)
        target = Target(found, egress, key_text) if egress is not None and key_text is not None else None
        missing = None
        if key_text is None:
            missing = (
                f"Secret {found.metadata.namespace}/{spec.key_secret.name} with the SSH key as `{instances.KEY}` is missing"
            )
        known_name = str(held.live.get("nodeName") or "")
        return Case(held, found, tuple(errors), target, missing, self._node(found, known_name))

    def _node(self, instance: WindowsInstance, name: str) -> HostNode | None:
        nodes = self._watched.nodes.snapshot()
        if instance.spec.node_name:
            return nodes.get(instance.spec.node_name)
        if name and (node := nodes.get(name.lower())) is not None:
            return node
        return next(iter(nodes.by("address", instance.spec.address.casefold())), None)

    async def _state_hash(self, state: HostState | None, term: Term) -> str | None:
        """The host's own hash lies beside its salt: what stands in the API has a key that the host does not know."""
        of_ledger = _hash_of_ledger(state)
        return await self._hash_key.digest(of_ledger, term) if of_ledger else None

    # --- what people see

    async def _write(self, case: Case, verdicts: Verdicts, fields: dict[str, str | None], term: Term) -> None:
        """Write the status where it says something new. An instance that is gone by now needs none."""
        meta = case.held.metadata
        there = self._watched.windows_instances.snapshot().get(meta.name, meta.namespace)
        if there is None or there.metadata.uid != meta.uid:
            # the server does not compare the uid where a status is written: another object of this name must not get it
            return
        if "NodeReady" not in verdicts:
            verdicts = verdicts | {"NodeReady": status.node_ready(case.node, None)}
        wanted = status.merged(case.held.live, verdicts, fields, meta.generation, self._now())
        if wanted == case.held.live:
            return
        metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "status": wanted}
        try:
            answer = await term.client.server_side_apply(INSTANCES, value, meta.name, meta.namespace, subresource="status")
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return
        key = (meta.namespace, meta.name)
        latest = self._watched.windows_instances.snapshot().get(meta.name, meta.namespace)
        if latest is not None and latest.metadata.resource_version != answer.metadata.resource_version:
            self._written[key] = (latest.metadata.resource_version, answer)

    def _tell(self, case: Case, target: Target, found: PassResult, verdicts: Verdicts, term: Term) -> None:
        """Events: what was changed, and what is newly wrong."""
        regarding = regarding_of(case.held)
        if found.error is None and found.plan:
            reason = "Removed" if not target.egress.configured else "Applied"
            term.recorder.normal(regarding, reason, status.summary(found.plan, found.restarted))
        self._tell_trouble(case, verdicts, term)

    @staticmethod
    def _tell_trouble(case: Case, verdicts: Verdicts, term: Term) -> None:
        """An event on what is newly wrong."""
        configured = verdicts.get("Configured")
        if configured is not None and configured.status == "False" and case.held.reason("Configured") != configured.reason:
            tell = term.recorder.normal if configured.reason in _EXPECTED else term.recorder.warning
            tell(regarding_of(case.held), configured.reason, configured.message)


class StatusKeys:
    """Host keys in the status of an instance: trusted on first use, and only the one that was recorded afterwards."""

    def __init__(self, name: str, fingerprint: str | None) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self.recorded: str | None = None

    def known(self, address: str, port: int) -> Sequence[KnownKey]:
        """The one of the status."""
        return (Fingerprint(self._fingerprint),) if self._fingerprint else ()

    def record(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Keep it for the status."""
        self.recorded = key.get_fingerprint()

    def remedy(self, address: str, port: int) -> str:
        """As HostKeys says."""
        return f"clear status.hostKeyFingerprint of WindowsInstance {self._name}"


def _refusal(case: Case) -> Verdicts | None:
    """Why the host is not connected to; None where it is."""
    if case.instance is None or (case.errors and not case.instance.spec.paused):
        return status.not_connected("InvalidSpec", "; ".join(f"{one.field}: {one.message}" for one in case.errors))
    if case.instance.spec.paused:
        return status.not_connected("Paused", "spec.paused is set: the host is not connected to", configured="Unknown")
    if case.node is not None and case.node.managed_by_other:
        return status.not_connected("ManagedByOther", managed_message(case.node))
    if case.missing_key is not None:
        return status.not_connected("KeyMissing", case.missing_key)
    if case.target is None:
        message = "the egress settings are not valid, and no valid ones are known: the host is left as it is"
        # what was applied before the settings became invalid is still there
        known = case.held.reason("ProxyApplied") not in (None, "NotChecked")
        return {} if known else {"Configured": Verdict("Unknown", "SettingsInvalid", message)}
    return None


def regarding_of(held: HeldInstance) -> Regarding:
    """An instance, as the subject of events."""
    meta = held.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def _wanted(held: HeldInstance) -> tuple[Any, ...]:
    """What of an instance people write: its spec, its annotations, and the one field of its status that they clear."""
    meta = held.metadata
    cleared = not held.live.get(_FINGERPRINT) and held.reason("Reachable") == "HostKeyChanged"
    return meta.uid, meta.generation, meta.annotations or {}, meta.deletion_timestamp, cleared


def _is_settled(held: HeldInstance) -> bool:
    """Whether an instance was done, by whoever worked before: it is in no hurry."""
    listed = held.live.get("conditions") or ()
    configured: dict[str, Any] = next((one for one in listed if one.get("type") == "Configured"), {})
    return configured.get("status") == "True" and configured.get("observedGeneration") == held.metadata.generation


def _of_key(finding: Finding) -> bool:
    """The key is judged apart: it has reasons of its own."""
    return finding.field == "spec.keySecret.name" or finding.object.startswith("Secret/")


def _concern(node: HostNode | None) -> tuple[Any, ...] | None:
    """What of a Node concerns its instance; a heartbeat changes nothing of it."""
    if node is None:
        return None
    ready = (node.ready.status, node.ready.reason) if node.ready is not None else None
    return ready, node.managed_by_other, node.addresses, node.cordoned


def managed_message(node: HostNode) -> str:
    """Why a host whose Node is another operator's is left alone."""
    return (
        f"Node {node.metadata.name} is managed by another operator (annotation {MANAGED_BY_WMCO}); "
        f'annotate it with {ADOPT}: "true" to have it worked on'
    )


def _hash_of_ledger(state: HostState | None) -> str | None:
    if state is None:
        return None
    try:
        return ledger.read(state.registry).state_hash
    except ledger.LedgerError:
        return None
