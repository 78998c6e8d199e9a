"""The operator: stores, settings, controllers and workers put together, and a lease that says who works."""

import asyncio
import gc
import hashlib
import math
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from transom.controllers.controller import Controller, Maker, Surroundings
from transom.controllers.egress.controller import EgressController
from transom.controllers.fleet.controller import FleetController
from transom.controllers.fleet.machines import ClusterMachinesController
from transom.controllers.fleet.propagation import PropagationController
from transom.controllers.options import Options
from transom.controllers.pods import PodsController
from transom.controllers.reports import Reports
from transom.controllers.settings import CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.certificates import CertificatesController
from transom.controllers.windows.controller import WindowsController
from transom.controllers.windows.instances import InstancesController
from transom.controllers.windows.keys import KeysController
from transom.controllers.windows.nodes import NodesController
from transom.controllers.windows.user_data import UserDataController
from transom.controllers.workers import work
from transom.hosts.owner import Owner
from transom.hosts.passes import PassResult
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder
from transom.kube.lease import Holding, LeaseElection
from transom.kube.resources import NAMESPACES
from transom.manifests.workloads import GRACE

_log: Final = structlog.get_logger("transom.operator")
CONTROLLERS: Final[Mapping[str, Maker]] = {
    "egress": lambda on: EgressController(
        on.watched, on.settings, system_ca_file=on.options.system_ca_file, reports=on.reports, now=on.now
    ),
    "hosts": lambda on: WindowsController(
        on.watched, on.settings, pace=on.options.pace, observe=on.observe, rollouts=on.rollouts, keys=on.keys, now=on.now
    ),
    "clusters": FleetController,
    "machines": ClusterMachinesController,
    "propagation": PropagationController,
    "instances": lambda on: InstancesController(on.watched),
    "userdata": lambda on: UserDataController(on.watched, on.settings, openssh_msi=on.options.openssh_msi),
    "certificates": lambda on: CertificatesController(on.watched, on.members),
    "nodes": NodesController,
    "keys": KeysController,
    "pods": lambda on: PodsController(on.watched, on.settings, on.reports, system_ca_file=on.options.system_ca_file),
}
"""The controllers by name. What each may do in a cluster is in `transom.manifests.roles`, by the same names."""
DRAIN: Final = GRACE - 10.0
"""Seconds that passes may take after SIGTERM; what is left is for the lease and the last events."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Operator:
    """One process. `run` works until it is told to stop."""

    def __init__(
        self,
        client: Client,
        options: Options,
        observe: Callable[[PassResult], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._options = options
        self._host_name = _OTHER.sub("-", socket.gethostname()) or "transom"
        self.identity = f"{self._host_name}_{secrets.token_hex(4)}"
        self.watched = Watched(client, options.namespace, options.reflector)
        self.settings = CurrentSettings(self.watched, client.connection.server, now)
        made = Surroundings(self.watched, self.settings, options, observe, now, Reports())
        self.controllers: dict[str, Controller] = {
            name: make(made) for name, make in CONTROLLERS.items() if options.controllers is None or name in options.controllers
        }
        """Those that were asked for."""
        self.election = LeaseElection(client, options.namespace, self.identity, terms=options.terms, now=now)
        self._owner = Owner("transom-operator", self._host_name)
        self.dropped_events = 0
        self.working = False
        """Whether this process works: it holds the lease, or there is no election."""

    @property
    def ready(self) -> bool:
        """Whether everything has been read that decisions are made from. A standby is ready, too."""
        return self.settings.begun.is_set()

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
            group.create_task(self.watched.run())
            group.create_task(self.settings.run())

    async def _lead(self) -> None:
        await self.settings.begun.wait()
        self._owner = await self._who()
        for controller in self.controllers.values():
            controller.begin()
        # what was read lasts: the collector need not look through it again and again
        gc.collect()
        gc.freeze()
        _log.info("ready", instances=len(self.watched.windows_instances), nodes=len(self.watched.nodes))
        if self._options.leader_elect:
            await self.election.run(self._serve_term)
        else:
            await self._work(Term(self._client, self._recorder(self._client), lambda: math.inf, self._owner))

    async def _serve_term(self, holding: Holding) -> None:
        client = self._client.guarded(holding.remaining)
        owner = msgspec.structs.replace(self._owner, generation=holding.generation)
        await self._work(Term(client, self._recorder(client), holding.remaining, owner))

    def _recorder(self, client: Client) -> EventRecorder:
        return EventRecorder(client, instance=self.identity)

    async def _work(self, term: Term) -> None:
        """Workers for each controller until their queues are closed. Raises LeaseLost."""
        telling = asyncio.ensure_future(term.recorder.run())
        workers = [
            asyncio.ensure_future(work(controller, term))
            for controller in self.controllers.values()
            for _ in range(self._options.workers)
        ]
        all_workers = asyncio.gather(*workers)
        self.working = True
        try:
            await asyncio.wait((all_workers, telling), return_when=asyncio.FIRST_COMPLETED)
            if all_workers.done():
                all_workers.result()
                await term.recorder.drain()
            else:
                telling.result()
        finally:
            self.working = False
            self.dropped_events += term.recorder.dropped
            for task in (*workers, telling):
                task.cancel()
            await asyncio.gather(*workers, telling, all_workers, return_exceptions=True)

    async def _who(self) -> Owner:
        """The operator of this cluster, over all its lives: what one replica left on a host, the next one may tidy up."""
        try:
            found = await self._client.get(NAMESPACES, self._options.namespace)
            unique = found.metadata.uid or self._client.connection.server
        except ApiError as error:
            _log.warning("the namespace cannot be read", error=str(error))
            unique = self._client.connection.server
        cluster = hashlib.sha256(unique.encode()).hexdigest()[:8]
        return Owner(f"transom-operator@{cluster}", self._host_name)
