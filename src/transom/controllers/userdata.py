"""The Secret `windows-user-data`: what new Windows machines of OpenShift run at their first boot."""

import asyncio
import base64
from typing import Final

import structlog

from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import MACHINES, Informers, machines
from transom.controllers.runtime.settings import Cluster, CurrentSettings
from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh import public_line
from transom.kube import NotFound, StatusError
from transom.kube.apply import apply
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import SECRETS
from transom.kube.store import ObjectKey
from transom.proxy.secret import Secret
from transom.sources.objects import ObjectReader
from transom.windows.firstboot import user_data
from transom.windows.nodes import KEY

_log: Final = structlog.get_logger("transom.userdata")
PRIVATE_KEY: Final = "cloud-private-key"
NAME: Final = "windows-user-data"
MACHINE_API: Final = "openshift-machine-api"
CLUSTER_API: Final = "openshift-cluster-api"
_CHECK: Final = 600.0
_PAUSE: Final = 3.0
"""Seconds between two writes of one Secret: who else writes it, again and again, makes no work without end."""


class UserDataController:
    """Keys are the namespaces that the Secret is kept in."""

    def __init__(self, informers: Informers, settings: CurrentSettings, *, openssh_msi: str) -> None:
        self._informers = informers
        self._settings = settings
        self._openssh_msi = openssh_msi
        self._machines = machines(informers)
        self._told: str | None = None
        self._written = [
            informers.watch(SECRETS, namespace, f"metadata.name={NAME}", optional=True)
            for namespace in (MACHINE_API, CLUSTER_API)
        ]
        self._last: dict[ObjectKey, float] = {}
        """When each was written (the event loop's clock)."""
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.secrets.subscribe(lambda name, _, __: self._ask() if name.name == PRIVATE_KEY else None)
        self._machines.subscribe(lambda _, before, __: self._ask() if before is None else None)
        self._settings.subscribe(self._settings_changed)
        for store in self._written:
            store.subscribe(lambda name, *_: self.queue.add(name))
        self._ask()

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters:
            self._ask()

    def _ask(self) -> None:
        for namespace in (MACHINE_API, CLUSTER_API):
            self.queue.add(ObjectKey(namespace, NAME))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Keep one copy of the Secret. Raises ApiError."""
        line = self._public_line(leadership)
        egress = self._settings.own
        if line is None or egress is None:
            return Result()
        if self._informers.served(MACHINES) is None:
            return Result(again=_CHECK)
        platform = self._settings.newest.networks.platform if self._settings.newest is not None else None
        made = user_data(line, egress, platform=platform.type if platform else "", openssh_msi=self._openssh_msi)
        data = {"userData": base64.b64encode(made.text.encode()).decode()}
        desired = {"metadata": {"name": NAME, "namespace": key.namespace}, "data": data, "type": "Opaque"}
        now = asyncio.get_running_loop().time()
        if (left := self._last.get(key, now - _PAUSE) + _PAUSE - now) > 0:
            return Result(again=left)
        try:
            changed = await apply(leadership.client, SECRETS, desired)
        except NotFound:
            # the namespace is not there
            return Result(again=_CHECK)
        except StatusError as error:
            if error.code != 403 or key.namespace != CLUSTER_API:
                raise
            # nothing may be read where the roles for OpenShift are not installed
            return Result(again=_CHECK)
        if changed:
            self._last[key] = now
            _log.info("user data written", namespace=key.namespace, left_out=len(made.left_out))
            for one in made.left_out[:5]:
                _log.warning("no room in user data", certificate=one.subject, namespace=key.namespace)
        return Result(again=_CHECK)

    def _public_line(self, leadership: Leadership) -> str | None:
        """The public key; where there is none, an event says why, once."""
        cached = self._informers.secrets.snapshot().named(PRIVATE_KEY, self._informers.namespace)
        problem: tuple[str, str] | None = None
        line = None
        text = _text(cached.value) if cached is not None else None
        if text is None:
            problem = "KeyMissing", f"Secret {PRIVATE_KEY} with the SSH key as `{KEY}` is missing: no host can be connected to"
        else:
            try:
                line = public_line(text)
            except KeyUnusable as error:
                problem = "KeyInvalid", f"Secret {PRIVATE_KEY}: {error}; no host can be connected to with it"
        needed = len(self._informers.windows_instances) or len(self._machines)
        if problem is not None and needed and problem[1] != self._told:
            uid = cached.metadata.uid if cached is not None else None
            leadership.recorder.warning(Regarding("v1", "Secret", PRIVATE_KEY, self._informers.namespace, uid), *problem)
            _log.warning("no key", reason=problem[0], message=problem[1])
        self._told = problem[1] if problem else None
        return line


def _text(value: dict[str, object]) -> Secret | None:
    """The private key in a Secret."""
    reader = ObjectReader("")
    reader.add({"apiVersion": "v1", "kind": "Secret", **value}, "", lambda _: (0, 0))
    found = next(iter(reader.objects().secrets.values()), None)
    return found.data.get(KEY) if found else None
