"""The services that the controller of a lifecycle, its works and the removal of hosts share."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from transom.apply.target import Target
from transom.controllers.hosts.check_schedule import CheckSchedule
from transom.controllers.hosts.host_work import HostSession
from transom.controllers.hosts.instance_reader import InstanceReader
from transom.controllers.hosts.settings_stage import SettingsStage
from transom.controllers.hosts.status_writer import StatusWriter
from transom.controllers.instance_state.instance_writes import Finalizers
from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.instance_state.view import InstanceView, StatusHostKeys
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.host_rollout import HostRollout
from transom.controllers.rollout.passed_settings import PassedSettings
from transom.controllers.rollout.resume_annotation import ResumeAnnotation
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached_objects import ADOPT
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import Options
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue
from transom.kube.store import ObjectKey

Observe = Callable[[PassResult], None]


class HostServices:
    """The services of one controller of hosts."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        *,
        options: Options,
        observe: Observe,
        rollouts: Rollouts,
        resume_annotation: ResumeAnnotation,
        keys: KeyRotation,
        identities: NodeIdentities,
        now: Callable[[], datetime],
        check_interval: float,
    ) -> None:
        """`rollouts` are those of settings; `check_interval` is the average number of seconds between two checks of a host."""
        self.informers, self.settings, self.pace = informers, settings, options.pace
        self.observe, self.now = observe, now
        self.rollouts, self.resume_annotation, self.keys, self.identities = rollouts, resume_annotation, keys, identities
        self.require_host_keys = options.require_host_keys
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self.hash_key = HashKey(informers)
        self.schedule = CheckSchedule(check_interval, now)
        self.reader = InstanceReader(informers, settings, keys, identities)
        self.status = StatusWriter(informers, settings, self.reader, self.hash_key, now)
        self.heartbeats = Heartbeats(informers.nodes)
        self.host_rollout = HostRollout(
            self.heartbeats,
            self.queue,
            self.hash_key,
            lambda view: identities.get_node(view.identity),
            self.reader.refresh,
            self.status.write,
            rollouts.in_flight_hosts,
        )
        self.host_rollout.rollouts += (rollouts, keys.rollouts)
        self.settings_stage = SettingsStage(rollouts, self.host_rollout, PassedSettings(informers), self.schedule)
        self.finalizers = Finalizers(informers)

    async def resolve_identity(self, view: InstanceView, leadership: Leadership, reached: str = "") -> InstanceView:
        """Return the view with its Node, which is recorded before anything follows from it. Raises ApiError."""
        identity, instance = await self.identities.resolve_and_record(view.cached, leadership, reached=reached)
        return self.reader.with_identity(view, identity, instance)

    def start_session(self, view: InstanceView, target: Target, leadership: Leadership) -> HostSession:
        """Return the session for a pass on a host, which lasts while the lease is held."""

        async def keep(fingerprint: str) -> None:
            await self.status.keep_host_key(view, fingerprint, leadership)

        recorded = view.cached.live.host_key_fingerprint or None
        host_keys = StatusHostKeys(view.cached.metadata.name, recorded, keep, required=self.require_host_keys)
        adopts = (view.cached.metadata.annotations or {}).get(ADOPT) == "true"
        settings = PassSettings(
            leadership.owner,
            None,
            self.pace.timeouts,
            self.pace.patience,
            leadership.permit,
            (LeaseLost, ApiError),
            adopts=adopts,
        )
        return HostSession(view, target, host_keys, settings, leadership, partial(self.reader.find_foreign_node, view.cached))
