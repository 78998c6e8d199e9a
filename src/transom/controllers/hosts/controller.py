"""Instances to hosts: each WindowsInstance is a key; a pass on its host, and what came of it in its status."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar, Final
from weakref import WeakValueDictionary

import msgspec
import structlog

from transom.apply.roll_out import change_of, has_change
from transom.apply.target import SettingsMissing, Target, one_pass
from transom.apply.turns import PATIENCE
from transom.controllers.hosts.concerns import is_settled, of_node, wanted
from transom.controllers.hosts.first_contact import pin
from transom.controllers.hosts.reader import InstanceReader
from transom.controllers.hosts.removal import Removal, Surrounds
from transom.controllers.hosts.session import Contact, HostSession, visit
from transom.controllers.instance import status
from transom.controllers.instance.finalizers import Finalizers, has_finalizer
from transom.controllers.instance.node_identities import NodeIdentities, without_record
from transom.controllers.instance.view import InstanceView, refusal, regarding_of
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.keys.key_rotation import KEY_HASH, KeyRotation, tried
from transom.controllers.rollout.begun_hosts import BegunHosts
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.host_turns import HostTurns
from transom.controllers.rollout.marks import CHANGES
from transom.controllers.rollout.passed_settings import PassedSettings
from transom.controllers.rollout.rollouts import OpenRollout, Rollouts
from transom.controllers.rollout.subjects import Resumption, settings_of
from transom.controllers.runtime.cached import INSTANCES, CachedInstance, HostNode
from transom.controllers.runtime.condition_aggregator import ConditionAggregator
from transom.controllers.runtime.conditions import PENDING, Condition, Conditions, Fields, moment, timestamp
from transom.controllers.runtime.controller import Result
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers, cluster_index, place_of
from transom.controllers.runtime.leadership import Leadership
from transom.controllers.runtime.options import Pace
from transom.controllers.runtime.settings import Cluster, CurrentSettings
from transom.hosts import faults
from transom.hosts.errors import HostError
from transom.hosts.passes import peer
from transom.hosts.passes.passes import EVERYBODY, Admit, PassResult
from transom.kube.errors import ApiError, Conflict, NotFound
from transom.kube.lease import LeaseLost
from transom.kube.objects import Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.host.queries import LEDGER
from transom.windows.host.state import ObservedState
from transom.windows.nodes.instance import Lifecycle
from transom.windows.parts.adopted import Adopted

_log: Final = structlog.get_logger("transom.hosts")
_EXPECTED: Final = ("Waiting", "RebootRequired", "UpgradePending", "Draining", "WaitingForNode")
"""Reasons why a host is not configured yet, and nothing is wrong."""
EARLIEST: Final = 0.9
"""Of the time between two checks, that the next one may be early."""
Observe = Callable[[PassResult], None]


class HostsController:
    """Decides which hosts concern a change, and works on one host at a time when it is told to."""

    lifecycle: ClassVar[Lifecycle] = "Egress"
    """Of which instances; the others are somebody else's."""
    refused_again: ClassVar[float | None] = None
    """Seconds after which a host that is not connected to is thought of again, where no object says when."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        *,
        pace: Pace = Pace(),  # noqa: B008  # frozen
        observe: Observe = lambda _: None,
        rollouts: Rollouts | None = None,
        keys: KeyRotation | None = None,
        identities: NodeIdentities | None = None,
        tokens: BootstrapTokens | None = None,
        require_host_keys: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._pace = pace
        self._observe = observe
        self._now = now
        self._draw = draw
        self._done: dict[ObjectKey, Egress] = {}
        """What each host was brought to, as far as this process knows: other settings than these will change it."""
        self._hash_key = HashKey(informers)
        self._resumption = Resumption(informers)
        reports = ConditionAggregator()
        begun = rollouts.begun_hosts if rollouts is not None else BegunHosts(informers)
        self._keys = keys or KeyRotation(informers, reports, self._resumption, begun)
        self._identities = identities or NodeIdentities(informers, settings, None)
        self._cases = cases = InstanceReader(informers, settings, self._keys, self._identities)
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self._rollouts = rollouts or settings_of(informers, settings, reports, self._resumption, begun)
        self._heartbeats = Heartbeats(informers.nodes)
        self._turns = HostTurns(
            self._heartbeats,
            self.queue,
            self._hash_key,
            lambda case: self._identities.node(case.identity),
            cases.current,
            self._write,
            self._rollouts.begun_hosts,
        )
        self._turns.rollouts += (self._rollouts, self._keys.rollouts)
        self._passed = PassedSettings(informers)
        self._given: dict[ObjectKey, Egress] = {}
        """What a host was given that joins while newer settings are on their way."""
        self._finalizers = Finalizers(informers)
        self._contact = Contact(self._keep_host_key, require_host_keys)
        self._writing: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()
        """One write of a status at a time: each says all of it, and knows nothing of one that is on its way."""
        cases = self._cases
        self._removal = Removal(
            Surrounds(
                informers,
                self._finalizers,
                pace,
                now,
                self._write,
                cases.current,
                cases.managed,
                observe,
                self._contact,
                tokens,
            )
        )

    def begin(self) -> None:
        """Follow the stores, which have been filled: every instance that is there is asked for at once."""
        self._informers.windows_instances.subscribe(self._instance_changed)
        self._informers.nodes.subscribe(self._node_changed)
        self._informers.secrets.subscribe(self._secret_changed)
        self._settings.subscribe(self._settings_changed)
        self._finalizers.subscribe(self.queue.add)
        self._resumption.subscribe(self._resumed)

    # --- which object concerns which key

    def _instance_changed(self, name: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        self._cases.forget(name)
        if after is None:
            self.queue.forget(name)
            self._done.pop(name, None)
            if before is not None:
                self._tell_same_place(before)
        elif before is None:
            self.queue.add(name, Priority.CHECK if is_settled(after) else Priority.CHANGE)
        elif wanted(before) != wanted(after):
            self.queue.add(name)
            self._tell_same_place(before)

    def _tell_same_place(self, before: CachedInstance) -> None:
        """Who had the same address is no longer in the way of the others."""
        for cached in self._informers.windows_instances.snapshot().by("place", place_of(before)):
            self.queue.add(cached.key)

    def _node_changed(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        self._heartbeats.seen(name.name, after)
        if of_node(before) == of_node(after):
            return
        instances_ = self._informers.windows_instances.snapshot()
        found = instances_.by("node", name.name)
        for node in (before, after):
            for address in node.ips if node else ():
                found += instances_.by("address", address)
        for cached in found:
            self.queue.add(cached.key, Priority.CHECK)

    def _secret_changed(self, name: ObjectKey, before: Whole | None, after: Whole | None) -> None:
        old, new = ((cached.value.get("data") if cached else None) for cached in (before, after))
        if old != new or (before is None) != (after is None):
            for cached in self._informers.windows_instances.snapshot().by("secret", name.name):
                self.queue.add(cached.key)

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        instances_ = self._informers.windows_instances.snapshot()
        for cluster in clusters:
            for cached in instances_.by("cluster", cluster_index(cluster)):
                self.queue.add(cached.key)

    def _resumed(self) -> None:
        """A person has halted rollouts go on: for every host there is another one now."""
        for cached in self._informers.windows_instances.snapshot():
            self.queue.add(cached.key)

    # --- one key

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring one host to its settings and say so in its status. Raises ApiError where the status cannot be written."""
        cached = self._informers.windows_instances.snapshot().get(key)
        if cached is not None and cached.fields.get("lifecycle", "Egress") != self.lifecycle:
            return Result()
        try:
            result = await self._reconcile(key, leadership)
        except (LeaseLost, ApiError):
            raise
        except Exception as error:
            if cached is not None:
                try:
                    await self._say_fault(cached, error, leadership)
                except ApiError as unwritten:
                    _log.warning("status not written", error=str(unwritten))
            raise
        else:
            await self._turns.end(key, leadership)
            return result
        finally:
            for rollouts in self._turns.rollouts:
                rollouts.done(key)

    async def _say_fault(self, cached: CachedInstance, error: Exception, leadership: Leadership) -> None:
        """The last good word on a host must not outlive what nobody foresaw. Raises ApiError."""
        case = self._cases.current(InstanceView(cached, None, (), None, None, None))
        conditions = status.faulty(faults.place(error))
        self._tell_trouble(case, conditions, leadership)
        await self._write(case, conditions, {}, leadership)

    async def _reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        case = self._cases.load(key)
        if case is None:
            return Result()
        if case.cached.metadata.deletion_timestamp is not None:
            return await self._removal.step(
                await self._settled(case, leadership) if has_finalizer(case.cached) else case, leadership
            )
        if self._finalizers.namespace_goes:
            # nothing is begun any more
            return await self._removal.release(case, leadership)
        refused = await self._refusal(case, leadership)
        if refused is not None:
            for rollouts in self._turns.rollouts:
                rollouts.leave(key.name)
            self._tell_trouble(case, refused, leadership)
            await self._write(case, refused, {}, leadership)
            return Result(again=self.refused_again)
        assert case.target is not None  # a case without one is refused
        try:
            # what is True by other settings is taken back before anything else
            await self._write(case, {}, {}, leadership)
        except ApiError as error:
            # the host does not wait for its status
            _log.warning("status not written", error=str(error))
        claimed = await self._claimed(await self._settled(self._cases.current(case), leadership), leadership)
        return await self._pass(claimed, case.target, leadership)

    async def _settled(self, case: InstanceView, leadership: Leadership, reached: str = "") -> InstanceView:
        """The case with its Node, which is recorded before anything follows from it. Raises ApiError."""
        identity, cached = await self._identities.settle(case.cached, leadership, reached=reached)
        return self._cases.identified(case, identity, cached)

    async def _claimed(self, case: InstanceView, leadership: Leadership) -> InstanceView:
        """The case with the finalizer on its instance, without which nothing is written to a host. Raises ApiError."""
        if has_finalizer(case.cached):
            return case
        cached = await self._finalizers.put(case.cached, leadership)
        self._cases.remember(cached)
        return replace(case, cached=cached)

    async def _pass(self, case: InstanceView, target: Target, leadership: Leadership) -> Result:
        on = visit(case, target, leadership, self._pace, lambda *of: self._cases.managed(case.cached, *of), self._contact)

        async def record(hashes: str) -> None:
            fields: Fields = {KEY_HASH: hashes, CHANGES: self._turns.marks(case, target)}
            await self._write(self._cases.current(case), {}, fields, leadership)

        leadership.permit()
        opened = await self._keys.open(
            case.cached,
            target,
            on.host_keys,
            on.settings,
            self._turns.of(case, leadership),
            record,
            leadership,
        )
        leadership.permit()
        opened, found = await tried(opened, lambda by: self._carry_out(replace(on, target=by)))
        target = opened.target
        await self._turns.conclude(case)
        leadership.permit()
        if found.waiting and found.error is None:
            if opened.said is not None:
                # a host that failed with its key must not be forgotten while it waits for its settings
                fields: Fields = {CHANGES: self._turns.marks(case, target)}
                await self._write(self._cases.current(case), {"Configured": opened.said}, fields, leadership)
            return await self._wait(case, target, found, leadership)
        self._observe(found)
        state = found.after or found.before
        case = await self._settled(self._cases.current(case), leadership, found.before.reached if found.before else "")
        node = case.node
        given = self._given.pop(case.cached.key, None)
        conditions = status.after_pass(given or target.egress, found) | {"NodeReady": status.node_ready(node, case.identity)}
        fields = {
            "hostKeyFingerprint": on.host_keys.recorded,
            "osVersion": state.os_version if state else None,
            "stateHash": await self._state_hash(state, leadership),
            "lastChecked": timestamp(self._now()) if found.before is not None else None,
            "settings": await self._hash_key.digest(target.egress.as_judged, leadership) if found.before is not None else None,
            CHANGES: self._turns.marks(case, target),
            KEY_HASH: await self._keys.note(opened, case.cached, regarding_of(case.cached), leadership)
            if found.before
            else None,
        }
        outcome = await self._conclude(case, found, conditions, fields, leadership)
        if opened.said is not None and found.error is None:
            conditions["Configured"] = opened.said
        if given is not None and found.error is None:
            conditions |= status.with_earlier(conditions)
        if opened.by_earlier or (given is not None and not self._stands_alone(case)):
            outcome = Result(again=1.0)
        elif given is not None:
            # its turn comes when its Node takes pods
            outcome = Result(again=min(outcome.again or self._pace.unready, self._pace.unready) / 4)
        self._tell(case, target, found, conditions, leadership)
        await self._write(case, conditions, fields, leadership)
        if isinstance(found.error, SettingsMissing):
            _log.info("host left as it is: there is no EgressProxy/cluster")
            return self._next_check()
        if found.error is not None:
            _log.warning("host not done", reason=status.reason_of(found.error), error=str(found.error))
            return Result(failed=True)
        _log.info("host done", result=found.result, channels=found.channels, seconds=round(found.seconds, 2))
        if self._turns.failed(target):
            # tried again, with growing pauses, until it passes
            return Result(failed=True)
        return outcome

    async def _refusal(self, case: InstanceView, leadership: Leadership) -> Conditions | None:
        """Why the host is not connected to; None where it is."""
        return refusal(case, require_host_keys=self._contact.require_host_keys)

    async def _carry_out(self, on: HostSession) -> PassResult:
        """The work on the host itself; its troubles are in the result."""
        case, target, leadership = on.case, on.target, on.leadership
        key, name = case.cached.key, target.instance.name
        turn = self._turns.of(case, leadership)
        rollout = await self._rollouts.meet(target, turn.digest)
        if (earlier := self._earlier(case, target, rollout)) is not None:
            self._given[key] = earlier
            by_earlier = replace(on, target=msgspec.structs.replace(target, egress=earlier))
            found = await self._work(by_earlier, EVERYBODY, change_expected=True)
            if found.error is None:
                # where these ask for nothing, no trace on the host says that it has them
                self._done[key] = earlier
            return found
        done = self._done.get(key)
        alone = self._stands_alone(case)
        due = not self._is_fresh(case.cached)
        differs = done is not None and change_of(done) != change_of(target.egress)
        if not alone and done != target.egress and not rollout.may_read(name, turn.ask, differs=differs, due=due):
            return PassResult(waiting=True)
        self._done.pop(key, None)
        found, admitted, ended = PassResult(), False, False
        begins = self._turns.begin(case)
        overlooked = asyncio.get_running_loop().call_later(PATIENCE, rollout.overlook, name)

        async def admit() -> bool:
            nonlocal admitted
            admitted = alone or await self._turns.admit(rollout, case, target, leadership)
            return admitted

        def permit() -> None:
            leadership.permit()
            begins()

        try:
            # a host that has nothing of Transom's yet gets all of it
            new = not case.cached.live.get("stateHash") and target.egress.configured
            expected = done != target.egress if done is not None else new
            settings = msgspec.structs.replace(on.settings, permit=permit)
            found = await self._work(
                replace(on, settings=settings, owed=name in rollout.changed), admit, change_expected=expected
            )
            ended = True
        finally:
            overlooked.cancel()
            if not alone and ended:
                # what was done without being asked for says nothing of the settings
                changed = found if admitted else msgspec.structs.replace(found, begun=False)
                self._turns.judge(rollout, case, target, changed, leadership)
            elif not alone:
                if admitted:
                    # nobody knows how far it came
                    rollout.changed.add(name)
                rollout.read(name)
            elif ended and has_change(target.egress, found):
                # nobody had to wait for it: it says nothing of the change, and does not need it any more
                rollout.come_out(name, "right")
        if rollout.rollout.over:
            await self._passed.keep(target.instance.cluster, target.egress, leadership)
        reached = done if found.waiting else target.egress
        if found.error is None and reached is not None:
            self._done[key] = reached
        return found

    def _earlier(self, case: InstanceView, target: Target, rollout: OpenRollout) -> Egress | None:
        """What a host gets while newer settings are on their way or stopped, and it is not its turn; None: the newer.

        That is one that nothing was done to yet, or whose Node was emptied for something else: it takes pods again afterwards.
        """
        untouched = not case.cached.live.get("stateHash") and case.cached.key not in self._done
        joins = untouched and not rollout.superseded
        emptied = case.drained or (case.node is not None and case.node.cordoned_for is not None)
        beside = emptied and not rollout.rollout.knows(target.instance.name)
        if rollout.stage == "all" or not (joins or beside):
            return None
        if target.egress.missing:
            # nobody speaks of a host that joins now
            return None
        passed = self._passed.of(target.instance.cluster)
        return passed if passed is not None and change_of(passed) != change_of(target.egress) else None

    async def _work(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """The connection, and what is done over it. `admit` is asked before a change."""
        case = on.case
        try:
            taken = await self._peers(on)
        except HostError as error:
            return PassResult(error=error)
        return await one_pass(
            on.target,
            on.host_keys,
            on.settings,
            check=on.check,
            change_expected=change_expected,
            fetch_anyway=on.owed or case.cached.reason("EgressWorks") != "Fetched",
            admit=admit,
            taken=taken,
        )

    @staticmethod
    async def _peers(on: HostSession) -> Adopted | None:
        """What another operator left that had the host before; None where none had. Raises HostError."""
        if on.case.node is None or not on.case.node.adopted:
            return None
        first = not on.case.cached.live.get("stateHash")
        return await peer.taken(on.target.access, on.host_keys, on.settings) if first else Adopted()

    def _stands_alone(self, case: InstanceView) -> bool:
        """Whether the host takes no part in rollouts: there is nothing on it that a change could harm."""
        return False

    async def _wait(self, case: InstanceView, target: Target, found: PassResult, leadership: Leadership) -> Result:
        """It is not the host's turn: it is asked for when it is. What a rollout that was stopped leaves out is told so.

        Such a host is looked at from time to time as any other is.
        """
        rollout = self._rollouts.known(target)
        if rollout is None:
            # the settings were edited meanwhile
            return Result(again=1.0)
        why = rollout.refusal(target.instance.name)
        if why is None:
            return self._next_check()
        before = self._done.get(case.cached.key)
        fields: Fields = {"lastChecked": timestamp(self._now())} if found.before is not None else {}
        await self._write(self._cases.current(case), status.left_out(why, found, before, target.egress), fields, leadership)
        return self._next_check()

    def _next_check(self) -> Result:
        # many hosts that were begun at once do not stay together
        return Result(again=self._interval * (EARLIEST + 0.2 * self._draw()))

    @property
    def _interval(self) -> float:
        """Seconds between two checks of a host, on average."""
        return self._pace.check_interval

    def _is_fresh(self, cached: CachedInstance) -> bool:
        """Whether the host was looked at since the last periodic check was due."""
        checked = moment(cached.live.get("lastChecked"))
        return checked is not None and (self._now() - checked).total_seconds() < EARLIEST * self._interval

    async def _conclude(
        self, case: InstanceView, found: PassResult, conditions: Conditions, fields: Fields, leadership: Leadership
    ) -> Result:
        """When a host that was done is looked at again. What else is to be said of it goes into `conditions` and `fields`."""
        return self._next_check()

    async def _state_hash(self, state: ObservedState | None, leadership: Leadership) -> str | None:
        """The host's own hash lies beside its salt: what stands in the API has a key that the host does not know."""
        value = state.registry.value(LEDGER, "StateHash") if state is not None else None
        of_ledger = value.text() if value is not None else ""
        return await self._hash_key.digest(of_ledger, leadership) if of_ledger else None

    # --- what people see

    async def _keep_host_key(self, case: InstanceView, fingerprint: str, leadership: Leadership) -> None:
        async with self._writing.setdefault(case.cached.key, asyncio.Lock()):
            self._cases.remember(await pin(self._cases.current(case).cached, fingerprint, leadership, self._now))

    async def _write(self, case: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership) -> None:
        """Write the status where it says something new. An instance that is gone by now needs none."""
        async with self._writing.setdefault(case.cached.key, asyncio.Lock()):
            await self._write_next(self._cases.current(case), conditions, fields, leadership)

    async def _write_next(self, case: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership) -> None:
        meta = case.cached.metadata
        there = self._informers.windows_instances.snapshot().named(meta.name, meta.namespace)
        if there is None or there.metadata.uid != meta.uid:
            # the server does not compare the uid where a status is written: another object of this name must not get it
            return
        if "NodeReady" not in conditions and not case.rests:
            conditions = conditions | {"NodeReady": status.node_ready(case.node, case.identity)}
        if await self._is_outdated(case, fields.get("settings") or case.cached.live.get("settings"), leadership):
            conditions = status.outdated(case.cached.live, conditions)
        wanted = status.merged(case.cached.live, conditions, fields, meta.generation, self._now())
        if wanted == without_record(case.cached.live):
            return
        metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "status": wanted}
        try:
            answer = await leadership.client.server_side_apply(
                INSTANCES, value, meta.name, meta.namespace, subresource="status"
            )
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return
        self._cases.remember(answer)

    async def _is_outdated(self, case: InstanceView, judged: str | None, leadership: Leadership) -> bool:
        """Whether a host was judged by other settings than those that hold now."""
        holds = self._settings.of(case.instance) if case.instance is not None else None
        return bool(judged) and holds is not None and judged != await self._hash_key.digest(holds.as_judged, leadership)

    def _tell(
        self, case: InstanceView, target: Target, found: PassResult, conditions: Conditions, leadership: Leadership
    ) -> None:
        """Events: what was changed, and what is newly wrong."""
        if found.error is None and found.plan:
            summary = status.summary(found.plan, found.restarted)
            configured = conditions.get("Configured")
            if case.cached.reason("ProxyApplied") == PENDING:
                # many hosts get the same: one write less for each, and the EgressProxy tells of the change
                if configured is not None and configured.status == "True":
                    conditions["Configured"] = Condition("True", configured.reason, f"{configured.message}; {summary}")
            else:
                removed = not target.egress.configured and status.held_settings(found.before)
                reason = "Removed" if removed else "Applied"
                leadership.recorder.normal(regarding_of(case.cached), reason, summary)
        self._tell_trouble(case, conditions, leadership)

    @staticmethod
    def _tell_trouble(case: InstanceView, conditions: Conditions, leadership: Leadership) -> None:
        """An event on what is newly wrong. What holds a drain up was told by the drain."""
        configured = conditions.get("Configured")
        if configured is None or configured.reason == "DrainBlocked":
            return
        if configured.status != "False" and configured.reason != faults.Fault.__name__:
            return
        if case.cached.reason("Configured") != configured.reason:
            tell = leadership.recorder.normal if configured.reason in _EXPECTED else leadership.recorder.warning
            tell(regarding_of(case.cached), configured.reason, configured.message)
