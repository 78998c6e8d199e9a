"""What the replica that holds the lease keeps: the Secret that all of them share, and the registration at the API server."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import structlog

from transom.kube import ApiError, NotFound, StatusError
from transom.kube.apply import apply
from transom.kube.backoff import set_within
from transom.kube.client import Client
from transom.kube.lease import TERMS, Holding, LeaseElection, Terms
from transom.kube.objects import Metadata, Whole
from transom.kube.resources import REGISTRATIONS, SECRETS, Resource
from transom.pods.environment import PodEgress
from transom.pods.registration import NAME, Called, FailurePolicy, registration
from transom.proxy.secret import Secret
from transom.webhook.holdings import EXPIRES, LIVES, Holdings, Issued, Lives, held_in
from transom.webhook.renewal import RenewalFailed, Renewed, renew

_log: Final = structlog.get_logger("transom.webhook")
WEBHOOK: Final = "transom-webhook"
"""The name of the Secret, the Lease, the Service and the ClusterRole."""
EGRESS: Final = "pods.json"
"""The entry of the Secret with the last valid settings, as pods get them: without credentials."""
_CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Metadata)
_AGAIN: Final = 5.0
_LABELS: Final = {"app.kubernetes.io/name": "transom", "app.kubernetes.io/component": "webhook"}


def shared_data(value: Mapping[str, Any]) -> dict[str, Secret]:
    """The data of a Secret as texts; what is none is left out."""
    found = {}
    for name, encoded in (value.get("data") or {}).items():
        try:
            found[name] = Secret(base64.b64decode(encoded, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found


def shared_egress(data: Mapping[str, Secret]) -> PodEgress | None:
    """The last valid settings as they were left in the Secret; None where there are none that can be read."""
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
        called: Called,
        failure_policy: FailurePolicy,
        egress: Callable[[], PodEgress | None],
        *,
        issued: Callable[[], Issued | None] | None = None,
        terms: Terms = TERMS,
        lives: Lives = LIVES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._called = called
        self._failure_policy: FailurePolicy = failure_policy
        self._egress = egress
        self._issued = issued
        self._lives = lives
        self._now = now
        self._current: Holdings | None = None
        self._renewed: tuple[object, datetime, Renewed] | None = None
        self._wake = asyncio.Event()
        self.election = LeaseElection(client, namespace, identity, name=WEBHOOK, terms=terms, now=now)
        self.registered = False
        """Whether this replica saw the registration as it has to be."""

    def wake(self) -> None:
        """Look at once."""
        self._wake.set()

    async def run(self) -> None:
        """Wait for the lease, and keep while it is held, until cancelled."""
        await self.election.run(self._serve_term)

    async def _serve_term(self, holding: Holding) -> None:
        client = self._client.guarded(holding.remaining)
        while True:
            self._wake.clear()
            try:
                seconds = await self._keep(client)
            except (ApiError, RenewalFailed) as error:
                _log.warning("not kept", error=str(error) or type(error).__name__)
                self.registered = False
                seconds = _AGAIN
            await set_within(self._wake, seconds)

    async def _keep(self, client: Client) -> float:
        """Bring Secret and registration up to date; the seconds until the next look. Raises ApiError."""
        registered = await _found(client, REGISTRATIONS, NAME)
        secret = await _found(client, SECRETS, WEBHOOK, self._namespace)
        data = shared_data(secret.value) if secret else {}
        egress = self._egress()
        renewed = await self._certificates(data, _trusted(registered))
        await self._share(client, data, renewed, egress)
        if egress is not None:
            await self._register(client, renewed.holdings, egress, registered)
        return renewed.seconds

    async def _certificates(self, data: Mapping[str, Secret], trusted: str | None) -> Renewed:
        """What has to be in the Secret; nothing is computed while the last answer holds. Raises RenewalFailed."""
        now = self._now()
        issued = self._issued() if self._issued else None
        if self._issued and issued is None:
            raise RenewalFailed("there is no Secret with tls.crt, tls.key and ca.crt of the certificate that is to be issued")
        if self._renewed is not None:
            asked, until, renewed = self._renewed
            if asked == (held_in(data), trusted, issued) and now < until:
                return msgspec.structs.replace(renewed, seconds=(until - now).total_seconds())
        renewed = await renew(data, self._current, tuple(self._hosts()), now, trusted, self._lives, issued)
        if held_in(data) != renewed.holdings:
            _log.info("certificates made", expires=renewed.expires.isoformat())
        self._current = renewed.holdings
        self._renewed = ((renewed.holdings, trusted, issued), now + timedelta(seconds=renewed.seconds), renewed)
        return renewed

    async def _share(self, client: Client, data: Mapping[str, Secret], renewed: Renewed, egress: PodEgress | None) -> None:
        wanted = {**renewed.holdings.data(), EXPIRES: Secret(renewed.expires.isoformat())}
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
            "data": {name: base64.b64encode(one.reveal().encode()).decode() for name, one in wanted.items()},
        }
        await client.server_side_apply(SECRETS, value, WEBHOOK, self._namespace)

    async def _register(self, client: Client, made: Holdings, egress: PodEgress, live: Whole | None) -> None:
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
            _log.warning("nothing is registered: there is no ClusterRole that would own it", role=WEBHOOK)
            self.registered = False
            return
        owner = {
            "apiVersion": _CLUSTER_ROLES.api_version,
            "kind": _CLUSTER_ROLES.kind,
            "name": WEBHOOK,
            "uid": role.metadata.uid,
        }
        desired = registration(egress, self._called, made.authorities, self._failure_policy, owner)
        written = await apply(client, REGISTRATIONS, desired, live=live.value if live else None)
        if written:
            _log.info("registered", entries=len(desired["webhooks"]), failure_policy=self._failure_policy)
        self.registered = True

    def _hosts(self) -> Iterable[str]:
        """What the server is called by."""
        yield f"{WEBHOOK}.{self._namespace}.svc"
        if self._called.url is not None:
            yield _host(self._called.url)


def _host(url: str) -> str:
    """The host of `https://HOST:PORT`, an IPv6 address without its brackets."""
    authority = url.partition("://")[2].partition("/")[0]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


async def _found(client: Client, resource: Resource[Whole], name: str, namespace: str | None = None) -> Whole | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


def _trusted(registered: Whole | None) -> str | None:
    """The authorities that the API server trusts; None where nothing is registered."""
    entries = (registered.value.get("webhooks") or ()) if registered else ()
    bundles = [(one.get("clientConfig") or {}).get("caBundle") or "" for one in entries]
    if not bundles:
        return None
    texts = [base64.b64decode(bundle).decode(errors="replace") for bundle in bundles]
    # what is not in all of them is not trusted
    return min(texts, key=len) if len(set(texts)) > 1 else texts[0]
