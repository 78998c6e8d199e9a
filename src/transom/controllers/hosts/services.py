"""What the hosts of one lifecycle are worked on with: their controller, its works and the way out share it."""

from collections.abc import Callable
from datetime import datetime

from transom.apply.target import Target
from transom.controllers.hosts.reader import InstanceReader
from transom.controllers.hosts.settings_turns import CheckSchedule, SettingsTurns
from transom.controllers.hosts.status_writer import StatusWriter
from transom.controllers.hosts.work import HostSession
from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.instance.view import InstanceView, StatusKeys
from transom.controllers.instance.writes import Finalizers
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.host_turns import HostTurns
from transom.controllers.rollout.passed_settings import PassedSettings
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.rollout.subjects import Resumption
from transom.controllers.runtime.cached import ADOPT
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import Options
from transom.controllers.runtime.settings import CurrentSettings
from transom.hosts.passes import PassResult, PassSettings
from transom.kube import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue
from transom.kube.store import ObjectKey

Observe = Callable[[PassResult], None]


class HostServices:
    """Made once for each controller of hosts."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        *,
        options: Options,
        observe: Observe,
        rollouts: Rollouts,
        resumption: Resumption,
        keys: KeyRotation,
        identities: NodeIdentities,
        now: Callable[[], datetime],
        check_interval: float,
    ) -> None:
        """`rollouts` are those of settings, `check_interval` the seconds between two checks of a host, on average."""
        self.informers, self.settings, self.pace = informers, settings, options.pace
        self.observe, self.now = observe, now
        self.rollouts, self.resumption, self.keys, self.identities = rollouts, resumption, keys, identities
        self.require_host_keys = options.require_host_keys
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self.hash_key = HashKey(informers)
        self.schedule = CheckSchedule(check_interval, now)
        self.cases = InstanceReader(informers, settings, keys, identities)
        self.status = StatusWriter(informers, settings, self.cases, self.hash_key, now)
        self.heartbeats = Heartbeats(informers.nodes)
        self.turns = HostTurns(
            self.heartbeats,
            self.queue,
            self.hash_key,
            lambda case: identities.node(case.identity),
            self.cases.current,
            self.status.write,
            rollouts.begun_hosts,
        )
        self.turns.rollouts += (rollouts, keys.rollouts)
        self.settings_turns = SettingsTurns(rollouts, self.turns, PassedSettings(informers), self.schedule)
        self.finalizers = Finalizers(informers)

    async def identified(self, case: InstanceView, leadership: Leadership, reached: str = "") -> InstanceView:
        """The case with its Node, which is recorded before anything follows from it. Raises ApiError."""
        identity, cached = await self.identities.settle(case.cached, leadership, reached=reached)
        return self.cases.identified(case, identity, cached)

    def session(self, case: InstanceView, target: Target, leadership: Leadership) -> HostSession:
        """A visit to the host of a case, while the lease is held."""

        async def keep(fingerprint: str) -> None:
            await self.status.keep_host_key(case, fingerprint, leadership)

        recorded = case.cached.live.host_key_fingerprint or None
        host_keys = StatusKeys(case.cached.metadata.name, recorded, keep, required=self.require_host_keys)
        adopts = (case.cached.metadata.annotations or {}).get(ADOPT) == "true"
        settings = PassSettings(
            leadership.owner,
            None,
            self.pace.timeouts,
            self.pace.patience,
            leadership.permit,
            (LeaseLost, ApiError),
            adopts=adopts,
        )
        return HostSession(case, target, host_keys, settings, leadership, lambda *of: self.cases.managed(case.cached, *of))
