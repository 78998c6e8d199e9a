"""The settings' own objects: the status of each EgressProxy, and the ConfigMaps that ask for the trust bundle."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.controller import Outcome
from transom.controllers.egress import status
from transom.controllers.egress.bundle_text import BundleText
from transom.controllers.egress.openshift_proxy import ToldOfProxy
from transom.controllers.egress.rivals import Rivals
from transom.controllers.egress.telling import tell
from transom.controllers.reports import Reports
from transom.controllers.settings import Cluster, CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.kube.apply import differs
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.objects import BundleHolder, Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES
from transom.kube.store import Name, name_of
from transom.proxy.finding import Finding
from transom.proxy.injection import LABEL, OPENSHIFT_LABEL, SYSTEM_CA_FILE
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.readiness import Answer, failures, probe

_log: Final = structlog.get_logger("transom.egress")
CHECK: Final = 300.0
"""Seconds between two tries of the endpoints while they answer."""
CHECK_FAILED: Final = 30.0
"""The same while one does not."""
_SWEEP: Final[Name] = (None, "")
_OPENSHIFT: Final[Name] = (None, "Proxy/cluster")
"""No object can have these names."""


class EgressController:
    """Keys are names: of an EgressProxy (without a namespace), or of a ConfigMap (with one); and OpenShift's Proxy."""

    def __init__(
        self,
        watched: Watched,
        settings: CurrentSettings,
        *,
        system_ca_file: str = SYSTEM_CA_FILE,
        reports: Reports | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._watched = watched
        self._settings = settings
        self._texts = BundleText(system_ca_file)
        self._reports = reports or Reports()
        self._now = now
        self._probed: dict[Name, tuple[Egress, float, list[Answer]]] = {}
        self._released: dict[Name, str] = {}
        self._rivals = Rivals()
        self._told_of_proxy = ToldOfProxy()
        self._rests: dict[Name, float] = {}
        """When what was left to somebody else is tried once more, by the clock of the loop."""
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._settings.on_update(self._settings_updated)
        self._watched.egress_proxies.subscribe(self._status_changed)
        self._settings.subscribe(self._settings_changed)
        for store in self._watched.bundle_holders:
            store.subscribe(self._holder_changed)
        self._reports.subscribe(lambda name: self.queue.add((None, name)))
        self._settings_updated()
        self.queue.add(_SWEEP, Priority.CHECK)

    # --- which object concerns which key

    def _settings_updated(self) -> None:
        for held in self._watched.egress_proxies.snapshot():
            self.queue.add((None, held.metadata.name))
        if self._watched.openshift_proxy is not None:
            self.queue.add(_OPENSHIFT)

    def _status_changed(self, name: Name, before: Whole | None, after: Whole | None) -> None:
        # somebody else's word in a status of ours is put right; a changed spec comes with the settings
        if before is not None and after is not None and before.metadata.generation == after.metadata.generation:
            self.queue.add(name)

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters:
            for store in self._watched.bundle_holders:
                for name in store.snapshot().names():
                    self.queue.add(name)

    def _holder_changed(self, name: Name, before: BundleHolder | None, after: BundleHolder | None) -> None:
        if after is None and before is not None and before.ours and before.metadata.uid:
            # the label went, or the whole object: it is our key that has to go, if it is there
            self._released[name] = before.metadata.uid
        elif after is not None:
            self._released.pop(name, None)
        if after is None or before is None or _shape(before) != _shape(after):
            self.queue.add(name)

    # --- one key

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Bring one status, or one ConfigMap, up to date. Raises ApiError."""
        if key == _SWEEP:
            await self._sweep(term)
            return Outcome()
        if key[0] is not None:
            return await self._inject(key, term)
        newest = self._settings.newest
        if key == _OPENSHIFT:
            proxy = self._watched.openshift_proxy
            if proxy is not None and newest is not None:
                self._told_of_proxy.tell(proxy, newest.findings, self._settings.gate, term)
            return Outcome()
        held = self._watched.egress_proxies.snapshot().get(key[1])
        if held is None or newest is None:
            self._probed.pop(key, None)
            return Outcome()
        return await self._report(held, newest.findings, term)

    async def _report(self, held: Whole, findings: Iterable[Finding], term: Term) -> Outcome:
        name, own = held.metadata.name, self._settings.own
        spec = held.value.get("spec") or {}
        openshift = self._watched.openshift_proxy
        base = (openshift.value.get("spec") or {}) if openshift is not None and name == BASE else None
        found = status.concerning(name, spec, self._watched.namespace, findings, base)
        verdicts = status.validity(name, spec, found, base)
        if name == BASE:
            verdicts["Conflict"] = Verdict("False", "NoConflict", "no object of ours is somebody else's")
        verdicts |= self._reports.of(name)
        fields: dict[str, Any] = {}
        again: float | None = None
        if name == BASE and own is not None and base is None:
            fields = status.effective_fields(own)
        if name == BASE and self._settings.gate.waiting is not None:
            if tried := self._settings.gate.answers:
                verdicts["Ready"] = status.held_back(tried)
        elif name == BASE and own is not None:
            answers = await self._answers((None, name), own)
            verdicts["Ready"] = status.readiness(answers)
            if answers:
                again = CHECK_FAILED if failures(answers) else CHECK
        await self._write(held, verdicts, fields, term)
        return Outcome(again=again)

    async def _answers(self, key: Name, own: Egress) -> list[Answer]:
        """What the endpoints of the settings that hold said, asked again only when it is time."""
        if not own.readiness_endpoints:
            return []
        time = asyncio.get_running_loop().time()
        probed = self._probed.get(key)
        if probed is not None and probed[0] == own:
            _, when, answers = probed
            if time - when < (CHECK_FAILED if failures(answers) else CHECK) - 1:
                return answers
        answers = await probe(own)
        self._probed[key] = (own, time, answers)
        return answers

    async def _write(self, held: Whole, verdicts: Verdicts, fields: Mapping[str, Any], term: Term) -> None:
        meta, live = held.metadata, held.value.get("status") or {}
        wanted = status.merged(live, verdicts, fields, meta.generation, self._now())
        desired = {"metadata": {"name": meta.name, "uid": meta.uid}, "status": wanted}
        if not differs(desired, held.value, "status"):
            return
        value = {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind, **desired}
        try:
            await term.client.server_side_apply(EGRESS_PROXIES, value, meta.name, subresource="status")
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return
        self._tell(held, live, verdicts, fields, term)

    def _tell(self, held: Whole, live: Mapping[str, Any], verdicts: Verdicts, fields: Mapping[str, Any], term: Term) -> None:
        """Events: what became wrong, or right again. Told after the status is written, so once."""
        meta = held.metadata
        regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, meta.name, None, meta.uid)
        before = {one.get("type"): one for one in live.get("conditions") or ()}
        conflict = verdicts.get("Conflict")
        if conflict and conflict.status == "True" and (before.get("Conflict") or {}).get("message") != conflict.message:
            term.recorder.warning(regarding, "Conflict", conflict.message)
        tell(regarding, before, verdicts, term.recorder)
        self._tell_superseded(regarding, before, verdicts.get("Superseded"), term)
        if changes := status.changes(live, fields):
            term.recorder.normal(regarding, "Changed", f"the settings that hold: {changes}")

    def _tell_superseded(
        self, regarding: Regarding, before: Mapping[Any, Mapping[str, Any]], verdict: Verdict | None, term: Term
    ) -> None:
        if verdict and verdict.status == "True" and (before.get("Superseded") or {}).get("status") != "True":
            term.recorder.warning(regarding, verdict.reason, verdict.message)

    # --- ConfigMaps that ask for the bundle

    async def _inject(self, key: Name, term: Term) -> Outcome:
        own = self._settings.own
        if own is None:
            # there have been no valid settings since the start: what is there stays
            return Outcome()
        holder = next(
            (found for store in self._watched.bundle_holders if (found := store.snapshot().get(key[1], key[0]))), None
        )
        bundle_only = self._asked(holder)
        uid = holder.metadata.uid if holder else self._released.get(key)
        if bundle_only is None or not own.trust:
            if uid is not None and (holder is None or holder.ours):
                await self._apply(key, uid, None, term)
            self._released.pop(key, None)
            self._settle(key)
            return Outcome()
        try:
            text, digest = self._texts.of(own.trust, bundle_only=bundle_only)
        except OSError as error:
            _log.error("the system's CAs cannot be read", file=self._texts.system_ca_file, error=error.strerror)  # said in full
            return Outcome(failed=True)
        if holder is None or (holder.sha256 == digest and holder.ours):
            return Outcome()
        return await self._contend(key, uid, text, digest, term)

    async def _contend(self, key: Name, uid: str | None, text: str, digest: str, term: Term) -> Outcome:
        """Put our key right, unless somebody else writes it again each time."""
        now = asyncio.get_running_loop().time()
        if key in self._rests and now >= self._rests[key]:
            self._settle(key)
        if self._rivals.write(key, digest):
            await self._apply(key, uid, text, term)
            return Outcome()
        self._rests.setdefault(key, now + CHECK)
        self._tell_rivals()
        return Outcome(again=self._rests[key] - now + 1)

    def _settle(self, key: Name) -> None:
        self._rivals.forget(key)
        self._rests.pop(key, None)
        self._tell_rivals()

    def _tell_rivals(self) -> None:
        lost = sorted("/".join(filter(None, name)) for name in self._rivals.lost())
        message = f"the key {BundleHolder.KEY} of ConfigMap {', '.join(lost)} is written by somebody else again and again"
        verdict = Verdict("True", "Taken", f"{message}: take the label off, or the other writer")
        self._reports.put("egress", {BASE: {"Conflict": verdict}} if lost else {})

    async def _sweep(self, term: Term) -> None:
        """Find the ConfigMaps that lost their label while nobody was looking."""
        listing = await term.client.list_objects(BUNDLE_HOLDERS)
        labelled = {name for store in self._watched.bundle_holders for name in store.snapshot().names()}
        for holder in listing.items:
            name = name_of(holder)
            # the fleet controller keeps ConfigMaps with that key, too: they have a label of their own
            kept = (holder.metadata.labels or {}).get(MANAGED_BY) == TRANSOM
            if holder.ours and not kept and name not in labelled and holder.metadata.uid:
                self._released[name] = holder.metadata.uid
                self.queue.add(name)

    def _asked(self, holder: BundleHolder | None) -> bool | None:
        """Whether the bundle alone is asked for; None where nothing is."""
        labels = (holder.metadata.labels or {}) if holder else {}
        if labels.get(LABEL) in ("true", "bundle-only"):
            return labels[LABEL] == "bundle-only"
        if labels.get(OPENSHIFT_LABEL) == "true" and not self._watched.openshift_proxy:
            return False
        return None

    async def _apply(self, key: Name, uid: str | None, text: str | None, term: Term) -> None:
        """Apply our key, or, without a text, nothing: the server then takes the key out, and leaves the others."""
        value: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": key[1], "namespace": key[0], "uid": uid},
        }
        if text is not None:
            value["data"] = {BundleHolder.KEY: text}
        try:
            await term.client.server_side_apply(BUNDLE_HOLDERS, value, key[1], key[0])
        except (NotFound, Conflict) as error:
            _log.info("ConfigMap is gone", error=str(error))
        else:
            _log.info("trust bundle written" if text is not None else "trust bundle taken out")


def _shape(holder: BundleHolder) -> tuple[Any, ...]:
    labels = holder.metadata.labels or {}
    return holder.metadata.uid, holder.sha256, holder.ours, labels.get(LABEL), labels.get(OPENSHIFT_LABEL)
