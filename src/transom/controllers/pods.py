"""What injected pods refer to: the Secret with the URLs and the ConfigMap with the CAs, in the namespaces that need them.

No Secret of another namespace is listed or watched. Where one is, and what it holds, is in a ledger of ours: a Secret with an
entry for each namespace, written before its Secret is, and taken out after that is gone.
"""

import base64
import hashlib
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.conditions import Verdict
from transom.controllers.controller import Outcome
from transom.controllers.egress.bundle_text import BundleText
from transom.controllers.namespaces import NAMESPACES, Namespace
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster, CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.kube.errors import Conflict, NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.objects import BundleHolder, ObjectMeta, Projected, Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES, SECRETS, Resource
from transom.kube.store import Name
from transom.pods.decision import INJECT_CA
from transom.pods.environment import CONFIG_MAP, LEDGER, NOTED, SECRET, PodEgress, of
from transom.pods.objects import MANAGED, config_map, secret
from transom.proxy.injection import SYSTEM_CA_FILE
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.pods")
CHECK: Final = 600.0
"""Seconds between two looks at a Secret that should be there."""
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
        watched: Watched,
        settings: CurrentSettings,
        reports: Reports,
        *,
        system_ca_file: str = SYSTEM_CA_FILE,
    ) -> None:
        self._watched = watched
        self._settings = settings
        self._reports = reports
        self._texts = BundleText(system_ca_file)
        self._namespaces = watched.watch(NAMESPACES)
        self._labelled = watched.watch(_LABELLED_PODS, labels=f"{INJECT_CA}=true", indexes={"namespace": _namespace_of})
        self._config_maps = watched.watch(BUNDLE_HOLDERS, fields=f"metadata.name={CONFIG_MAP}")
        self._ledger: Name = (watched.namespace, LEDGER)
        self._pending: dict[str, bytes | None] = {}
        self._term: Term | None = None
        self._conflicts: dict[Name, str] = {}
        self._checked: dict[str, float] = {}
        self._egress = PodEgress(watched.namespace)
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._compute()
        self._settings.subscribe(self._settings_changed)
        self._namespaces.subscribe(self._namespace_changed)
        self._labelled.subscribe(self._pod_changed)
        self._config_maps.subscribe(self._config_map_changed)
        self._watched.secrets.subscribe(self._secret_changed)
        for namespace in self._noted():
            self.queue.add((namespace, SECRET), Priority.CHECK)

    # --- which object concerns which key

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters and self._compute():
            for held in self._namespaces.snapshot():
                self._add(held.metadata.name)
            for namespace in self._noted():
                self.queue.add((namespace, SECRET))
            for name in self._config_maps.snapshot().names():
                self.queue.add(name)

    def _namespace_changed(self, name: Name, before: Namespace | None, after: Namespace | None) -> None:
        if before is None or after is None or before.labels != after.labels:
            self._add(name[1])

    def _pod_changed(self, name: Name, before: _LabelledPod | None, after: _LabelledPod | None) -> None:
        if before is None or after is None:
            self.queue.add((name[0], CONFIG_MAP))

    def _config_map_changed(self, name: Name, before: BundleHolder | None, after: BundleHolder | None) -> None:
        if before is None or after is None or before.sha256 != after.sha256 or before.ours != after.ours:
            self.queue.add(name)

    def _secret_changed(self, name: Name, before: Whole | None, after: Whole | None) -> None:
        if name != self._ledger:
            return
        entries = _entries(after)
        for namespace in entries.keys() - _entries(before).keys():
            self.queue.add((namespace, SECRET))
        for namespace, entry in list(self._pending.items()):
            if entries.get(namespace) == entry:
                del self._pending[namespace]
        for namespace in _entries(before).keys() - entries.keys():
            # also when somebody took it out of the ledger, or deleted that
            self.queue.add((namespace, SECRET))

    def _add(self, namespace: str) -> None:
        self.queue.add((namespace, SECRET))
        self.queue.add((namespace, CONFIG_MAP))

    def _noted(self) -> dict[str, bytes]:
        """The ledger: as the server has it, with what is to be written into it."""
        merged: dict[str, bytes | None] = {**self._on_server(), **self._pending}
        return {namespace: entry for namespace, entry in merged.items() if entry is not None}

    def _on_server(self) -> dict[str, bytes]:
        return _entries(self._watched.secrets.snapshot().get(LEDGER, self._watched.namespace))

    def _note(self, namespace: str, entry: bytes | None) -> None:
        self._pending[namespace] = entry
        self.queue.add(self._ledger)

    def _compute(self) -> bool:
        """Whether pods get something else now, or the values in the Secret may be others."""
        own = self._settings.own
        if own is None:
            # there have been no valid settings since the start: what is there stays
            return False
        self._egress = of(own, self._watched.namespace, None, b"")
        self._report()
        return True

    # --- one key

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Bring one object up to date. Raises ApiError."""
        if term is not self._term:
            # somebody else may have written in between
            self._term = term
            self._pending.clear()
            self._checked.clear()
        own = self._settings.own
        namespace, name = key
        if own is None or namespace is None:
            return Outcome()
        if key == self._ledger:
            await self._write_ledger(term)
            return Outcome()
        there = self._namespaces.snapshot().get(namespace)
        if there is None or there.metadata.deletion_timestamp is not None:
            # what is in it goes with it
            self._forget(key)
            return Outcome()
        if name == SECRET:
            return await self._secret(namespace, there.labels, own, term)
        return await self._config_map(namespace, there.labels, own, term)

    async def _secret(self, namespace: str, labels: Mapping[str, str], own: Egress, term: Term) -> Outcome:
        if not self._egress.secret_in(namespace, labels):
            if namespace in self._noted() and (held := await _held(SECRETS, (namespace, SECRET), term)) is not None:
                await self._remove(SECRETS, (namespace, SECRET), held.metadata, term)
            self._forget((namespace, SECRET))
            return Outcome()
        value = secret(namespace, own)
        data = value["data"]
        digest = hashlib.sha256(msgspec.json.encode(data)).hexdigest().encode()
        noted = self._noted().get(namespace)
        if noted is None or namespace not in self._on_server():
            # comes back when it stands there
            self._note(namespace, NOTED)
            return Outcome()
        now = time.monotonic()
        if noted == digest and now - self._checked.get(namespace, -CHECK) < CHECK - 1:
            return Outcome(again=CHECK)
        held = await _held(SECRETS, (namespace, SECRET), term)
        if held is not None and not _ours(held.metadata.labels):
            self._taken((namespace, SECRET), "Secret", term)
            return Outcome(again=CHECK)
        if held is None or held.value.get("data") != data:
            await self._apply(SECRETS, value, (namespace, SECRET), term)
        self._released((namespace, SECRET))
        self._checked[namespace] = now
        if noted != digest:
            self._note(namespace, digest)
        return Outcome(again=CHECK)

    async def _config_map(self, namespace: str, labels: Mapping[str, str], own: Egress, term: Term) -> Outcome:
        key = (namespace, CONFIG_MAP)
        held = self._config_maps.snapshot().get(CONFIG_MAP, namespace)
        if not self._wants_ca(namespace, labels):
            if held is not None:
                await self._remove(BUNDLE_HOLDERS, key, held.metadata, term)
            self._released(key)
            return Outcome()
        if held is not None and not _ours(held.metadata.labels):
            self._taken(key, "ConfigMap", term)
            return Outcome()
        try:
            text, digest = self._texts.of(own.trust)
        except OSError as error:
            _log.error("the system's CAs cannot be read", file=self._texts.system_ca_file, error=error.strerror)  # said in full
            return Outcome(failed=True)
        if held is None or held.sha256 != digest or not held.ours:
            await self._apply(BUNDLE_HOLDERS, config_map(namespace, text), key, term)
        self._released(key)
        return Outcome()

    def _wants_ca(self, namespace: str, labels: Mapping[str, str]) -> bool:
        asked = labels.get(INJECT_CA) == "true" or bool(self._labelled.snapshot().by("namespace", namespace))
        return self._egress.config_map_in(namespace, labels, asked=asked)

    # --- writing

    async def _write_ledger(self, term: Term) -> None:
        noted = self._noted()
        if noted == self._on_server():
            return
        data = {namespace: base64.b64encode(entry).decode() for namespace, entry in noted.items()}
        value = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data}
        await self._apply(SECRETS, value, self._ledger, term)

    async def _apply(self, resource: Resource[Any], value: dict[str, Any], key: Name, term: Term) -> None:
        metadata = {"name": key[1], "namespace": key[0], "labels": MANAGED}
        try:
            await term.client.server_side_apply(resource, {**value, "metadata": metadata}, key[1], key[0])
        except StatusError as error:
            # a namespace that is about to go takes nothing any more
            if error.code != 404 and not (error.code == 403 and "being terminated" in str(error)):
                raise
            self._forget(key)
        else:
            _log.info("written", kind=value["kind"], name=key[1], namespace=key[0])

    async def _remove(self, resource: Resource[Any], key: Name, metadata: ObjectMeta, term: Term) -> None:
        if not _ours(metadata.labels):
            return
        try:
            await term.client.delete(resource, key[1], key[0], metadata.uid)
        except (NotFound, Conflict) as error:
            _log.info("gone already", name=key[1], namespace=key[0], error=str(error))
        else:
            _log.info("removed", kind=resource.kind, name=key[1], namespace=key[0])

    def _forget(self, key: Name) -> None:
        self._released(key)
        namespace, name = key
        if name == SECRET and namespace is not None:
            self._checked.pop(namespace, None)
            if namespace in self._noted():
                self._note(namespace, None)

    # --- what is said

    def _taken(self, key: Name, kind: str, term: Term) -> None:
        """Somebody else's object of our name: it is not touched."""
        if key not in self._conflicts:
            self._conflicts[key] = kind
            base = self._watched.egress_proxies.snapshot().get(BASE)
            uid = base.metadata.uid if base else None
            regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, BASE, None, uid)
            term.recorder.warning(regarding, "Conflict", _told(key, kind))
            self._report()

    def _released(self, key: Name) -> None:
        if self._conflicts.pop(key, None) is not None:
            self._report()

    def _report(self) -> None:
        egress = self._egress
        if egress.withheld:
            message = (
                "spec.pods.namespaceSelector: not set, and the proxy has credentials, which whoever reads Secrets in a"
                " namespace can read: pods get no proxy until it says which namespaces may have them"
            )
            injected = Verdict("False", "NoNamespaceSelector", message)
        elif egress.gives:
            injected = Verdict("True", "Injected", "new pods get the settings from the admission server")
        else:
            injected = Verdict("True", "NotConfigured", "there are no settings for pods")
        verdicts = {"PodsInjected": injected}
        if self._conflicts:
            told = [_told(key, kind) for key, kind in sorted(self._conflicts.items(), key=str)]
            rest = len(told) - _CONFLICTS_SHOWN
            message = "; ".join(told[:_CONFLICTS_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
            verdicts["Conflict"] = Verdict("True", "Taken", message)
        else:
            verdicts["Conflict"] = Verdict("False", "NoConflict", "no object for pods is somebody else's")
        self._reports.put(_PODS, {BASE: verdicts})


def _told(key: Name, kind: str) -> str:
    return f"{kind} {key[0]}/{key[1]} is somebody else's: it is left alone, and pods of that namespace wait"


def _ours(labels: Mapping[str, str] | None) -> bool:
    return bool(labels) and all((labels or {}).get(name) == value for name, value in MANAGED.items())


def _entries(ledger: Whole | None) -> dict[str, bytes]:
    """The ledger's entries, by namespace."""
    data = (ledger.value.get("data") or {}) if ledger else {}
    return {namespace: base64.b64decode(entry) for namespace, entry in data.items()}


async def _held(resource: Resource[Any], key: Name, term: Term) -> Any:
    try:
        return await term.client.get(resource, key[1], key[0])
    except NotFound:
        return None
