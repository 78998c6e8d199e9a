"""Instances to hosts: each WindowsInstance is a key; a pass on its host, and what came of it in its status."""

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import msgspec
import structlog

from transom.controllers.conditions import Verdicts, timestamp
from transom.controllers.controller import Outcome
from transom.controllers.hash_key import HashKey
from transom.controllers.kept import INSTANCES, HeldInstance, HostNode
from transom.controllers.options import Pace
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster, CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched, cluster_index, place_of
from transom.controllers.windows import status
from transom.controllers.windows.bootstrap_tokens import BootstrapTokens
from transom.controllers.windows.case import FINGERPRINT, Case, refusal, regarding_of
from transom.controllers.windows.cases import Cases
from transom.controllers.windows.finalizers import Finalizers, has_finalizer
from transom.controllers.windows.heartbeats import Heartbeats
from transom.controllers.windows.hosts import Target, one_pass
from transom.controllers.windows.key_rotation import KEY_HASH, KeyRotation, tried
from transom.controllers.windows.removal import Removal, Surrounds
from transom.controllers.windows.rollouts import FAILED_CHANGES, Rollouts, rollouts_of
from transom.controllers.windows.visit import Visit, visit
from transom.hosts import peer
from transom.hosts.errors import HostError
from transom.hosts.passes import PassResult
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import Name
from transom.proxy.settings import Egress
from transom.windows.gathering import LEDGER
from transom.windows.instance import Lifecycle
from transom.windows.state import HostState
from transom.windows.taken import Taken

_log: Final = structlog.get_logger("transom.windows")
_EXPECTED: Final = ("Waiting", "RebootRequired", "UpgradePending", "Draining", "WaitingForNode")
"""Reasons why a host is not configured yet, and nothing is wrong."""
_EARLIEST: Final = 0.9
"""Of the time between two checks, that the next one may be early."""
Observe = Callable[[PassResult], None]


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
        rollouts: Rollouts | None = None,
        keys: KeyRotation | None = None,
        tokens: BootstrapTokens | None = None,
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
        self._hash_key = HashKey(watched)
        self._keys = keys or KeyRotation(watched)
        self._cases = Cases(watched, settings, self._keys)
        self.queue: KeyQueue[Name] = KeyQueue()
        self._rollouts = rollouts or rollouts_of(watched, Reports())
        self._rollouts.join(self.queue.add)
        self._heartbeats = Heartbeats(watched.nodes)
        self._finalizers = Finalizers(watched)
        self._removal = Removal(
            Surrounds(watched, self._finalizers, pace, now, self._write, self._cases.current, self._cases.node, observe, tokens)
        )

    def begin(self) -> None:
        """Follow the stores, which have been filled: every instance that is there is asked for at once."""
        self._watched.windows_instances.subscribe(self._instance_changed)
        self._watched.nodes.subscribe(self._node_changed)
        self._watched.secrets.subscribe(self._secret_changed)
        self._settings.subscribe(self._settings_changed)
        self._finalizers.subscribe(self.queue.add)

    # --- which object concerns which key

    def _instance_changed(self, name: Name, before: HeldInstance | None, after: HeldInstance | None) -> None:
        self._cases.forget(name)
        if after is None:
            self.queue.forget(name)
            self._done.pop(name, None)
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
            self.queue.add(held.key)

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
            self.queue.add(held.key, Priority.CHECK)

    def _secret_changed(self, name: Name, before: Whole | None, after: Whole | None) -> None:
        old, new = ((held.value.get("data") if held else None) for held in (before, after))
        if old != new or (before is None) != (after is None):
            for held in self._watched.windows_instances.snapshot().by("secret", name[1]):
                self.queue.add(held.key)

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        instances_ = self._watched.windows_instances.snapshot()
        for cluster in clusters:
            for held in instances_.by("cluster", cluster_index(cluster)):
                self.queue.add(held.key)

    # --- one key

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Bring one host to its settings and say so in its status. Raises ApiError where the status cannot be written."""
        held = self._watched.windows_instances.snapshot().get(key[1], key[0])
        if held is not None and held.fields.get("lifecycle", "Egress") != self.lifecycle:
            return Outcome()
        try:
            return await self._reconcile(key, term)
        finally:
            self._rollouts.done(key)
            self._keys.done(key)

    async def _reconcile(self, key: Name, term: Term) -> Outcome:
        case = self._cases.load(key)
        if case is None:
            return Outcome()
        if case.held.metadata.deletion_timestamp is not None:
            return await self._removal.step(case, term)
        if self._finalizers.namespace_goes:
            # nothing is begun any more
            return await self._removal.release(case, term)
        refused = await self._refusal(case, term)
        if refused is not None:
            self._tell_trouble(case, refused, term)
            await self._write(case, refused, {}, term)
            return Outcome(again=self.refused_again)
        assert case.target is not None  # a case without one is refused
        return await self._pass(await self._claimed(case, term), case.target, term)

    async def _claimed(self, case: Case, term: Term) -> Case:
        """The case with the finalizer on its instance, without which nothing is written to a host. Raises ApiError."""
        if has_finalizer(case.held):
            return case
        held = await self._finalizers.put(case.held, term)
        self._cases.remember(held)
        return replace(case, held=held)

    async def _pass(self, case: Case, target: Target, term: Term) -> Outcome:
        on = visit(case, target, term, self._pace, self._cases.node)
        term.permit()
        opened = await self._keys.open(case.held, target, on.host_keys, on.settings, self.queue.add)
        term.permit()
        opened, found = await tried(opened, lambda by: self._carry_out(replace(on, target=by)))
        target = opened.target
        term.permit()
        if found.waiting and found.error is None:
            return await self._wait(case, target, found, term)
        case = self._cases.current(case)
        self._observe(found)
        state = found.after or found.before
        node = case.node or (self._cases.node(target.instance, state.computer_name) if state else None)
        name = target.instance.spec.node_name or (node.metadata.name if node else None)
        verdicts = status.after_pass(target.egress, found) | {"NodeReady": status.node_ready(node, name)}
        fields = {
            "nodeName": name or (state.computer_name.lower() if state else None),
            "hostKeyFingerprint": on.host_keys.recorded,
            "osVersion": state.os_version if state else None,
            "stateHash": await self._state_hash(state, term),
            "lastChecked": timestamp(self._now()) if found.before is not None else None,
            FAILED_CHANGES: " ".join(self._failed_changes(target)),
            KEY_HASH: await self._keys.note(opened, case.held, regarding_of(case.held), term) if found.before else None,
        }
        outcome = await self._conclude(case, node, found, verdicts, fields, term)
        if opened.said is not None and found.error is None:
            verdicts["Configured"] = opened.said
        if opened.by_earlier:
            outcome = Outcome(again=1.0)
        self._tell(case, target, found, verdicts, term)
        await self._write(case, verdicts, fields, term)
        if found.error is not None:
            _log.warning("host not done", reason=status.reason_of(found.error), error=str(found.error))
            return Outcome(failed=True)
        _log.info("host done", result=found.result, channels=found.channels, seconds=round(found.seconds, 2))
        return outcome

    async def _refusal(self, case: Case, term: Term) -> Verdicts | None:
        """Why the host is not connected to; None where it is."""
        return refusal(case)

    async def _carry_out(self, on: Visit) -> PassResult:
        """The work on the host itself; its troubles are in the result."""
        case, target, term = on.case, on.target, on.term
        key = case.held.key
        await self._rollouts.meet(target, lambda text: self._hash_key.digest(text, term))
        done = self._done.get(key)
        alone = self._stands_alone(case)
        due = not self._is_fresh(case.held)
        if not alone and done != target.egress and not self._rollouts.may_connect(key, target, done, due=due):
            return PassResult(waiting=True)
        self._done.pop(key, None)
        begun, found, admitted = self._now(), PassResult(), False

        def admit() -> bool:
            nonlocal admitted
            admitted = alone or self._rollouts.admit(key, target)
            return admitted

        try:
            expected = done is not None and done != target.egress
            found = await self._work(on, admit, change_expected=expected)
        finally:
            if not alone:
                # what was done without being asked for says nothing of the settings
                changed = found if admitted else msgspec.structs.replace(found, begun=False)
                self._rollouts.came_out(key, target, changed, self._heard(case, changed, term, begun) if admitted else None)
        reached = done if found.waiting else target.egress
        if found.error is None and reached is not None:
            self._done[key] = reached
        return found

    async def _work(self, on: Visit, admit: Callable[[], bool], *, change_expected: bool) -> PassResult:
        """The connection, and what is done over it. `admit` is asked before a change."""
        case, taken = on.case, None
        if case.node is not None and case.node.adopted:
            try:
                first = not case.held.live.get("stateHash")
                taken = await peer.taken(on.target.access, on.host_keys, on.settings) if first else Taken()
            except HostError as error:
                return PassResult(error=error)
        return await one_pass(
            on.target,
            on.host_keys,
            on.settings,
            check=on.check,
            change_expected=change_expected,
            fetch_anyway=case.held.reason("EgressWorks") != "Fetched",
            admit=admit,
            taken=taken,
        )

    def _stands_alone(self, case: Case) -> bool:
        """Whether the host takes no part in rollouts: there is nothing on it that a change could harm."""
        return False

    def _failed_changes(self, target: Target) -> list[str]:
        """The names of the changes with which the host failed: who works after this process does not begin with them anew."""
        name = self._rollouts.failed_change(target)
        return [name] if name else []

    def _heard(self, case: Case, found: PassResult, term: Term, begun: datetime) -> Coroutine[Any, Any, bool] | None:
        """Whether the Node is heard of after its kubelet was restarted; None where that says nothing about a change."""
        ready = case.node.ready if case.node else None
        if case.node is None or ready is None or ready.status != "True" or "kubelet" not in map(str.casefold, found.restarted):
            return None
        return self._heartbeats.heard_of(case.node.metadata.name, begun, term.client)

    async def _wait(self, case: Case, target: Target, found: PassResult, term: Term) -> Outcome:
        """It is not the host's turn: it is asked for when it is. What a rollout that was stopped leaves out is told so.

        Such a host is looked at from time to time as any other is.
        """
        why = self._rollouts.stopped(target)
        if why is None:
            return Outcome()
        before = self._done.get(case.held.key)
        fields = {"lastChecked": timestamp(self._now())} if found.before is not None else {}
        await self._write(self._cases.current(case), status.left_out(why, found, before, target.egress), {**fields}, term)
        return self._next_check()

    def _next_check(self) -> Outcome:
        # many hosts that were begun at once do not stay together
        return Outcome(again=self._pace.check_interval * (_EARLIEST + 0.2 * self._draw()))

    def _is_fresh(self, held: HeldInstance) -> bool:
        """Whether the host was looked at since the last periodic check was due."""
        try:
            checked = datetime.fromisoformat(str(held.live.get("lastChecked")))
        except ValueError:
            return False
        return (self._now() - checked).total_seconds() < _EARLIEST * self._pace.check_interval

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
        return self._next_check()

    async def _state_hash(self, state: HostState | None, term: Term) -> str | None:
        """The host's own hash lies beside its salt: what stands in the API has a key that the host does not know."""
        value = state.registry.value(LEDGER, "StateHash") if state is not None else None
        of_ledger = value.text() if value is not None else ""
        return await self._hash_key.digest(of_ledger, term) if of_ledger else None

    # --- what people see

    async def _write(self, case: Case, verdicts: Verdicts, fields: dict[str, str | None], term: Term) -> None:
        """Write the status where it says something new. An instance that is gone by now needs none."""
        meta = case.held.metadata
        there = self._watched.windows_instances.snapshot().get(meta.name, meta.namespace)
        if there is None or there.metadata.uid != meta.uid:
            # the server does not compare the uid where a status is written: another object of this name must not get it
            return
        if "NodeReady" not in verdicts and not case.rests:
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
        self._cases.remember(answer)

    def _tell(self, case: Case, target: Target, found: PassResult, verdicts: Verdicts, term: Term) -> None:
        """Events: what was changed, and what is newly wrong."""
        regarding = regarding_of(case.held)
        if found.error is None and found.plan:
            reason = "Removed" if not target.egress.configured else "Applied"
            term.recorder.normal(regarding, reason, status.summary(found.plan, found.restarted))
        self._tell_trouble(case, verdicts, term)

    @staticmethod
    def _tell_trouble(case: Case, verdicts: Verdicts, term: Term) -> None:
        """An event on what is newly wrong. What holds a drain up was told by the drain."""
        configured = verdicts.get("Configured")
        if configured is None or configured.status != "False" or configured.reason == "DrainBlocked":
            return
        if case.held.reason("Configured") != configured.reason:
            tell = term.recorder.normal if configured.reason in _EXPECTED else term.recorder.warning
            tell(regarding_of(case.held), configured.reason, configured.message)


def _wanted(held: HeldInstance) -> tuple[Any, ...]:
    """What of an instance people write: its spec, its annotations, and the one field of its status that they clear."""
    meta = held.metadata
    cleared = not held.live.get(FINGERPRINT) and held.reason("Reachable") == "HostKeyChanged"
    return meta.uid, meta.generation, meta.annotations or {}, meta.deletion_timestamp, cleared


def _is_settled(held: HeldInstance) -> bool:
    """Whether an instance was done, by whoever worked before: it is in no hurry."""
    listed = held.live.get("conditions") or ()
    configured: dict[str, Any] = next((one for one in listed if one.get("type") == "Configured"), {})
    return configured.get("status") == "True" and configured.get("observedGeneration") == held.metadata.generation


def _concern(node: HostNode | None) -> tuple[Any, ...] | None:
    """What of a Node concerns its instance; a heartbeat changes nothing of it."""
    if node is None:
        return None
    ready = (node.ready.status, node.ready.reason) if node.ready is not None else None
    return ready, node.managed_by_other, node.addresses, node.cordoned
