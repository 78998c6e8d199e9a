"""Instances on their way out: the host is given back, then the cluster forgets it. Every step looks at what is left to do.

Nothing is remembered between two steps but what is in the cluster and on the host, so that a process that was killed anywhere
is followed by one that goes on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import structlog

from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.controller import Outcome
from transom.controllers.kept import HeldInstance, HostNode
from transom.controllers.options import Pace
from transom.controllers.term import Term
from transom.controllers.watched import Watched, place_of
from transom.controllers.windows import status
from transom.controllers.windows.bootstrap_tokens import BootstrapTokens
from transom.controllers.windows.case import Case, ManagedByOther, managed_message, regarding_of
from transom.controllers.windows.drain import Drain
from transom.controllers.windows.finalizers import Finalizers, has_finalizer
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.machines import CLUSTER_MACHINES, MACHINES
from transom.controllers.windows.marks import JOINED, ORIGIN, ORIGIN_UID, SOURCE
from transom.controllers.windows.visit import visit
from transom.hosts import removal as hosts
from transom.hosts.passes import PassResult
from transom.hosts.removal import Removed
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import Resource
from transom.kube.versions import served
from transom.proxy.settings import Egress
from transom.windows import instance as instances
from transom.windows.inventory import ignored

LEAVE_HOST: Final = "transom.dev/leave-host"
"""The annotation of an instance whose host is to stay as it is when the instance is deleted."""
_NODES: Final = Resource("", "v1", "Node", "nodes", False, Metadata)
_log: Final = structlog.get_logger("transom.removal")
Write = Callable[[Case, Verdicts, dict[str, str | None], Term], Awaitable[None]]
"""Puts conditions and fields into the status of an instance."""


@dataclass(frozen=True)
class Surrounds:
    """What a removal needs of the controller whose instance it is."""

    watched: Watched
    finalizers: Finalizers
    pace: Pace
    now: Callable[[], datetime]
    write: Write
    current: Callable[[Case], Case]
    """The case with what was written meanwhile."""
    node: Callable[[instances.WindowsInstance, str], HostNode | None]
    observe: Callable[[PassResult], None]
    tokens: BootstrapTokens | None = None
    """Where hosts are joined, their nodes are drained and go as well."""


class Removal:
    """The way out of the instances of one lifecycle."""

    def __init__(self, on: Surrounds) -> None:
        self._on = on

    async def step(self, case: Case, term: Term) -> Outcome:
        """Do what is to be done next about an instance that is being deleted. Raises ApiError."""
        if not has_finalizer(case.held) or self._on.finalizers.was_taken(case.held):
            return Outcome()
        if (why := await self._on.finalizers.all_go(term)) is not None:
            return await self._leave(case, why, term)
        if (why := await self._why_left(case, term)) is not None:
            return await self._leave(case, why, term)
        machine = await self._machine(case.held, term)
        if machine == "ignored":
            return await self._leave(case, "its Machine is to be ignored", term)
        if machine == "gone":
            return await self._forget(case, "its host goes with its Machine", term, machine=False)
        if case.held.fields.get("paused"):
            message = f"spec.paused is set: the host is given back once it is not, or left with annotation {LEAVE_HOST}"
            await self._on.write(case, {"Configured": Verdict("Unknown", "Paused", message)}, {}, term)
            return Outcome()
        if case.held.live.get("observedGeneration") != case.held.metadata.generation:
            # a deletion is a generation of its own
            term.recorder.normal(regarding_of(case.held), "Removing", "the instance is deleted: its host is given back")
        if self._on.tokens is not None and (waiting := await self._drain(case, term)) is not None:
            return waiting
        return await self._give_back(case, term, machine=machine == "there")

    async def release(self, case: Case, term: Term) -> Outcome:
        """Take the finalizer off an instance whose namespace goes, before it is deleted itself. Raises ApiError."""
        if not has_finalizer(case.held) or self._on.finalizers.was_taken(case.held):
            return Outcome()
        return await self._leave(case, f"namespace {case.held.metadata.namespace} is being deleted", term)

    # --- whose the host is

    async def _why_left(self, case: Case, term: Term) -> str | None:
        """Why the host stays as it is; None where it is to be given back."""
        held = case.held
        if (held.metadata.annotations or {}).get(LEAVE_HOST) == "true":
            return f"annotation {LEAVE_HOST} says so"
        if case.node is not None and case.node.managed_by_other:
            return managed_message(case.node)
        for other in self._on.watched.windows_instances.snapshot().by("place", place_of(held)):
            lives = other.metadata.deletion_timestamp is None and other.metadata.uid != held.metadata.uid
            if lives and _lifecycle(other) in (_lifecycle(held), "Node"):
                return f"it is the host of WindowsInstance {other.metadata.name}, too"
        return None

    async def _machine(self, held: HeldInstance, term: Term) -> Literal["there", "gone", "ignored"] | None:
        """What has become of the Machine that the instance came from; None where it came from none."""
        kinds: dict[str, Resource[Any]] = {"Node Machine": MACHINES, "Egress ClusterMachine": CLUSTER_MACHINES}
        annotations = held.metadata.annotations or {}
        kind = kinds.get(f"{_lifecycle(held)} {(held.metadata.labels or {}).get(SOURCE)}")
        namespace, _, name = annotations.get(ORIGIN, "").partition("/")
        if kind is None or not name:
            return None
        try:
            found = await term.client.get(await served(term.client, kind), name, namespace)
        except NotFound:
            return "gone"
        meta = found.metadata
        if meta.deletion_timestamp is not None or meta.uid != annotations.get(ORIGIN_UID):
            return "gone"
        return "ignored" if ignored(meta.labels or {}, meta.annotations or {}) else "there"

    # --- the steps

    async def _drain(self, case: Case, term: Term) -> Outcome | None:
        """A step of the drain; None where there is nothing to drain. Pods of a kubelet that is silent end with the Node.

        Nobody's budget is passed over, however long that lasts: people are told what holds it.
        """
        node = case.node
        if node is None or node.ready is None or node.ready.status != "True":
            return None
        pace = self._on.pace
        progress = await self._drain_of(case, node, term).step()
        if progress.done:
            return None
        message = f"Node {node.metadata.name} is drained: {progress}"
        reason = "DrainBlocked" if progress.overdue else "Draining"
        await self._on.write(case, {"Configured": Verdict("False", reason, message)}, {}, term)
        return Outcome(again=pace.unready if progress.overdue else pace.drain_step)

    def _drain_of(self, case: Case, node: HostNode, term: Term) -> Drain:
        return Drain(node.metadata.name, "removal", term, regarding_of(case.held), self._on.now, self._on.pace.drain)

    async def _give_back(self, case: Case, term: Term, *, machine: bool) -> Outcome:
        found = await self._on_host(case, term)
        if isinstance(found, str):
            await self._on.write(case, {"Configured": Verdict("False", "Removing", found)}, {}, term)
            if self._lasted(case.held.metadata.deletion_timestamp) < self._on.pace.gone:
                return Outcome(again=self._on.pace.unready)
            return await self._give_up(case, found, term, machine=machine)
        self._on.observe(found)
        if isinstance(found.error, ManagedByOther):
            return await self._leave(case, str(found.error), term)
        if found.error is None:
            if found.remains:
                left = f"on {case.held.fields.get('address')} could not be removed: {', '.join(found.remains)}"
                await self._warn(case, left, term)
            what = status.summary(found.plan, found.restarted) if found.plan else "there was nothing of Transom's on it"
            return await self._forget(case, f"its host was given back: {what}", term, machine=machine)
        verdicts = status.after_pass(Egress(), found)
        said = {"Reachable": verdicts["Reachable"], "Configured": verdicts["Configured"]}
        await self._on.write(case, said, {}, term)
        _log.warning("host not given back", instance=case.held.metadata.name, error=str(found.error))
        term.recorder.warning(regarding_of(case.held), status.reason_of(found.error), str(found.error))
        if verdicts["Reachable"].status == "True":
            return Outcome(failed=True)
        since = _unreachable_since(case.held)
        if not case.held.live.get("osVersion") or (since is not None and self._lasted(since) >= self._on.pace.gone):
            return await self._give_up(case, str(found.error), term, machine=machine)
        return Outcome(again=min(self._on.pace.unready, self._on.pace.gone))

    async def _on_host(self, case: Case, term: Term) -> Removed | str:
        """The pass on the host; why there can be none."""
        if case.instance is None:
            return "; ".join(f"{one.field}: {one.message}" for one in case.errors)
        if case.missing_key is not None:
            return case.missing_key
        target = case.target or self._target(case.instance)
        message = f"{target.instance.spec.address}: what Transom made goes, and what it replaced comes back"
        await self._on.write(case, {"Configured": Verdict("False", "Removing", message)}, {}, term)
        on = visit(case, target, term, self._on.pace, self._on.node)
        payload = self._on.tokens is not None
        found = await hosts.remove(target.access, on.host_keys, on.settings, check=on.check, payload=payload)
        term.permit()
        return found

    def _target(self, instance: instances.WindowsInstance) -> Target:
        """What is left to do needs no valid settings."""
        key = instances.private_key(instance, self._on.watched.instance_objects(instance))
        return Target(instance, Egress(), key)

    async def _give_up(self, case: Case, why: str, term: Term, *, machine: bool) -> Outcome:
        """The host does not come back: the cluster forgets it, and people are told what is still there."""
        spared = "proxy, trust, services and files" if self._on.tokens is not None else "proxy and trust"
        left = f"{case.held.fields.get('address')} was not given back ({why}); Transom's {spared} are still on it"
        await self._warn(case, left, term)
        return await self._forget(case, "the cluster's side is done", term, machine=machine)

    async def _warn(self, case: Case, message: str, term: Term) -> None:
        """Say what stays on a host: for as long as others keep the instance, its condition says so, too."""
        await self._on.write(case, {"Configured": Verdict("False", "RemovalIncomplete", message)}, {}, term)
        _log.warning("removal incomplete", instance=case.held.metadata.name, message=message)
        term.recorder.warning(regarding_of(case.held), "RemovalIncomplete", message)

    async def _leave(self, case: Case, why: str, term: Term) -> Outcome:
        """The host stays as it is."""
        _log.info("host left as it is", instance=case.held.metadata.name, reason=why)
        if not self._on.finalizers.namespace_goes:
            term.recorder.normal(regarding_of(case.held), "HostLeft", f"the host is left as it is: {why}")
        if self._on.tokens is not None and case.node is not None and case.node.cordoned_for is not None:
            await self._drain_of(case, case.node, term).uncordon()
        await self._on.finalizers.take(self._on.current(case).held, term)
        return Outcome()

    async def _forget(self, case: Case, why: str, term: Term, *, machine: bool) -> Outcome:
        """The cluster's side, and the end."""
        if self._on.tokens is not None:
            if not machine:
                await self._remove_node(case, term)
            await self._on.tokens.forget(case.held, term)
        await self._on.finalizers.take(self._on.current(case).held, term)
        _log.info("instance removed", instance=case.held.metadata.name, reason=why)
        term.recorder.normal(regarding_of(case.held), "Removed", why)
        return Outcome()

    async def _remove_node(self, case: Case, term: Term) -> None:
        """Delete the Node that the host was; one that Transom did not join stays."""
        held = case.held
        name = case.node.metadata.name if case.node is not None else str(held.live.get("nodeName") or "").lower()
        if not name:
            return
        try:
            node = await term.client.get(_NODES, name)
            if (node.metadata.annotations or {}).get(JOINED) != f"{held.metadata.namespace}/{held.metadata.name}":
                message = f"Node {name} has no annotation {JOINED} of this instance: it is not deleted"
                term.recorder.warning(regarding_of(held), "NodeLeft", message)
                return
            await term.client.delete(_NODES, name, uid=node.metadata.uid)
        except (NotFound, Conflict):
            return
        term.recorder.normal(regarding_of(held), "NodeRemoved", f"Node {name} was this host's")

    def _lasted(self, since: str | None) -> float:
        """Seconds since a time of the API server's."""
        try:
            begun = datetime.fromisoformat(since or "")
        except ValueError:
            return 0.0
        return (self._on.now().astimezone(UTC) - begun).total_seconds()


def _lifecycle(held: HeldInstance) -> str:
    return str(held.fields.get("lifecycle", "Egress"))


def _unreachable_since(held: HeldInstance) -> str | None:
    conditions = held.live.get("conditions") or ()
    found: dict[str, Any] = next((one for one in conditions if one.get("type") == "Reachable"), {})
    return str(found.get("lastTransitionTime")) if found.get("status") != "True" else None
