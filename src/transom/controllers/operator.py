"""The operator: stores, settings, controllers and workers put together, and a lease that says who works."""

import asyncio
import math
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import structlog

from transom.controllers.certificates.controller import CertificatesController
from transom.controllers.clusters.controller import ClustersController
from transom.controllers.egress.controller import EgressController
from transom.controllers.hosts.controller import HostReconciler
from transom.controllers.hosts.proxy_only import EgressLifecycle
from transom.controllers.hosts.services import HostServices
from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.inventory.controller import InstancesController
from transom.controllers.inventory.ignored_instances import IgnoredInstancesController
from transom.controllers.join.members import Members
from transom.controllers.keys.controller import KeysController
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.machines.controller import MachinesController
from transom.controllers.nodes.node_lifecycle import NodeLifecycle
from transom.controllers.nodes.services import NodeServices
from transom.controllers.pods.controller import PodsController
from transom.controllers.propagation.controller import PropagationController
from transom.controllers.rollout import operator_condition
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.kinds import make_settings_rollouts
from transom.controllers.rollout.resume_annotation import ResumeAnnotation
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Controller, Leadership, run_workers
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers, watch_machines
from transom.controllers.runtime.options import Options
from transom.controllers.runtime.rights_watch import RightsWatch
from transom.controllers.userdata.controller import UserDataController
from transom.hosts import owner
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassResult
from transom.kube.backoff import wait_for_event
from transom.kube.client import Client
from transom.kube.decoding import MalformedObject
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder, Regarding
from transom.kube.lease import LeaseElection, LeaseTerm
from transom.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES
from transom.kube.store import ObjectKey
from transom.manifests.workloads import GRACE

_log: Final = structlog.get_logger("transom.operator")
T = TypeVar("T")


@dataclass(frozen=True)
class Dependencies:
    """What a controller is made from. It says what else it has to see by `informers.watch`, when it is made."""

    informers: Informers
    settings: CurrentSettings
    options: Options
    observe: Callable[[PassResult], None]
    """Called after each pass on a host, for the metrics."""
    now: Callable[[], datetime]
    reports: ConditionAggregator
    """What each controller says of an EgressProxy."""
    shared: dict[str, tuple[Any, frozenset[int]]] = field(default_factory=dict)
    """What several controllers use, made once, with the kinds that it reads."""

    def _share(self, name: str, make: Callable[[], T]) -> T:
        """Return what has that name, made at its first use; each user uses its kinds, too."""
        if name not in self.shared:
            with self.informers.record_kinds() as kinds:
                made = make()
            self.shared[name] = made, frozenset(kinds)
        part: T
        part, kinds_of_part = self.shared[name]
        self.informers.record_use(kinds_of_part)
        return part

    @property
    def members(self) -> Members:
        """The hosts that Transom joins; several controllers know them."""
        return self._share("members", lambda: Members(self.informers, self.identities, self.now))

    @property
    def identities(self) -> NodeIdentities:
        """Which Node is whose; everything that asks is answered by it."""
        chosen = self.options.controllers
        joins = chosen is None or not {"certificates", "nodes"}.isdisjoint(chosen)
        return self._share(
            "identities",
            lambda: NodeIdentities(self.informers, self.settings, watch_machines(self.informers) if joins else None),
        )

    @property
    def resume_annotation(self) -> ResumeAnnotation:
        """The annotation by which a person resumes halted rollouts."""
        return self._share("resume_annotation", lambda: ResumeAnnotation(self.informers))

    @property
    def in_flight_hosts(self) -> InFlightHosts:
        """Which hosts were begun, of whatever is on its way to many."""
        return self._share("in_flight_hosts", lambda: InFlightHosts(self.informers))

    @property
    def rollouts(self) -> Rollouts:
        """Whose turn it is to get other settings, of all Windows hosts."""
        return self._share(
            "rollouts",
            lambda: make_settings_rollouts(
                self.informers, self.settings, self.reports, self.resume_annotation, self.in_flight_hosts
            ),
        )

    @property
    def keys(self) -> KeyRotation:
        """Which SSH keys open which Windows host."""
        return self._share(
            "keys", lambda: KeyRotation(self.informers, self.reports, self.resume_annotation, self.in_flight_hosts)
        )

    def create_host_services(self, check_interval: float) -> HostServices:
        """Create the services of one controller of hosts."""
        return HostServices(
            self.informers,
            self.settings,
            options=self.options,
            observe=self.observe,
            rollouts=self.rollouts,
            resume_annotation=self.resume_annotation,
            keys=self.keys,
            identities=self.identities,
            now=self.now,
            check_interval=check_interval,
        )

    def create_node_services(self) -> NodeServices:
        """Create the services of the controller of nodes, which checks hosts with a payload more often."""
        pace = self.options.pace
        interval = pace.check_interval if self.options.payload is None else min(pace.check_interval, pace.node_check)
        services = self.create_host_services(interval)
        return NodeServices(services, options=self.options, reports=self.reports, members=self.members)


ControllerFactory = Callable[[Dependencies], Controller]
CONTROLLERS: Final[Mapping[str, ControllerFactory]] = {
    "egress": lambda item: EgressController(
        item.informers, item.settings, system_ca_file=item.options.system_ca_file, reports=item.reports, now=item.now
    ),
    "hosts": lambda item: HostReconciler(item.create_host_services(item.options.pace.check_interval), EgressLifecycle()),
    "clusters": lambda item: ClustersController(item.informers, item.settings, item.reports),
    "machines": lambda item: MachinesController(item.informers, item.settings, item.reports, now=item.now),
    "propagation": lambda item: PropagationController(
        item.informers, item.settings, item.reports, item.options.workload_cluster_networks
    ),
    "instances": lambda item: InstancesController(item.informers, item.settings),
    "strays": lambda item: IgnoredInstancesController(item.informers, now=item.now),
    "userdata": lambda item: UserDataController(item.informers, item.settings, openssh_msi=item.options.openssh_msi),
    "certificates": lambda item: CertificatesController(item.informers, item.settings, item.members),
    "nodes": lambda item: HostReconciler((nodes := item.create_node_services()).on, NodeLifecycle(nodes)),
    "keys": lambda item: KeysController(item.informers, item.keys, pace=item.options.pace, now=item.now),
    "pods": lambda item: PodsController(
        item.informers, item.settings, item.reports, system_ca_file=item.options.system_ca_file
    ),
}
"""The controllers by name. What each may do in a cluster is in `transom.manifests.roles`, by the same names."""
DRAIN: Final = GRACE - 10.0
"""Seconds that passes may take after SIGTERM; what is left is for the lease and the last events."""
_AFTER_RESTORE: Final = 10.0
"""Seconds between two restores of the cluster that are believed."""
_OBSERVE_HISTORY: Final = 5.0
"""Seconds between two looks at the server's version."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Operator:
    """One process. `run` works until it is cancelled."""

    def __init__(
        self,
        client: Client,
        options: Options,
        observe: Callable[[PassResult], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        trace: Callable[[str, ObjectKey], AbstractContextManager[object]] = lambda _, __: nullcontext(),
    ) -> None:
        """Create the operator. `observe` receives each pass on a host; `trace` is open while that controller works on a key."""
        self._trace, self._observe_pass = trace, observe
        self._client = client
        self._options, self._now = options, now
        self._host_name = _OTHER.sub("-", socket.gethostname()) or "transom"
        self.identity = f"{self._host_name}_{secrets.token_hex(4)}"
        self.election = LeaseElection(
            client,
            options.namespace,
            self.identity,
            timings=options.terms,
            now=now,
            annotate=lambda: self.rights.lease_annotations,
            on_renewal_by_other=self._forget_refused_writes,
        )
        self._owner = Owner("transom-operator", self._host_name)
        self._teller: EventRecorder | None = None
        self.dropped_events = 0
        self.restores = 0
        """How often everything was read again because the cluster had been restored."""
        self._restore_evidence = ""
        """What the next leader's term has to report; empty if nothing."""
        self._listeners: list[Callable[[], None]] = []
        self.working = False
        """Whether this process works: it holds the lease, or leader election is disabled."""
        self._create_controllers()

    def _create_controllers(self) -> None:
        """Make everything that remembers objects of the cluster: at the start, and after a restore of the cluster."""
        options, now = self._options, self._now
        self.informers = Informers(self._client, options.namespace, options.reflector)
        self.settings = CurrentSettings(self.informers, self._client.connection.server, now)
        made = Dependencies(self.informers, self.settings, options, self._observe_pass, now, ConditionAggregator())
        base = len(self.informers.reflectors)
        self.informers.required = base
        self.controllers: dict[str, Controller] = {}
        """Those that were asked for."""
        self._kinds: dict[str, frozenset[int]] = {}
        """The kinds that each controller reads, by their place in the informers."""
        for name, make in CONTROLLERS.items():
            if options.controllers is None or name in options.controllers:
                with self.informers.record_kinds() as kinds:
                    self.controllers[name] = make(made)
                self._kinds[name] = frozenset({*range(base), *kinds})
        self._changed_decisions = asyncio.Event()
        self._decided: dict[str, bool] = {}
        """Of each controller whether it has begun; False while a kind that it reads is refused."""
        self._in_flight_hosts = made.in_flight_hosts
        self._reports = made.reports
        self.rights = RightsWatch(self._client, self.informers, options, self._reports, self._retry_refused)
        self.informers.on_malformed = self._record_malformed_event
        for listener in self._listeners:
            listener()

    def _retry_refused(self) -> None:
        """Retry at once what the API server refused, instead of after the backoff of up to minutes."""
        self.informers.retry_refused()
        for controller in self.controllers.values():
            controller.queue.retry_failed()

    def _forget_refused_writes(self) -> None:
        """Forget what the server refused to this process: a standby repeats no write that could succeed by now."""
        self._client.refused_writes.forget_all()

    def on_controllers_created(self, listener: Callable[[], None]) -> None:
        """Call `listener` now, and whenever the informers are others."""
        self._listeners.append(listener)
        listener()

    @property
    def ready(self) -> bool:
        """Whether everything has been read that decisions are made from. A standby is ready, too."""
        return self.settings.begun.is_set() and len(self._decided) == len(self.controllers)

    def describe_unread_kinds(self) -> str:
        """Return what was not read yet, for people who ask why it is not ready."""
        unread = self.informers.list_unread_kinds()
        return f"not read yet: {'; '.join(unread)}" if unread else "the settings are being computed"

    @property
    def check_interval(self) -> float:
        """Seconds between two checks of one host."""
        return self._options.pace.check_interval

    @property
    def response_counts(self) -> Mapping[str, int]:
        """How often the API server answered how: by HTTP status, `none` for no answer."""
        return self._client.connection.answers

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then end started work in order, and release the lease.

        After a restore of the cluster everything is read again, as after a restart of the process.
        """
        while await self._run_until_restore(stop):
            history = self._client.history
            self._restore_evidence, self.restores = history.evidence, self.restores + 1
            # a server whose versions are no numbers in order is not read in a loop
            if await wait_for_event(stop, 0.0 if self.restores == 1 else _AFTER_RESTORE):
                return
            history.reset_history()
            self._create_controllers()

    async def _run_until_restore(self, stop: asyncio.Event) -> bool:
        """Work until `stop` is set, or until the cluster is another one: True."""
        following = asyncio.ensure_future(self._run_informers())
        working = asyncio.ensure_future(self._run_controllers())
        stopping = asyncio.ensure_future(stop.wait())
        restored = asyncio.ensure_future(self._client.history.replaced.wait())
        tasks = (following, working, stopping, restored)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._drain_controllers(working)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in (following, working):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return not stop.is_set() and self._client.history.replaced.is_set()

    async def _drain_controllers(self, working: "asyncio.Future[None]") -> None:
        _log.info("stopping", **{name: controller.queue.working for name, controller in self.controllers.items()})
        for controller in self.controllers.values():
            controller.queue.close()
        if self.working:
            await asyncio.wait((working,), timeout=DRAIN)

    async def _run_informers(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            group.create_task(self.settings.run())
            group.create_task(self._poll_server_version())
            recorder = self._create_recorder(self._client)
            group.create_task(recorder.run())
            group.create_task(self.rights.run(recorder))

    async def _poll_server_version(self) -> None:
        """Ask for the server's version: there may be no lease, or none that was renewed since the copy that is restored."""
        while True:
            try:
                await self._client.read_resource_version(CONFIG_MAPS, self._options.namespace)
            except ApiError as error:
                _log.info("version not read", error=str(error))
            await asyncio.sleep(_OBSERVE_HISTORY)

    async def _run_controllers(self) -> None:
        await self.settings.begun.wait()
        self._owner = await self._identify_owner()
        async with asyncio.TaskGroup() as group:
            beginning = group.create_task(self._begin_controllers())
            await self._work_when_ready()
            beginning.cancel()

    async def _begin_controllers(self) -> None:
        """Begin each controller once the kinds that it reads were read. A refused one keeps its own controllers alone."""
        reflectors = self.informers.reflectors

        async def begin(name: str) -> None:
            for number in self._kinds[name]:
                await reflectors[number].decided.wait()
            if refused := [reflectors[number] for number in self._kinds[name] if not reflectors[number].synced.is_set()]:
                self._decided[name] = False
                kinds = sorted({item.resource.kind for item in refused})
                _log.warning("controller waits", controller=name, kinds=kinds, error=refused[0].refusal)
                self._changed_decisions.set()
                for reflector in refused:
                    await reflector.synced.wait()
                _log.info("controller begins", controller=name)
            self.controllers[name].subscribe()
            self._decided[name] = True
            self._changed_decisions.set()

        async with asyncio.TaskGroup() as group:
            for name in self.controllers:
                group.create_task(begin(name))

    async def _work_when_ready(self) -> None:
        """Wait until each controller has begun, or waits for a right, and work."""
        while len(self._decided) < len(self.controllers):
            self._changed_decisions.clear()
            await self._changed_decisions.wait()
        _log.info("ready", instances=len(self.informers.windows_instances), nodes=len(self.informers.nodes))
        if self._options.leader_elect:
            await self.election.run(self._work_for_term)
        else:
            await self._run_workers(
                Leadership(self._client, self._create_recorder(self._client), lambda: math.inf, self._owner)
            )

    async def _work_for_term(self, term: LeaseTerm) -> None:
        client = self._client.with_permit(term.get_remaining)
        owner = msgspec.structs.replace(self._owner, generation=term.generation)
        await self._run_workers(Leadership(client, self._create_recorder(client), term.get_remaining, owner))

    def _create_recorder(self, client: Client) -> EventRecorder:
        return EventRecorder(client, instance=self.identity)

    async def _run_workers(self, leadership: Leadership) -> None:
        """Workers for each controller until their queues are closed. Raises LeaseLost."""
        self._in_flight_hosts.reset()
        telling = asyncio.ensure_future(leadership.recorder.run())
        self._teller = leadership.recorder
        for kind, malformed in self.informers.iter_malformed():
            self._record_malformed_event(kind, malformed)
        self._record_restore_event(leadership)
        workers = [
            asyncio.ensure_future(run_workers(controller, leadership, self._options.workers, partial(self._trace, name)))
            for name, controller in self.controllers.items()
        ]
        all_workers = asyncio.gather(*workers)
        olm = asyncio.ensure_future(self._update_operator_condition(leadership))
        self.working = True
        try:
            await asyncio.wait((all_workers, telling), return_when=asyncio.FIRST_COMPLETED)
            if all_workers.done():
                all_workers.result()
                await leadership.recorder.drain()
            else:
                telling.result()
        finally:
            self.working = False
            self._teller = None
            self.dropped_events += leadership.recorder.dropped
            for task in (*workers, telling, olm):
                task.cancel()
            await asyncio.gather(*workers, telling, olm, all_workers, return_exceptions=True)

    async def _update_operator_condition(self, leadership: Leadership) -> None:
        if name := self._options.operator_condition:
            await operator_condition.sync_operator_condition(
                name, self._options.namespace, self._list_rollouts, leadership, self._now
            )

    def _list_rollouts(self) -> set[Rollouts]:
        """Every kind of change to hosts, of all controllers."""
        controllers = (controller for controller in self.controllers.values() if isinstance(controller, HostReconciler))
        return {rollouts for controller in controllers for rollouts in controller.rollouts}

    def _record_malformed_event(self, kind: str, malformed: MalformedObject) -> None:
        """In Transom's own namespace: in a tenant's it may tell nothing."""
        if self._teller is None:
            return
        named = malformed.metadata.metadata
        regarding = Regarding(LEASES.api_version, LEASES.kind, "transom", self._options.namespace)
        place = "/".join(filter(None, (named.namespace, named.name)))
        self._teller.record_warning(regarding, "ObjectMalformed", f"{kind} {place}: {malformed.problem}")

    def _record_restore_event(self, leadership: Leadership) -> None:
        if evidence := self._restore_evidence:
            self._restore_evidence = ""
            regarding = Regarding(LEASES.api_version, LEASES.kind, "transom", self._options.namespace)
            message = f"{evidence}: as after a restore of etcd, Transom read all objects again and checks every host"
            leadership.recorder.record_warning(regarding, "ClusterRestored", message)

    async def _identify_owner(self) -> Owner:
        """Return the owner of this cluster's objects, the same after each restart."""
        try:
            namespace = await self._client.get(NAMESPACES, self._options.namespace)
        except ApiError as error:
            _log.warning("the namespace cannot be read", error=str(error))
            namespace = None
        if namespace is not None and namespace.metadata.uid:
            return owner.build_operator_owner(self._options.namespace, namespace.metadata.uid, self._host_name)
        # under another name than that of its other lives it would refuse every host
        unnamed = owner.build_operator_owner(self._options.namespace, self._client.connection.server, self._host_name)
        return msgspec.structs.replace(unnamed, manager="")
