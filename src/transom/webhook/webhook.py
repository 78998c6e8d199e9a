"""One replica of the admission server: what it has to know, followed; the server; and its part in keeping the registration."""

import asyncio
import base64
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from transom.common.key_algorithms import NOT_SERVABLE, is_servable_key
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.watched_settings import SettingsInformers
from transom.http_server.server import raise_file_limit
from transom.kube.client import Client
from transom.kube.events import EventRecorder, Regarding
from transom.kube.lease import TERMS, LeaseTimings
from transom.kube.objects import Namespace, ObjectMeta, Projected, UnstructuredObject
from transom.kube.reflector import PACE, ReflectorTimings
from transom.kube.resources import LABELLED_NAMESPACES, REGISTRATIONS, Resource
from transom.kube.store import ObjectKey
from transom.pods.decision import INJECT_CA
from transom.pods.environment import LEDGER, NOTED, SECRET, PodEgress, build_pod_egress, compute_fingerprint
from transom.pods.namespace_services import add_service_names, with_missing_names_warning
from transom.pods.patch import PodPatcher, format_missing_secret
from transom.pods.webhook_configuration import NAME, PATH_WITH_CA, TIMEOUT, FailurePolicy, WebhookEndpoint
from transom.proxy.secret import Secret
from transom.webhook import review
from transom.webhook.metrics import WebhookMetrics
from transom.webhook.server import AdmissionServer, ServingContext
from transom.webhook.service_name_watcher import ServiceNameWatcher
from transom.webhook.shared_secret import WEBHOOK, SharedSecretKeeper, decode_secret_data, parse_pod_egress
from transom.webhook.webhook_secret import (
    EXPIRES,
    LIVES,
    CertificateLifetimes,
    IssuedCertificate,
    WebhookSecret,
    parse_issued,
    parse_webhook_secret,
)

_log: Final = structlog.get_logger("transom.webhook")
_AFTER_RESTORE: Final = 10.0
"""Seconds between two restores of the cluster that are believed."""
_NO_LABELS: Final[dict[str, str]] = {}
_NAMESPACE_PATCHERS: Final = 64
"""Namespaces for which what their pods get is kept: up to 100 kB each."""
_NAMESPACE_SHAPES: Final = 4
"""Shapes of pods of such a namespace for which the patch is kept."""


class _ServiceSpec(Projected, frozen=True):
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")


class _ServiceObject(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ServiceSpec | None = None


SERVICES: Final = Resource("", "v1", "Service", "services", True, _ServiceObject)


class WebhookOptions(msgspec.Struct, frozen=True):
    """How a replica works."""

    namespace: str = "transom-system"
    url: str | None = None
    failure_policy: FailurePolicy = "Ignore"
    certificate_secret: str | None = None
    """A Secret of the namespace with tls.crt, tls.key and ca.crt, which another program renews; None: Transom renews."""
    timeout: int = TIMEOUT
    """Seconds that the API server waits for an answer."""
    drain: float = 5.0
    """Seconds after SIGTERM in which requests are still taken: others have to learn first that it goes."""
    lives: CertificateLifetimes = LIVES
    terms: LeaseTimings = TERMS
    reflector: ReflectorTimings = PACE


class Webhook:
    """One process. `run` works until it is cancelled."""

    def __init__(
        self,
        client: Client,
        options: WebhookOptions,
        metrics: WebhookMetrics | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._options = options
        self.metrics = metrics or WebhookMetrics()
        self._identity = f"{socket.gethostname() or 'transom'}_{secrets.token_hex(4)}"
        self._informers = SettingsInformers(client, options.namespace, options.reflector)
        namespaces = self._informers.watch(LABELLED_NAMESPACES)
        services = self._informers.watch(SERVICES, "default", "metadata.name=kubernetes")
        registrations = self._informers.watch(REGISTRATIONS, fields=f"metadata.name={NAME}")
        self._namespaces: dict[str, dict[str, str]] = {}
        self._kubernetes: str | None = None
        self.settings = CurrentSettings(self._informers, client.connection.server, now)
        self._recorder = EventRecorder(client, instance=self._identity)
        self._context = ServingContext()
        self._current: WebhookSecret | None = None
        self._issued: IssuedCertificate | None = None
        self._certified = asyncio.Event()
        self._remembered: PodEgress | None = None
        self._patcher: PodPatcher | None = None
        self._fingerprint = ""
        self._namespace_patchers: dict[str, PodPatcher] = {}
        self._services = ServiceNameWatcher(client, self._on_names_change, self._update_patcher, options.reflector)
        self._has_secret: frozenset[str] = frozenset()
        called = WebhookEndpoint(options.namespace, WEBHOOK, options.url)
        self.keeper = SharedSecretKeeper(
            client,
            options.namespace,
            self._identity,
            called,
            options.failure_policy,
            lambda: self.egress if self.port is not None else None,
            issued=(lambda: self._issued) if options.certificate_secret else None,
            timings=options.terms,
            lifetimes=options.lives,
            timeout=options.timeout,
            now=now,
        )
        self._server = AdmissionServer(self._answer_review, self.metrics.count_request, self.metrics.count_dropped)
        self.metrics.register_settings_probe(lambda: self._patcher is not None)
        registrations.subscribe(lambda _, __, ___: self.keeper.wake())
        self._informers.secrets.subscribe(self._on_secret_change)
        namespaces.subscribe(self._on_namespace_change)
        services.subscribe(self._on_service_change)
        self.settings.subscribe_to_updates(self._update_patcher)
        self._client = client
        self._stopping = False
        self.port: int | None = None
        """Where it listens; None before it does."""

    @property
    def egress(self) -> PodEgress | None:
        """What pods get now; None while it is not known."""
        return self._patcher.egress if self._patcher is not None else None

    @property
    def certificate(self) -> str | None:
        """What is shown, as PEM; None before there is one."""
        return self._current.certificate if self._current else None

    @property
    def ready(self) -> bool:
        """Whether a request would be answered by the current settings."""
        return self.port is not None and self._patcher is not None and not self._stopping

    def describe_unready(self) -> str:
        """Return why it is not ready: the kinds that were not read, or what else is missing."""
        if unread := [*self._informers.list_unread_kinds(), *self._services.list_unread_kinds()]:
            return f"not read yet: {'; '.join(unread)}"
        if self._current is None:
            return "the serving certificate does not exist yet: the replica that holds the lease creates it"
        return "stopping" if self._stopping else "the settings are not known yet"

    async def run(self, stop: asyncio.Event, address: tuple[str, int]) -> None:
        """Serve until `stop` is set, and a little longer. Raises OSError where the address cannot be had."""
        raise_file_limit()
        tasks = [
            asyncio.ensure_future(item)
            for item in (
                self._informers.run(),
                self._services.run(),
                self.settings.run(),
                self.keeper.run(),
                self._recorder.run(),
                self._reload_after_restores(),
                self._serve(stop, address),
            )
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _reload_after_restores(self) -> None:
        """Read everything again after a restore of the cluster; requests are answered meanwhile."""
        history = self._client.history
        while True:
            await history.replaced.wait()
            history.reset_history()
            self._informers.restart_listing()
            self._services.restart_listing()
            await asyncio.sleep(_AFTER_RESTORE)

    async def _serve(self, stop: asyncio.Event, address: tuple[str, int]) -> None:
        certified = asyncio.ensure_future(self._certified.wait())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((certified, stopping), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                return
            async with self._server.serve(address, self._context.context) as port:
                self.port = port
                _log.info("serving", port=port)
                self.keeper.wake()
                await stopping
                _log.info("stopping")
                self._stopping = self._server.draining = True
                await asyncio.sleep(self._options.drain)
        finally:
            certified.cancel()
            stopping.cancel()

    # --- a request

    def _answer_review(self, body: bytes, path: str) -> bytes:
        """Answer a review. Raises InvalidReview."""
        request = review.parse_review_request(body)
        patcher = self._patcher
        if patcher is None:
            # a pod is never kept from starting by what this server does not know
            if request.is_about_pods:
                self.metrics.count_pod(None)
            return review.build_answer(request, None)
        namespace = request.namespace or ""
        if patcher.egress.service_names and request.is_about_pods:
            patcher = self._get_namespace_patcher(namespace, patcher.egress)
        made = review.build_request_patch(request, self._read_labels(namespace, path), patcher)
        if made is None:
            return review.build_answer(request, None, fingerprint=self._fingerprint)
        made = review.limit_patch(made, body)
        self.metrics.count_pod(made)
        if not made.needs_secret or namespace in self._has_secret:
            return review.build_answer(request, made)
        missing = format_missing_secret(namespace)
        # a namespace that is not in the store may exist in the request alone
        if not request.dry_run and namespace in self._namespaces:
            self._recorder.record_warning(Regarding("v1", "Secret", SECRET, namespace), "SecretMissing", missing)
        return review.build_answer(request, made, (missing,))

    def _get_namespace_patcher(self, namespace: str, egress: PodEgress) -> PodPatcher:
        """Return what gives pods of a namespace the settings with the names of its Services."""
        patcher = self._namespace_patchers.pop(namespace, None)
        if patcher is None or self._services.fault:
            egress = add_service_names(egress, namespace, self._services.list_names(namespace))
            if fault := self._services.fault:
                return PodPatcher(with_missing_names_warning(egress, fault), _NAMESPACE_SHAPES)
            patcher = PodPatcher(egress, _NAMESPACE_SHAPES)
            while len(self._namespace_patchers) >= _NAMESPACE_PATCHERS:
                del self._namespace_patchers[next(iter(self._namespace_patchers))]
        # the last one that is used is the last to go
        self._namespace_patchers[namespace] = patcher
        return patcher

    def _read_labels(self, namespace: str, path: str) -> dict[str, str]:
        """Return a namespace's labels; of an unknown one the labels that the API server sets."""
        cached_namespace = self._namespaces.get(namespace)
        if cached_namespace is not None:
            return cached_namespace
        return {INJECT_CA: "true"} if path == PATH_WITH_CA else _NO_LABELS

    # --- what it has to know

    def _on_secret_change(self, name: ObjectKey, before: UnstructuredObject | None, after: UnstructuredObject | None) -> None:
        if name == (self._options.namespace, LEDGER):
            self._on_ledger_change(after)
        if name == (self._options.namespace, self._options.certificate_secret):
            self._issued = parse_issued(decode_secret_data(after.value)) if after else None
            self.keeper.wake()
        if name != (self._options.namespace, WEBHOOK):
            return
        self.keeper.wake()
        data = decode_secret_data(after.value) if after else {}
        current = parse_webhook_secret(data)
        # the leader repairs a damaged Secret; the certificate in use stays
        if current is None or not self._load_certificate(current, data):
            return
        self._current = current
        self._remembered = parse_pod_egress(data) or self._remembered
        self._certified.set()
        self._update_patcher()

    def _load_certificate(self, current: WebhookSecret, data: Mapping[str, Secret]) -> bool:
        """Load the certificate. Return False if it cannot be served."""
        if not is_servable_key(current.key.reveal()):
            _log.warning("the certificate of the Secret cannot be shown", error=NOT_SERVABLE)
            return False
        try:
            another = self._context.show(current)
        except ssl.SSLError as error:
            _log.warning("the certificate of the Secret cannot be shown", error=error.reason)
            return False
        if another and EXPIRES in data:
            expires = data[EXPIRES].reveal()
            self.metrics.set_expiry(datetime.fromisoformat(expires))
            _log.info("certificate shown", expires=expires)
        return True

    def _on_ledger_change(self, after: UnstructuredObject | None) -> None:
        noted = base64.b64encode(NOTED).decode()
        data = (after.value.get("data") or {}) if after else {}
        self._has_secret = frozenset(namespace for namespace, entry in data.items() if entry != noted)

    def _on_namespace_change(self, name: ObjectKey, before: Namespace | None, after: Namespace | None) -> None:
        if after is None:
            self._namespaces.pop(name.name, None)
        else:
            self._namespaces[name.name] = after.labels or _NO_LABELS

    def _on_service_change(self, name: ObjectKey, before: _ServiceObject | None, after: _ServiceObject | None) -> None:
        self._kubernetes = after.spec.cluster_ip if after and after.spec else None
        self._update_patcher()

    def _on_names_change(self, namespace: str) -> None:
        self._namespace_patchers.pop(namespace, None)

    def _update_patcher(self) -> None:
        """Compute what pods get from the current state."""
        if self._current is None or self.settings.newest is None:
            return
        own = self.settings.own
        self._fingerprint = compute_fingerprint(own, self._options.namespace) if own is not None else ""
        if own is None:
            # invalid since this process began: the last valid settings are where the replicas keep them
            made = self._remembered or self.egress or PodEgress(self._options.namespace)
        else:
            made = build_pod_egress(own, self._options.namespace, self._kubernetes, self._current.hash_key.reveal().encode())
        self._services.set_watch_needed(needed=made.service_names)
        if made.service_names and not self._services.decided:
            # a pod keeps its list: none is created without the names. This is called again once they are read
            return
        if made != self.egress:
            self._namespace_patchers.clear()
            self._patcher = PodPatcher(made)
            _log.info("settings for pods", proxy=bool(made.pairs), trust=made.trust, withheld=made.withheld)
            self.keeper.wake()
