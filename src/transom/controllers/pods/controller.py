"""What injected pods refer to: the Secret with the URLs and the ConfigMap with the CAs, in the namespaces that need them.

One key more is the registration: whether new pods are asked about, and answered.

No Secret of another namespace is listed or watched. A ledger records where they are and what they hold: a Secret with an
entry for each namespace. The entry is written before the Secret of its namespace, and removed after that one is deleted.
"""

import base64
import hashlib
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.egress.bundles import BundleText
from transom.controllers.pods import webhook_check
from transom.controllers.pods.webhook_check import INJECTED, OLD_SETTINGS
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.objects import BundleConfigMap, Namespace, ObjectMeta, Projected, UnstructuredObject
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES, LABELLED_NAMESPACES, REGISTRATIONS, SECRETS, Resource
from transom.kube.store import ObjectKey
from transom.pods.decision import INJECT_CA
from transom.pods.environment import (
    CONFIG_MAP,
    LEDGER,
    MANAGED,
    NOTED,
    SECRET,
    PodEgress,
    build_config_map,
    build_ledger,
    build_pod_egress,
    build_secret,
    compute_fingerprint,
)
from transom.pods.webhook_configuration import NAME
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.proxy.trust import SYSTEM_CA_FILE

_log: Final = structlog.get_logger("transom.pods")
CHECK: Final = 600.0
"""Seconds between two looks at a Secret that should be there."""
LOOK: Final = 15.0
"""Seconds between two calls of the admission server."""
LATE: Final = 10.0
"""Seconds between two answers with older settings from which they are reported."""
_REMEMBERED: Final = 120.0
"""Seconds for which such an answer counts."""
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


def _index_namespace(pod: _LabelledPod) -> Iterable[str]:
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
        self._labelled = informers.watch(_LABELLED_PODS, labels=f"{INJECT_CA}=true", indexes={"namespace": _index_namespace})
        self._config_maps = informers.watch(BUNDLE_HOLDERS, fields=f"metadata.name={CONFIG_MAP}")
        self._registrations = informers.watch(REGISTRATIONS, fields=f"metadata.name={NAME}")
        self._injected: Condition | None = None
        self._old_answers: list[float] = []
        """When the admission server last answered with older settings."""
        self._ledger: ObjectKey = ObjectKey(informers.namespace, LEDGER)
        self._pending: dict[str, bytes | None] = {}
        self._leadership: Leadership | None = None
        self._conflicts: dict[ObjectKey, str] = {}
        self._checked: dict[str, float] = {}
        self._egress = PodEgress(informers.namespace)
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self._update_pod_egress()
        self._settings.subscribe(self._on_settings_change)
        self._namespaces.subscribe(self._on_namespace_change)
        self._labelled.subscribe(self._on_pod_change)
        self._config_maps.subscribe(self._on_config_map_change)
        self._informers.secrets.subscribe(self._on_secret_change)
        self._registrations.subscribe(lambda _, __, ___: self._schedule_registration_check())
        for namespace in self._get_ledger_entries():
            self.queue.add(ObjectKey(namespace, SECRET), Priority.CHECK)

    # --- which object concerns which key

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters and self._update_pod_egress():
            for cached in self._namespaces.take_snapshot():
                self._enqueue_namespace(cached.metadata.name)
            for namespace in self._get_ledger_entries():
                self.queue.add(ObjectKey(namespace, SECRET))
            for name in self._config_maps.take_snapshot().iter_keys():
                self.queue.add(name)

    def _on_namespace_change(self, name: ObjectKey, before: Namespace | None, after: Namespace | None) -> None:
        if before is None or after is None or before.labels != after.labels:
            self._enqueue_namespace(name.name)

    def _on_pod_change(self, name: ObjectKey, before: _LabelledPod | None, after: _LabelledPod | None) -> None:
        if before is None or after is None:
            self.queue.add(ObjectKey(name.namespace, CONFIG_MAP))

    def _on_config_map_change(self, name: ObjectKey, before: BundleConfigMap | None, after: BundleConfigMap | None) -> None:
        if before is None or after is None or before.sha256 != after.sha256 or before.ours != after.ours:
            self.queue.add(name)

    def _on_secret_change(self, name: ObjectKey, before: UnstructuredObject | None, after: UnstructuredObject | None) -> None:
        if name != self._ledger:
            return
        entries = _get_entries(after)
        for namespace in entries.keys() - _get_entries(before).keys():
            self.queue.add(ObjectKey(namespace, SECRET))
        for namespace, entry in list(self._pending.items()):
            if entries.get(namespace) == entry:
                del self._pending[namespace]
        for namespace in _get_entries(before).keys() - entries.keys():
            # also if it was removed from the ledger, or the ledger was deleted
            self.queue.add(ObjectKey(namespace, SECRET))

    def _enqueue_namespace(self, namespace: str) -> None:
        self.queue.add(ObjectKey(namespace, SECRET))
        self.queue.add(ObjectKey(namespace, CONFIG_MAP))

    def _get_ledger_entries(self) -> dict[str, bytes]:
        """Return the ledger as the server has it, with the entries that will be written."""
        merged: dict[str, bytes | None] = {**self._read_stored_entries(), **self._pending}
        return {namespace: entry for namespace, entry in merged.items() if entry is not None}

    def _read_stored_entries(self) -> dict[str, bytes]:
        return _get_entries(self._informers.secrets.take_snapshot().find_named(LEDGER, self._informers.namespace))

    def _record_ledger_entry(self, namespace: str, entry: bytes | None) -> None:
        self._pending[namespace] = entry
        self.queue.add(self._ledger)

    def _update_pod_egress(self) -> bool:
        """Compute what pods get. Return True if it changed or the values in the Secret may have."""
        own = self._settings.own
        if own is None:
            # there have been no valid settings since the start: what is there stays
            return False
        self._egress = build_pod_egress(own, self._informers.namespace, None, b"")
        self._old_answers.clear()
        if not self._needs_registration:
            self._injected = None
        self._report()
        self._schedule_registration_check()
        return True

    @property
    def _needs_registration(self) -> bool:
        """Whether the API server has something to ask that pods get."""
        return self._egress.has_pod_settings and not self._egress.withheld

    def _schedule_registration_check(self) -> None:
        self.queue.add(_REGISTRATION, Priority.CHECK, after=_SETTLE)

    # --- one key

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Update one object. Raises ApiError."""
        if leadership is not self._leadership:
            # another client may have written in between
            self._leadership = leadership
            self._pending.clear()
            self._checked.clear()
        if key == _REGISTRATION:
            return await self._check_registration()
        own = self._settings.own
        namespace, name = key
        if own is None or namespace is None:
            return Result()
        if key == self._ledger:
            await self._write_ledger(leadership)
            return Result()
        cached_namespace = self._namespaces.take_snapshot().find_named(namespace)
        if cached_namespace is None or cached_namespace.metadata.deletion_timestamp is not None:
            # what is in it goes with it
            self._forget(key)
            return Result()
        if name == SECRET:
            return await self._apply_secret(namespace, cached_namespace.labels, own, leadership)
        return await self._apply_config_map(namespace, cached_namespace.labels, own, leadership)

    async def _check_registration(self) -> Result:
        """Check whether pods get the settings, by the API server's registration and the admission server's answer."""
        live = self._registrations.take_snapshot().find_named(NAME)
        value = live.value if live else None
        if not self._needs_registration and not webhook_check.can_refuse_pods(value):
            self._injected = None
            self._report()
            return Result()
        own = self._settings.own
        fingerprint = compute_fingerprint(own, self._informers.namespace) if own is not None else ""
        condition = await webhook_check.build_pods_injected_condition(value, self._egress, fingerprint)
        if condition.reason in ("Injected", OLD_SETTINGS.reason):
            condition = self._judge_age(condition)
        self._injected = condition
        self._report()
        return Result(again=LOOK)

    def _judge_age(self, condition: Condition) -> Condition:
        """Return OLD_SETTINGS if answers have had older settings for a while: replicas may learn of an edit a little later.

        One call reaches one replica, so the answers of the others count for some time.
        """
        now = time.monotonic()
        self._old_answers = [when for when in self._old_answers if now - when < _REMEMBERED]
        if condition == OLD_SETTINGS:
            self._old_answers.append(now)
        if self._old_answers and self._old_answers[-1] - self._old_answers[0] >= LATE:
            return OLD_SETTINGS
        return condition if condition != OLD_SETTINGS else self._injected or INJECTED

    async def _apply_secret(
        self, namespace: str, labels: Mapping[str, str], own_egress: Egress, leadership: Leadership
    ) -> Result:
        if not self._egress.needs_secret(namespace, labels):
            if (
                namespace in self._get_ledger_entries()
                and (cached := await _read_object(SECRETS, ObjectKey(namespace, SECRET), leadership)) is not None
            ):
                await self._remove(SECRETS, ObjectKey(namespace, SECRET), cached.metadata, leadership)
            self._forget(ObjectKey(namespace, SECRET))
            return Result()
        value = build_secret(namespace, own_egress)
        data = value["data"]
        digest = hashlib.sha256(msgspec.json.encode(data)).hexdigest().encode()
        noted = self._get_ledger_entries().get(namespace)
        if noted is None or namespace not in self._read_stored_entries():
            # comes back when it stands there
            self._record_ledger_entry(namespace, NOTED)
            return Result()
        now = time.monotonic()
        if noted == digest and now - self._checked.get(namespace, -CHECK) < CHECK - 1:
            return Result(again=CHECK)
        cached = await _read_object(SECRETS, ObjectKey(namespace, SECRET), leadership)
        if cached is not None and not _has_own_labels(cached.metadata.labels):
            self._report_conflict(ObjectKey(namespace, SECRET), "Secret", leadership)
            return Result(again=CHECK)
        if cached is None or cached.value.get("data") != data:
            await self._apply(SECRETS, value, leadership)
        self._end_conflict(ObjectKey(namespace, SECRET))
        self._checked[namespace] = now
        if noted != digest:
            self._record_ledger_entry(namespace, digest)
        return Result(again=CHECK)

    async def _apply_config_map(
        self, namespace: str, labels: Mapping[str, str], own_egress: Egress, leadership: Leadership
    ) -> Result:
        key = ObjectKey(namespace, CONFIG_MAP)
        cached = self._config_maps.take_snapshot().find_named(CONFIG_MAP, namespace)
        if not self._needs_ca(namespace, labels):
            if cached is not None:
                await self._remove(BUNDLE_HOLDERS, key, cached.metadata, leadership)
            self._end_conflict(key)
            return Result()
        if cached is not None and not _has_own_labels(cached.metadata.labels):
            self._report_conflict(key, "ConfigMap", leadership)
            return Result()
        try:
            text, digest = self._texts.render(own_egress.trust)
        except OSError as error:
            _log.error("the system's CAs cannot be read", file=self._texts.system_ca_file, error=error.strerror)  # said in full
            return Result(failed=True)
        if cached is None or cached.sha256 != digest or not cached.ours:
            await self._apply(BUNDLE_HOLDERS, build_config_map(namespace, text), leadership)
        self._end_conflict(key)
        return Result()

    def _needs_ca(self, namespace: str, labels: Mapping[str, str]) -> bool:
        is_requested = labels.get(INJECT_CA) == "true" or bool(
            self._labelled.take_snapshot().list_by_index("namespace", namespace)
        )
        return self._egress.needs_config_map(namespace, labels, is_requested=is_requested)

    # --- writing

    async def _write_ledger(self, leadership: Leadership) -> None:
        noted = self._get_ledger_entries()
        if noted == self._read_stored_entries():
            return
        await self._apply(SECRETS, build_ledger(self._informers.namespace, noted), leadership)

    async def _apply(self, resource: Resource[Any], value: dict[str, Any], leadership: Leadership) -> None:
        key = ObjectKey(value["metadata"]["namespace"], value["metadata"]["name"])
        try:
            await leadership.client.apply(resource, value, key.name, key.namespace)
        except StatusError as error:
            # a namespace that is about to go takes nothing any more
            if error.code != 404 and not (error.code == 403 and "being terminated" in str(error)):
                raise
            self._forget(key)
        else:
            _log.info("written", kind=value["kind"], name=key.name, namespace=key.namespace)

    async def _remove(self, resource: Resource[Any], key: ObjectKey, metadata: ObjectMeta, leadership: Leadership) -> None:
        if not _has_own_labels(metadata.labels):
            return
        try:
            await leadership.client.delete(resource, key.name, key.namespace, metadata.uid)
        except (NotFound, Conflict) as error:
            _log.info("gone already", name=key.name, namespace=key.namespace, error=str(error))
        else:
            _log.info("removed", kind=resource.kind, name=key.name, namespace=key.namespace)

    def _forget(self, key: ObjectKey) -> None:
        self._end_conflict(key)
        namespace, name = key
        if name == SECRET and namespace is not None:
            self._checked.pop(namespace, None)
            if namespace in self._get_ledger_entries():
                self._record_ledger_entry(namespace, None)

    # --- what is said

    def _report_conflict(self, key: ObjectKey, kind: str, leadership: Leadership) -> None:
        """Report an object with our name and another owner. Transom does not change it."""
        if key not in self._conflicts:
            self._conflicts[key] = kind
            base = self._informers.egress_proxies.take_snapshot().find_named(BASE)
            uid = base.metadata.uid if base else None
            regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, BASE, None, uid)
            leadership.recorder.record_warning(regarding, "Conflict", _describe_conflict(key, kind))
            self._report()

    def _end_conflict(self, key: ObjectKey) -> None:
        if self._conflicts.pop(key, None) is not None:
            self._report()

    def _report(self) -> None:
        egress = self._egress
        if self._injected is not None and self._injected.reason == "PodsRefused":
            # also where the settings give pods nothing: the registration is still there
            injected = self._injected
        elif egress.withheld:
            message = (
                "spec.pods.namespaceSelector: not set, and the proxy has credentials, which users who can read Secrets in a"
                " namespace can see: pods get no proxy until it selects the namespaces that may have them"
            )
            injected = Condition("False", "NoNamespaceSelector", message)
        elif egress.has_pod_settings:
            injected = self._injected or Condition(
                "Unknown", "NotLooked", "Transom has not checked the webhook configuration yet"
            )
        else:
            injected = Condition("True", "NotConfigured", "no settings for pods exist")
        conditions = {"PodsInjected": injected}
        if self._conflicts:
            conflict_messages = [_describe_conflict(key, kind) for key, kind in sorted(self._conflicts.items(), key=str)]
            rest = len(conflict_messages) - _CONFLICTS_SHOWN
            message = "; ".join(conflict_messages[:_CONFLICTS_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
            conditions["Conflict"] = Condition("True", "Taken", message)
        else:
            conditions["Conflict"] = Condition("False", "NoConflict", "no conflicting object for pods")
        self._reports.set_conditions(_PODS, {BASE: conditions})


def _describe_conflict(key: ObjectKey, kind: str) -> str:
    return f"{kind} {key.namespace}/{key.name} is not managed by Transom and stays unchanged: pods of that namespace wait"


def _has_own_labels(labels: Mapping[str, str] | None) -> bool:
    return bool(labels) and all((labels or {}).get(name) == value for name, value in MANAGED.items())


def _get_entries(ledger: UnstructuredObject | None) -> dict[str, bytes]:
    """Return the ledger's entries by namespace."""
    data = (ledger.value.get("data") or {}) if ledger else {}
    return {namespace: base64.b64decode(entry) for namespace, entry in data.items()}


async def _read_object(resource: Resource[Any], key: ObjectKey, leadership: Leadership) -> Any:
    try:
        return await leadership.client.get(resource, key.name, key.namespace)
    except NotFound:
        return None
