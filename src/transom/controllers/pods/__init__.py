"""What injected pods refer to: the Secret with the URLs and the ConfigMap with the CAs, in the namespaces that need them.

One key more is the registration: whether new pods are asked about, and answered.

No Secret of another namespace is listed or watched. A ledger of ours says where one is and what it holds: a Secret with an
entry for each namespace. The entry is written before the Secret of its namespace, and taken out after that one is gone.
"""

import base64
import hashlib
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.egress.bundles import BundleText
from transom.controllers.pods import registered
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import Cluster, CurrentSettings
from transom.kube import Conflict, NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.objects import BundleHolder, Namespace, ObjectMeta, Projected, Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES, LABELLED_NAMESPACES, REGISTRATIONS, SECRETS, Resource
from transom.kube.store import ObjectKey
from transom.pods.decision import INJECT_CA
from transom.pods.environment import CONFIG_MAP, LEDGER, MANAGED, NOTED, SECRET, PodEgress, config_map, ledger, of, secret
from transom.pods.registration import NAME
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.proxy.trust import SYSTEM_CA_FILE

_log: Final = structlog.get_logger("transom.pods")
CHECK: Final = 600.0
"""Seconds between two looks at a Secret that should be there."""
LOOK: Final = 15.0
"""Seconds between two calls of the admission server."""
_SETTLE: Final = 2.0
"""Seconds that the replicas have to register what has changed."""
_REGISTRATION: Final[ObjectKey] = ObjectKey(None, NAME)
_CONFLICTS_SHOWN: Final = 5
_PODS: Final = "pods"


class _PodMeta(Projected, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _LabelledPod(Projected, frozen=True):
    metadata: _PodMeta = _PodMeta()


_LABELLED_PODS: Final = Resource("", "v1", "Pod", "pods", True, _LabelledPod)


def _namespace_of(pod: _LabelledPod) -> Iterable[str]:
    yield pod.metadata.namespace or ""


class PodsController:
    """Keys are the objects: (namespace, `transom-egress`), (namespace, `transom-egress-ca`), and the ledger itself."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        reports: ConditionAggregator,
        *,
        system_ca_file: str = SYSTEM_CA_FILE,
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._reports = reports
        self._texts = BundleText(system_ca_file)
        self._namespaces = informers.watch(LABELLED_NAMESPACES)
        self._labelled = informers.watch(_LABELLED_PODS, labels=f"{INJECT_CA}=true", indexes={"namespace": _namespace_of})
        self._config_maps = informers.watch(BUNDLE_HOLDERS, fields=f"metadata.name={CONFIG_MAP}")
        self._registrations = informers.watch(REGISTRATIONS, fields=f"metadata.name={NAME}")
        self._injected: Condition | None = None
        self._ledger: ObjectKey = ObjectKey(informers.namespace, LEDGER)
        self._pending: dict[str, bytes | None] = {}
        self._leadership: Leadership | None = None
        self._conflicts: dict[ObjectKey, str] = {}
        self._checked: dict[str, float] = {}
        self._egress = PodEgress(informers.namespace)
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._compute()
        self._settings.subscribe(self._settings_changed)
        self._namespaces.subscribe(self._namespace_changed)
        self._labelled.subscribe(self._pod_changed)
        self._config_maps.subscribe(self._config_map_changed)
        self._informers.secrets.subscribe(self._secret_changed)
        self._registrations.subscribe(lambda _, __, ___: self._look_soon())
        for namespace in self._noted():
            self.queue.add(ObjectKey(namespace, SECRET), Priority.CHECK)

    # --- which object concerns which key

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters and self._compute():
            for cached in self._namespaces.snapshot():
                self._add(cached.metadata.name)
            for namespace in self._noted():
                self.queue.add(ObjectKey(namespace, SECRET))
            for name in self._config_maps.snapshot().names():
                self.queue.add(name)

    def _namespace_changed(self, name: ObjectKey, before: Namespace | None, after: Namespace | None) -> None:
        if before is None or after is None or before.labels != after.labels:
            self._add(name.name)

    def _pod_changed(self, name: ObjectKey, before: _LabelledPod | None, after: _LabelledPod | None) -> None:
        if before is None or after is None:
            self.queue.add(ObjectKey(name.namespace, CONFIG_MAP))

    def _config_map_changed(self, name: ObjectKey, before: BundleHolder | None, after: BundleHolder | None) -> None:
        if before is None or after is None or before.sha256 != after.sha256 or before.ours != after.ours:
            self.queue.add(name)

    def _secret_changed(self, name: ObjectKey, before: Whole | None, after: Whole | None) -> None:
        if name != self._ledger:
            return
        entries = _entries(after)
        for namespace in entries.keys() - _entries(before).keys():
            self.queue.add(ObjectKey(namespace, SECRET))
        for namespace, entry in list(self._pending.items()):
            if entries.get(namespace) == entry:
                del self._pending[namespace]
        for namespace in _entries(before).keys() - entries.keys():
            # also when somebody took it out of the ledger, or deleted that
            self.queue.add(ObjectKey(namespace, SECRET))

    def _add(self, namespace: str) -> None:
        self.queue.add(ObjectKey(namespace, SECRET))
        self.queue.add(ObjectKey(namespace, CONFIG_MAP))

    def _noted(self) -> dict[str, bytes]:
        """The ledger: as the server has it, with what is to be written into it."""
        merged: dict[str, bytes | None] = {**self._on_server(), **self._pending}
        return {namespace: entry for namespace, entry in merged.items() if entry is not None}

    def _on_server(self) -> dict[str, bytes]:
        return _entries(self._informers.secrets.snapshot().named(LEDGER, self._informers.namespace))

    def _note(self, namespace: str, entry: bytes | None) -> None:
        self._pending[namespace] = entry
        self.queue.add(self._ledger)

    def _compute(self) -> bool:
        """Whether pods get something else now, or the values in the Secret may be others."""
        own = self._settings.own
        if own is None:
            # there have been no valid settings since the start: what is there stays
            return False
        self._egress = of(own, self._informers.namespace, None, b"")
        if not self._called:
            self._injected = None
        self._report()
        self._look_soon()
        return True

    @property
    def _called(self) -> bool:
        """Whether the API server has something to ask that pods get."""
        return self._egress.gives and not self._egress.withheld

    def _look_soon(self) -> None:
        self.queue.add(_REGISTRATION, Priority.CHECK, after=_SETTLE)

    # --- one key

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring one object up to date. Raises ApiError."""
        if leadership is not self._leadership:
            # somebody else may have written in between
            self._leadership = leadership
            self._pending.clear()
            self._checked.clear()
        if key == _REGISTRATION:
            return await self._look()
        own = self._settings.own
        namespace, name = key
        if own is None or namespace is None:
            return Result()
        if key == self._ledger:
            await self._write_ledger(leadership)
            return Result()
        there = self._namespaces.snapshot().named(namespace)
        if there is None or there.metadata.deletion_timestamp is not None:
            # what is in it goes with it
            self._forget(key)
            return Result()
        if name == SECRET:
            return await self._secret(namespace, there.labels, own, leadership)
        return await self._config_map(namespace, there.labels, own, leadership)

    async def _look(self) -> Result:
        """Whether pods get what the settings say, as the API server and the admission server have it."""
        egress = self._egress
        if not self._called:
            return Result()
        live = self._registrations.snapshot().named(NAME)
        injected = await registered.condition(live.value if live else None, egress)
        if self._called:
            self._injected = injected
            self._report()
        return Result(again=LOOK)

    async def _secret(self, namespace: str, labels: Mapping[str, str], own: Egress, leadership: Leadership) -> Result:
        if not self._egress.secret_in(namespace, labels):
            if (
                namespace in self._noted()
                and (cached := await _stored(SECRETS, ObjectKey(namespace, SECRET), leadership)) is not None
            ):
                await self._remove(SECRETS, ObjectKey(namespace, SECRET), cached.metadata, leadership)
            self._forget(ObjectKey(namespace, SECRET))
            return Result()
        value = secret(namespace, own)
        data = value["data"]
        digest = hashlib.sha256(msgspec.json.encode(data)).hexdigest().encode()
        noted = self._noted().get(namespace)
        if noted is None or namespace not in self._on_server():
            # comes back when it stands there
            self._note(namespace, NOTED)
            return Result()
        now = time.monotonic()
        if noted == digest and now - self._checked.get(namespace, -CHECK) < CHECK - 1:
            return Result(again=CHECK)
        cached = await _stored(SECRETS, ObjectKey(namespace, SECRET), leadership)
        if cached is not None and not _ours(cached.metadata.labels):
            self._taken(ObjectKey(namespace, SECRET), "Secret", leadership)
            return Result(again=CHECK)
        if cached is None or cached.value.get("data") != data:
            await self._apply(SECRETS, value, leadership)
        self._released(ObjectKey(namespace, SECRET))
        self._checked[namespace] = now
        if noted != digest:
            self._note(namespace, digest)
        return Result(again=CHECK)

    async def _config_map(self, namespace: str, labels: Mapping[str, str], own: Egress, leadership: Leadership) -> Result:
        key = ObjectKey(namespace, CONFIG_MAP)
        cached = self._config_maps.snapshot().named(CONFIG_MAP, namespace)
        if not self._wants_ca(namespace, labels):
            if cached is not None:
                await self._remove(BUNDLE_HOLDERS, key, cached.metadata, leadership)
            self._released(key)
            return Result()
        if cached is not None and not _ours(cached.metadata.labels):
            self._taken(key, "ConfigMap", leadership)
            return Result()
        try:
            text, digest = self._texts.of(own.trust)
        except OSError as error:
            _log.error("the system's CAs cannot be read", file=self._texts.system_ca_file, error=error.strerror)  # said in full
            return Result(failed=True)
        if cached is None or cached.sha256 != digest or not cached.ours:
            await self._apply(BUNDLE_HOLDERS, config_map(namespace, text), leadership)
        self._released(key)
        return Result()

    def _wants_ca(self, namespace: str, labels: Mapping[str, str]) -> bool:
        asked = labels.get(INJECT_CA) == "true" or bool(self._labelled.snapshot().by("namespace", namespace))
        return self._egress.config_map_in(namespace, labels, asked=asked)

    # --- writing

    async def _write_ledger(self, leadership: Leadership) -> None:
        noted = self._noted()
        if noted == self._on_server():
            return
        await self._apply(SECRETS, ledger(self._informers.namespace, noted), leadership)

    async def _apply(self, resource: Resource[Any], value: dict[str, Any], leadership: Leadership) -> None:
        key = ObjectKey(value["metadata"]["namespace"], value["metadata"]["name"])
        try:
            await leadership.client.server_side_apply(resource, value, key.name, key.namespace)
        except StatusError as error:
            # a namespace that is about to go takes nothing any more
            if error.code != 404 and not (error.code == 403 and "being terminated" in str(error)):
                raise
            self._forget(key)
        else:
            _log.info("written", kind=value["kind"], name=key.name, namespace=key.namespace)

    async def _remove(self, resource: Resource[Any], key: ObjectKey, metadata: ObjectMeta, leadership: Leadership) -> None:
        if not _ours(metadata.labels):
            return
        try:
            await leadership.client.delete(resource, key.name, key.namespace, metadata.uid)
        except (NotFound, Conflict) as error:
            _log.info("gone already", name=key.name, namespace=key.namespace, error=str(error))
        else:
            _log.info("removed", kind=resource.kind, name=key.name, namespace=key.namespace)

    def _forget(self, key: ObjectKey) -> None:
        self._released(key)
        namespace, name = key
        if name == SECRET and namespace is not None:
            self._checked.pop(namespace, None)
            if namespace in self._noted():
                self._note(namespace, None)

    # --- what is said

    def _taken(self, key: ObjectKey, kind: str, leadership: Leadership) -> None:
        """Somebody else's object of our name: it is not touched."""
        if key not in self._conflicts:
            self._conflicts[key] = kind
            base = self._informers.egress_proxies.snapshot().named(BASE)
            uid = base.metadata.uid if base else None
            regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, BASE, None, uid)
            leadership.recorder.warning(regarding, "Conflict", _told(key, kind))
            self._report()

    def _released(self, key: ObjectKey) -> None:
        if self._conflicts.pop(key, None) is not None:
            self._report()

    def _report(self) -> None:
        egress = self._egress
        if egress.withheld:
            message = (
                "spec.pods.namespaceSelector: not set, and the proxy has credentials, which whoever reads Secrets in a"
                " namespace can read: pods get no proxy until it says which namespaces may have them"
            )
            injected = Condition("False", "NoNamespaceSelector", message)
        elif egress.gives:
            injected = self._injected or Condition("Unknown", "NotLooked", "the registration was not looked at yet")
        else:
            injected = Condition("True", "NotConfigured", "there are no settings for pods")
        conditions = {"PodsInjected": injected}
        if self._conflicts:
            told = [_told(key, kind) for key, kind in sorted(self._conflicts.items(), key=str)]
            rest = len(told) - _CONFLICTS_SHOWN
            message = "; ".join(told[:_CONFLICTS_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
            conditions["Conflict"] = Condition("True", "Taken", message)
        else:
            conditions["Conflict"] = Condition("False", "NoConflict", "no object for pods is somebody else's")
        self._reports.put(_PODS, {BASE: conditions})


def _told(key: ObjectKey, kind: str) -> str:
    return f"{kind} {key.namespace}/{key.name} is somebody else's: it is left alone, and pods of that namespace wait"


def _ours(labels: Mapping[str, str] | None) -> bool:
    return bool(labels) and all((labels or {}).get(name) == value for name, value in MANAGED.items())


def _entries(ledger: Whole | None) -> dict[str, bytes]:
    """The ledger's entries, by namespace."""
    data = (ledger.value.get("data") or {}) if ledger else {}
    return {namespace: base64.b64decode(entry) for namespace, entry in data.items()}


async def _stored(resource: Resource[Any], key: ObjectKey, leadership: Leadership) -> Any:
    try:
        return await leadership.client.get(resource, key.name, key.namespace)
    except NotFound:
        return None
