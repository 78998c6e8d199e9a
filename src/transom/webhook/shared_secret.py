"""What the replica that holds the lease keeps: the Secret that all of them share, and the registration at the API server."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import structlog

from transom.kube.apply import apply
from transom.kube.backoff import wait_for_event
from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound, StatusError
from transom.kube.lease import TERMS, LeaseElection, LeaseTerm, LeaseTimings
from transom.kube.objects import Metadata, UnstructuredObject
from transom.kube.resources import REGISTRATIONS, SECRETS, Resource
from transom.pods.environment import PodEgress
from transom.pods.webhook_configuration import NAME, TIMEOUT, FailurePolicy, WebhookEndpoint, build_registration
from transom.proxy.secret import Secret
from transom.webhook.renewal import RenewalFailed, RenewedSecret, renew_certificates
from transom.webhook.webhook_secret import (
    EXPIRES,
    LIVES,
    CertificateLifetimes,
    IssuedCertificate,
    WebhookSecret,
    parse_webhook_secret,
)

_log: Final = structlog.get_logger("transom.webhook")
WEBHOOK: Final = "transom-webhook"
"""The name of the Secret, the Lease, the Service and the ClusterRole."""
EGRESS: Final = "pods.json"
"""The entry of the Secret with the last valid settings, as pods get them: without credentials."""
_CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Metadata)
_AGAIN: Final = 5.0
_LABELS: Final = {"app.kubernetes.io/name": "transom", "app.kubernetes.io/component": "webhook"}


def decode_secret_data(value: Mapping[str, Any]) -> dict[str, Secret]:
    """Return the data of a Secret as strings, without values that are not strings."""
    values = {}
    for name, encoded in (value.get("data") or {}).items():
        try:
            values[name] = Secret(base64.b64decode(encoded, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return values


def parse_pod_egress(data: Mapping[str, Secret]) -> PodEgress | None:
    """Return the last valid settings in the Secret; None if there are none that can be parsed."""
    if EGRESS not in data:
        return None
    try:
        return msgspec.json.decode(data[EGRESS].reveal(), type=PodEgress)
    except msgspec.DecodeError:
        return None


class SharedSecretKeeper:
    """Keeps both while it holds `Lease/transom-webhook`. `wake` it when something may have to change."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        endpoint: WebhookEndpoint,
        failure_policy: FailurePolicy,
        egress: Callable[[], PodEgress | None],
        *,
        issued: Callable[[], IssuedCertificate | None] | None = None,
        timings: LeaseTimings = TERMS,
        lifetimes: CertificateLifetimes = LIVES,
        timeout: int = TIMEOUT,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._called = endpoint
        self._failure_policy: FailurePolicy = failure_policy
        self._timeout = timeout
        self._egress = egress
        self._issued = issued
        self._lives = lifetimes
        self._now = now
        self._current: WebhookSecret | None = None
        self._renewed: tuple[object, datetime, RenewedSecret] | None = None
        self._wake = asyncio.Event()
        self.election = LeaseElection(client, namespace, identity, name=WEBHOOK, timings=timings, now=now)
        self.registered = False
        """Whether this replica saw the registration as it has to be."""

    def wake(self) -> None:
        """Look at once."""
        self._wake.set()

    async def run(self) -> None:
        """Wait for the lease, and keep while it is held, until cancelled."""
        await self.election.run(self._reconcile_while_leading)

    async def _reconcile_while_leading(self, term: LeaseTerm) -> None:
        client = self._client.with_permit(term.get_remaining)
        while True:
            self._wake.clear()
            try:
                seconds = await self._reconcile(client)
            except (ApiError, RenewalFailed) as error:
                _log.warning("not kept", error=str(error) or type(error).__name__)
                self.registered = False
                seconds = _AGAIN
            await wait_for_event(self._wake, seconds)

    async def _reconcile(self, client: Client) -> float:
        """Bring Secret and registration up to date; the seconds until the next look. Raises ApiError."""
        registered = await _read_if_exists(client, REGISTRATIONS, NAME)
        secret = await _read_if_exists(client, SECRETS, WEBHOOK, self._namespace)
        data = decode_secret_data(secret.value) if secret else {}
        egress = self._egress()
        renewed = await self._compute_certificates(data, _get_ca_bundle(registered))
        await self._write_secret(client, data, renewed, egress)
        if egress is not None:
            await self._write_registration(client, renewed.holdings, egress, registered)
        return renewed.seconds

    async def _compute_certificates(self, data: Mapping[str, Secret], ca_bundle: str | None) -> RenewedSecret:
        """Return the desired contents; nothing is computed while the last result is valid. Raises RenewalFailed."""
        now = self._now()
        issued = self._issued() if self._issued else None
        if self._issued and issued is None:
            raise RenewalFailed("no Secret with tls.crt, tls.key and ca.crt of the requested certificate exists")
        if self._renewed is not None:
            question, until, renewed = self._renewed
            if question == (parse_webhook_secret(data), ca_bundle, issued) and now < until:
                return msgspec.structs.replace(renewed, seconds=(until - now).total_seconds())
        renewed = await renew_certificates(
            data, self._current, tuple(self._list_server_names()), now, ca_bundle, self._lives, issued
        )
        if parse_webhook_secret(data) != renewed.holdings:
            _log.info("certificates made", expires=renewed.expires.isoformat())
        self._current = renewed.holdings
        self._renewed = ((renewed.holdings, ca_bundle, issued), now + timedelta(seconds=renewed.seconds), renewed)
        return renewed

    async def _write_secret(
        self, client: Client, data: Mapping[str, Secret], renewed: RenewedSecret, egress: PodEgress | None
    ) -> None:
        wanted = {**renewed.holdings.to_data(), EXPIRES: Secret(renewed.expires.isoformat())}
        if egress is not None:
            wanted[EGRESS] = Secret(msgspec.json.encode(egress).decode())
        elif EGRESS in data:
            wanted[EGRESS] = data[EGRESS]
        if wanted == dict(data):
            return
        value = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": WEBHOOK, "namespace": self._namespace, "labels": _LABELS},
            "type": "Opaque",
            "data": {name: base64.b64encode(item.reveal().encode()).decode() for name, item in wanted.items()},
        }
        await client.apply(SECRETS, value, WEBHOOK, self._namespace)

    async def _write_registration(
        self, client: Client, secret: WebhookSecret, egress: PodEgress, live: UnstructuredObject | None
    ) -> None:
        try:
            role = await client.get(_CLUSTER_ROLES, WEBHOOK)
        except NotFound:
            role = None
        except StatusError as error:
            if error.code != 403:
                raise
            role = None
        if role is None or role.metadata.deletion_timestamp is not None or not role.metadata.uid:
            # with it the install was deleted: pods have to start without anybody's word
            _log.warning("nothing is registered: the ClusterRole that would own it does not exist", role=WEBHOOK)
            self.registered = False
            return
        owner = {
            "apiVersion": _CLUSTER_ROLES.api_version,
            "kind": _CLUSTER_ROLES.kind,
            "name": WEBHOOK,
            "uid": role.metadata.uid,
        }
        desired = build_registration(egress, self._called, secret.authorities, self._failure_policy, owner, self._timeout)
        written = await apply(client, REGISTRATIONS, desired, live=live.value if live else None)
        if written:
            _log.info("registered", entries=len(desired["webhooks"]), failure_policy=self._failure_policy)
        self.registered = True

    def _list_server_names(self) -> Iterable[str]:
        """Return the names and addresses of the server."""
        yield f"{WEBHOOK}.{self._namespace}.svc"
        if self._called.url is not None:
            yield _parse_host(self._called.url)


def _parse_host(url: str) -> str:
    """Return the host of `https://HOST:PORT`, an IPv6 address without its brackets."""
    authority = url.partition("://")[2].partition("/")[0]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


async def _read_if_exists(
    client: Client, resource: Resource[UnstructuredObject], name: str, namespace: str | None = None
) -> UnstructuredObject | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


def _get_ca_bundle(registered: UnstructuredObject | None) -> str | None:
    """Return the authorities that the API server trusts; None without a registration."""
    entries = (registered.value.get("webhooks") or ()) if registered else ()
    bundles = [(entry.get("clientConfig") or {}).get("caBundle") or "" for entry in entries]
    if not bundles:
        return None
    texts = [base64.b64decode(bundle).decode(errors="replace") for bundle in bundles]
    # what is not in all of them is not trusted
    return min(texts, key=len) if len(set(texts)) > 1 else texts[0]
