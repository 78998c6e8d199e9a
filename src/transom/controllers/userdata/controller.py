"""The Secret `windows-user-data`: what new Windows machines of OpenShift run at their first boot."""

import asyncio
import base64
from typing import Final

import structlog

from transom.common.counting import format_first
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.informers import MACHINES, Informers, watch_machines
from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh.ssh_client import format_public_key
from transom.kube.apply import apply
from transom.kube.errors import NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import OPENSHIFT_PROXIES, SECRETS
from transom.kube.store import ObjectKey
from transom.proxy.secret import Secret
from transom.sources.objects import ObjectReader
from transom.windows.firstboot import UserData, build_user_data
from transom.windows.nodes.windows_instance import KEY

_log: Final = structlog.get_logger("transom.userdata")
PRIVATE_KEY: Final = "cloud-private-key"
NAME: Final = "windows-user-data"
MACHINE_API: Final = "openshift-machine-api"
CLUSTER_API: Final = "openshift-cluster-api"
_CHECK: Final = 600.0
_FEW: Final = 5
"""Certificates that an event names."""
_PAUSE: Final = 3.0
"""Seconds between two writes of one Secret: who else writes it, again and again, makes no work without end."""


class UserDataController:
    """Keys are the namespaces that the Secret is kept in."""

    def __init__(self, informers: Informers, settings: CurrentSettings, *, openssh_msi: str) -> None:
        self._informers = informers
        self._settings = settings
        self._openssh_msi = openssh_msi
        self._machines = watch_machines(informers)
        self._told: str | None = None
        self._written = [
            informers.watch(SECRETS, namespace, f"metadata.name={NAME}", optional=True, granted_with=OPENSHIFT_PROXIES.group)
            for namespace in (MACHINE_API, CLUSTER_API)
        ]
        self._last: dict[ObjectKey, float] = {}
        """When each was written (the event loop's clock)."""
        self._reported: dict[ObjectKey, tuple[tuple[str, str], ...]] = {}
        """Reason and message of what was last reported on each."""
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.secrets.subscribe(lambda name, _, __: self._enqueue_secrets() if name.name == PRIVATE_KEY else None)
        self._machines.subscribe(lambda _, before, __: self._enqueue_secrets() if before is None else None)
        self._settings.subscribe(self._on_settings_change)
        for store in self._written:
            store.subscribe(lambda name, *_: self.queue.add(name))
        self._enqueue_secrets()

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters:
            self._enqueue_secrets()

    def _enqueue_secrets(self) -> None:
        for namespace in (MACHINE_API, CLUSTER_API):
            self.queue.add(ObjectKey(namespace, NAME))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Keep one copy of the Secret. Raises ApiError."""
        line = self._read_public_key(leadership)
        egress = self._settings.own
        if line is None or egress is None:
            return Result()
        if self._informers.get_served_resource(MACHINES) is None:
            return Result(again=_CHECK)
        platform = self._settings.newest.networks.platform if self._settings.newest is not None else None
        made = build_user_data(line, egress, platform=platform.type if platform else "", openssh_msi=self._openssh_msi)
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
        self._report(key, made, leadership)
        return Result(again=_CHECK)

    def _report(self, key: ObjectKey, made: UserData, leadership: Leadership) -> None:
        """Report on the Secret what new machines cannot do, and which certificates they get later, once for each change."""
        messages = [("FirstBootBlocked", problem) for problem in made.problems]
        if made.left_out:
            listed = format_first((item.subject for item in made.left_out), _FEW)
            message = f"the user data has no room for {listed}: hosts get them with their first pass"
            messages.append(("CertificatesLeftOut", message))
        reported, self._reported[key] = self._reported.get(key, ()), tuple(messages)
        store = next(
            (store for store in self._written if store.take_snapshot().find_named(key.name, key.namespace) is not None), None
        )
        cached = store.take_snapshot().find_named(key.name, key.namespace) if store is not None else None
        uid = cached.metadata.uid if cached is not None else None
        for reason, message in messages:
            if (reason, message) not in reported:
                leadership.recorder.record_warning(Regarding("v1", "Secret", key.name, key.namespace, uid), reason, message)
                _log.warning("first boot limited", reason=reason, message=message, namespace=key.namespace)

    def _read_public_key(self, leadership: Leadership) -> str | None:
        """Return the public key; if there is none, an event reports why, once."""
        cached = self._informers.secrets.take_snapshot().find_named(PRIVATE_KEY, self._informers.namespace)
        problem: tuple[str, str] | None = None
        line = None
        text = _read_private_key(cached.value) if cached is not None else None
        if text is None:
            problem = "KeyMissing", f"Secret {PRIVATE_KEY} with the SSH key as `{KEY}` is missing: Transom connects to no host"
        else:
            try:
                line = format_public_key(text)
            except KeyUnusable as error:
                problem = "KeyInvalid", f"Secret {PRIVATE_KEY}: {error}; no host can be connected to with it"
        needed = len(self._informers.windows_instances) or len(self._machines)
        if problem is not None and needed and problem[1] != self._told:
            uid = cached.metadata.uid if cached is not None else None
            leadership.recorder.record_warning(Regarding("v1", "Secret", PRIVATE_KEY, self._informers.namespace, uid), *problem)
            _log.warning("no key", reason=problem[0], message=problem[1])
        self._told = problem[1] if problem else None
        return line


def _read_private_key(value: dict[str, object]) -> Secret | None:
    """Return the private key in a Secret."""
    reader = ObjectReader("")
    reader.add({"apiVersion": "v1", "kind": "Secret", **value}, "", lambda _: (0, 0))
    secret = next(iter(reader.build_objects().secrets.values()), None)
    return secret.data.get(KEY) if secret else None
