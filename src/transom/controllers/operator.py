"""The operator: stores, settings, controllers and workers put together, and a lease that says who works."""

import asyncio
import gc
import math
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Final

import msgspec
import structlog

from transom.controllers.certificates import CertificatesController
from transom.controllers.clusters.controller import ClustersController
from transom.controllers.egress.controller import EgressController
from transom.controllers.hosts import HostReconciler
from transom.controllers.hosts.proxy_only import EgressHosts
from transom.controllers.hosts.services import HostServices
from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.instances import InstancesController
from transom.controllers.instances.strays import StraysController
from transom.controllers.join import Members
from transom.controllers.keys import KeysController
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.machines.controller import MachinesController
from transom.controllers.nodes import NodeHosts
from transom.controllers.nodes.services import NodeServices
from transom.controllers.pods import PodsController
from transom.controllers.propagation import PropagationController
from transom.controllers.rollout import operator_condition
from transom.controllers.rollout.begun_hosts import BegunHosts
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.rollout.subjects import Resumption, settings_of
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Controller, Leadership, work
from transom.controllers.runtime.informers import Informers, machines
from transom.controllers.runtime.options import Options
from transom.controllers.runtime.settings import CurrentSettings
from transom.controllers.userdata import UserDataController
from transom.hosts import owner
from transom.hosts.owner import Owner
from transom.hosts.passes import PassResult
from transom.kube import ApiError
from transom.kube.client import Client
from transom.kube.events import EventRecorder, Regarding
from transom.kube.lease import Holding, LeaseElection
from transom.kube.reading import Malformed
from transom.kube.resources import LEASES, NAMESPACES
from transom.kube.store import ObjectKey
from transom.manifests.workloads import GRACE

_log: Final = structlog.get_logger("transom.operator")


@dataclass(frozen=True)
class Dependencies:
    """What a controller is made from. It says what else it has to see by `informers.watch`, when it is made."""

    informers: Informers
    settings: CurrentSettings
    options: Options
    observe: Callable[[PassResult], None]
    """Told of each pass on a host, for the metrics."""
    now: Callable[[], datetime]
    reports: ConditionAggregator
    """What each controller says of an EgressProxy."""

    @cached_property
    def members(self) -> Members:
        """The hosts that Transom joins; several controllers know them."""
        return Members(self.informers, self.identities, self.now)

    @cached_property
    def identities(self) -> NodeIdentities:
        """Which Node is whose; everything that asks is answered by it."""
        chosen = self.options.controllers
        joins = chosen is None or not {"certificates", "nodes"}.isdisjoint(chosen)
        return NodeIdentities(self.informers, self.settings, machines(self.informers) if joins else None)

    @cached_property
    def resumption(self) -> Resumption:
        """The word by which a person has halted rollouts go on."""
        return Resumption(self.informers)

    @cached_property
    def begun(self) -> BegunHosts:
        """Which hosts were begun, of whatever is on its way to many."""
        return BegunHosts(self.informers)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Whose turn it is to get other settings, of all Windows hosts."""
        return settings_of(self.informers, self.settings, self.reports, self.resumption, self.begun)

    @cached_property
    def keys(self) -> KeyRotation:
        """Which SSH keys open which Windows host."""
        return KeyRotation(self.informers, self.reports, self.resumption, self.begun)

    def host_services(self, check_interval: float) -> HostServices:
        """What one controller of hosts works with."""
        return HostServices(
            self.informers,
            self.settings,
            options=self.options,
            observe=self.observe,
            rollouts=self.rollouts,
            resumption=self.resumption,
            keys=self.keys,
            identities=self.identities,
            now=self.now,
            check_interval=check_interval,
        )

    def node_services(self) -> NodeServices:
        """What the controller of nodes works with: what has a payload is looked at more often."""
        pace = self.options.pace
        interval = pace.check_interval if self.options.payload is None else min(pace.check_interval, pace.node_check)
        services = self.host_services(interval)
        return NodeServices(services, options=self.options, reports=self.reports, members=self.members)


ControllerFactory = Callable[[Dependencies], Controller]
CONTROLLERS: Final[Mapping[str, ControllerFactory]] = {
    "egress": lambda on: EgressController(
        on.informers, on.settings, system_ca_file=on.options.system_ca_file, reports=on.reports, now=on.now
    ),
    "hosts": lambda on: HostReconciler(on.host_services(on.options.pace.check_interval), EgressHosts()),
    "clusters": lambda on: ClustersController(on.informers, on.settings, on.reports),
    "machines": lambda on: MachinesController(on.informers, on.settings, on.reports, now=on.now),
    "propagation": lambda on: PropagationController(on.informers, on.settings, on.reports),
    "instances": lambda on: InstancesController(on.informers),
    "strays": lambda on: StraysController(on.informers, now=on.now),
    "userdata": lambda on: UserDataController(on.informers, on.settings, openssh_msi=on.options.openssh_msi),
    "certificates": lambda on: CertificatesController(on.informers, on.settings, on.members),
    "nodes": lambda on: HostReconciler((nodes := on.node_services()).on, NodeHosts(nodes)),
    "keys": lambda on: KeysController(on.informers, on.keys, pace=on.options.pace, now=on.now),
    "pods": lambda on: PodsController(on.informers, on.settings, on.reports, system_ca_file=on.options.system_ca_file),
}
"""The controllers by name. What each may do in a cluster is in `transom.manifests.roles`, by the same names."""
DRAIN: Final = GRACE - 10.0
"""Seconds that passes may take after SIGTERM; what is left is for the lease and the last events."""
COLLECTED: Final = (5_000, 2, 5)
"""`gc.set_threshold` while hosts are worked on: with ten times as much, megabytes wait, and a search takes 30 to 80 ms."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Operator:
    """One process. `run` works until it is told to stop."""

    def __init__(
        self,
        client: Client,
        options: Options,
        observe: Callable[[PassResult], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        trace: Callable[[str, ObjectKey], AbstractContextManager[object]] = lambda _, __: nullcontext(),
    ) -> None:
        """`observe` is told of each pass on a host; `trace` lasts as long as that controller works on that key."""
        self._trace = trace
        self._client = client
        self._options, self._now = options, now
        self._host_name = _OTHER.sub("-", socket.gethostname()) or "transom"
        self.identity = f"{self._host_name}_{secrets.token_hex(4)}"
        self.informers = Informers(client, options.namespace, options.reflector)
        self.settings = CurrentSettings(self.informers, client.connection.server, now)
        made = Dependencies(self.informers, self.settings, options, observe, now, ConditionAggregator())
        self.controllers: dict[str, Controller] = {
            name: make(made) for name, make in CONTROLLERS.items() if options.controllers is None or name in options.controllers
        }
        """Those that were asked for."""
        self.election = LeaseElection(client, options.namespace, self.identity, terms=options.terms, now=now)
        self._owner = Owner("transom-operator", self._host_name)
        self._begun_hosts = made.begun
        self._teller: EventRecorder | None = None
        self.informers.on_malformed = self._tell_malformed
        self.dropped_events = 0
        self.working = False
        """Whether this process works: it holds the lease, or there is no election."""

    @property
    def ready(self) -> bool:
        """Whether everything has been read that decisions are made from. A standby is ready, too."""
        return self.settings.begun.is_set()

    @property
    def check_interval(self) -> float:
        """Seconds between two checks of one host."""
        return self._options.pace.check_interval

    @property
    def answers(self) -> Mapping[str, int]:
        """How often the API server answered how: by HTTP status, `none` for no answer."""
        return self._client.connection.answers

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then what was begun is ended in order, and the lease is given back."""
        following = asyncio.ensure_future(self._follow())
        working = asyncio.ensure_future(self._lead())
        stopping = asyncio.ensure_future(stop.wait())
        tasks = (following, working, stopping)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._drain(working)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in (following, working):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _drain(self, working: "asyncio.Future[None]") -> None:
        _log.info("stopping", **{name: controller.queue.working for name, controller in self.controllers.items()})
        for controller in self.controllers.values():
            controller.queue.close()
        if self.working:
            await asyncio.wait((working,), timeout=DRAIN)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            group.create_task(self.settings.run())

    async def _lead(self) -> None:
        await self.settings.begun.wait()
        self._owner = await self._who()
        for controller in self.controllers.values():
            controller.begin()
        # what was read lasts: the collector need not look through it again and again
        gc.collect()
        gc.freeze()
        # a connection to a host leaves hundreds of objects that refer to each other
        gc.set_threshold(*COLLECTED)
        _log.info("ready", instances=len(self.informers.windows_instances), nodes=len(self.informers.nodes))
        if self._options.leader_elect:
            await self.election.run(self._serve_term)
        else:
            await self._work(Leadership(self._client, self._recorder(self._client), lambda: math.inf, self._owner))

    async def _serve_term(self, holding: Holding) -> None:
        client = self._client.guarded(holding.remaining)
        owner = msgspec.structs.replace(self._owner, generation=holding.generation)
        await self._work(Leadership(client, self._recorder(client), holding.remaining, owner))

    def _recorder(self, client: Client) -> EventRecorder:
        return EventRecorder(client, instance=self.identity)

    async def _work(self, leadership: Leadership) -> None:
        """Workers for each controller until their queues are closed. Raises LeaseLost."""
        self._begun_hosts.forget()
        telling = asyncio.ensure_future(leadership.recorder.run())
        self._teller = leadership.recorder
        for kind, malformed in self.informers.malformed():
            self._tell_malformed(kind, malformed)
        workers = [
            asyncio.ensure_future(work(controller, leadership, self._options.workers, partial(self._trace, name)))
            for name, controller in self.controllers.items()
        ]
        all_workers = asyncio.gather(*workers)
        olm = asyncio.ensure_future(self._tell_olm(leadership))
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

    async def _tell_olm(self, leadership: Leadership) -> None:
        if name := self._options.operator_condition:
            await operator_condition.tell(name, self._options.namespace, self._rollouts, leadership, self._now)

    def _rollouts(self) -> set[Rollouts]:
        """Every kind of change to hosts, of all controllers."""
        controllers = (one for one in self.controllers.values() if isinstance(one, HostReconciler))
        return {rollouts for controller in controllers for rollouts in controller.rollouts}

    def _tell_malformed(self, kind: str, malformed: Malformed) -> None:
        """In Transom's own namespace: in a tenant's it may tell nothing."""
        if self._teller is None:
            return
        named = malformed.metadata.metadata
        regarding = Regarding(LEASES.api_version, LEASES.kind, "transom", self._options.namespace)
        place = "/".join(filter(None, (named.namespace, named.name)))
        self._teller.warning(regarding, "ObjectMalformed", f"{kind} {place}: {malformed.problem}")

    async def _who(self) -> Owner:
        """The operator of this cluster, over all its lives."""
        try:
            found = await self._client.get(NAMESPACES, self._options.namespace)
        except ApiError as error:
            _log.warning("the namespace cannot be read", error=str(error))
            found = None
        if found is not None and found.metadata.uid:
            return owner.operator(self._options.namespace, found.metadata.uid, self._host_name)
        # under another name than that of its other lives it would refuse every host
        unnamed = owner.operator(self._options.namespace, self._client.connection.server, self._host_name)
        return msgspec.structs.replace(unnamed, manager="")
