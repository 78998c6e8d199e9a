"""What the pods of a cluster get of its settings: the variables, the objects that these refer to, and in which namespaces."""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.proxy.no_proxy import ALL, split
from transom.proxy.objects import LabelSelector
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

SECRET: Final = "transom-egress"  # noqa: S105  # its name
"""The Secret with the URLs, in every namespace whose pods refer to it."""
CONFIG_MAP: Final = "transom-egress-ca"
"""The ConfigMap with the system's CAs and the bundle, and the volume that mounts it."""
BUNDLE_KEY: Final = "ca-bundle.crt"
HASH_KEY: Final = "hash.key"
"""The entry of Secret `transom-webhook` that keys the digests, in hex."""
LEDGER: Final = "transom-pods"
"""The Secret in Transom's namespace that says which namespaces have a Secret of ours, and with what in it."""
NOTED: Final = b"-"
"""What the ledger has of a namespace before its Secret is written."""
HTTP: Final = "HTTP_PROXY"
HTTPS: Final = "HTTPS_PROXY"
NO: Final = "NO_PROXY"
ALL_PROXY: Final = "ALL_PROXY"
"""What some clients take for every scheme (curl, `CURLOPT_PROXY`). It is never set by us."""
PROXY_VARIABLES: Final = frozenset(case for name in (HTTP, HTTPS, ALL_PROXY, NO) for case in (name, name.lower()))
"""The proxy of a container: it is all its own where it has any of these."""
CA_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
)
NOT_ON_WINDOWS: Final = "SSL_CERT_FILE"
"""Go reads the store of the system on Windows, and OpenSSL's programs are few there."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""What every namespace is labelled with, by the API server."""
_DIGEST_LENGTH: Final = 32

Entry = dict[str, Any]
"""An item of `env` as it is written."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "transom"}
"""The labels of all of them: an object without is somebody else's."""


class Pair(msgspec.Struct, frozen=True):
    """A variable in both cases; `upper` and `lower` are the items of `env`."""

    name: str
    twin: str
    upper: Entry
    lower: Entry


class PodEgress(msgspec.Struct, frozen=True):
    """What pods get. It holds no credentials: where there are any, the URLs are in the Secret.

    `withheld`: there are credentials and nobody said which namespaces may have them, so that no pod gets the variables.
    `digest` says which settings a pod was given: it is what its annotation has.
    """

    namespace: str = "transom-system"
    pairs: tuple[Pair, ...] = ()
    in_secret: bool = False
    withheld: bool = False
    trust: bool = False
    selector: LabelSelector | None = None
    digest: str = ""

    @property
    def gives(self) -> bool:
        """Whether a pod could get anything at all, or has to be told why it does not."""
        return bool(self.pairs or self.withheld or self.trust)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether `spec.pods.namespaceSelector` selects a namespace."""
        selector = self.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return True
        return selector.matches({NAME_LABEL: name, **labels})

    def secret_in(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a namespace has to have the Secret."""
        return (
            self.in_secret and not self.withheld and not excluded(name, labels, self.namespace) and self.selects(name, labels)
        )

    def config_map_in(self, name: str, labels: Mapping[str, str], *, asked: bool) -> bool:
        """Whether a namespace has to have the ConfigMap; `asked`: one of its pods asks for the CAs, or it does itself."""
        return asked and self.trust and not excluded(name, labels, self.namespace) and self.selects(name, labels)


def excluded(name: str, labels: Mapping[str, str], own: str) -> str | None:
    """Why no pod of a namespace gets anything, whatever the settings say; None where pods do. `own` is Transom's."""
    if name == own:
        return "the namespace is Transom's own"
    if name.startswith(("kube-", "openshift-")):
        return f"namespaces {name.partition('-')[0]}-* are left alone"
    if labels.get("transom.dev/inject") == "disabled":
        return "the namespace is labelled transom.dev/inject: disabled"
    return None


def of(egress: Egress | None, namespace: str, kubernetes_ip: str | None, key: bytes) -> PodEgress:
    """What pods get of a cluster's settings; `egress` None is no settings.

    `kubernetes_ip` is the cluster IP of the Service `default/kubernetes`. `key` keeps credentials from being guessed by the
    digest, which stands in every pod; without credentials it is not used.
    """
    if egress is None or "Pods" not in egress.consumers:
        return PodEgress(namespace)
    selector = egress.pods.namespace_selector
    urls = {name: url for name, url in ((HTTP, egress.http_proxy), (HTTPS, egress.https_proxy)) if url}
    in_secret = egress.holds_credentials
    if in_secret and selector is None:
        return PodEgress(namespace, withheld=True, trust=bool(egress.trust))
    no_proxy = _with_address(egress.no_proxy, kubernetes_ip) if urls else ""
    return PodEgress(
        namespace,
        tuple(_pairs(urls, no_proxy, in_secret=in_secret)),
        in_secret,
        False,
        bool(egress.trust),
        selector,
        _digest(urls, no_proxy, key if in_secret else b"") if urls else "",
    )


def secret_data(egress: Egress) -> dict[str, Secret]:
    """The values of the Secret `transom-egress`."""
    return {name: url for name, url in ((HTTP, egress.http_proxy), (HTTPS, egress.https_proxy)) if url}


def _with_address(no_proxy: str, address: str | None) -> str:
    """NO_PROXY of pods: clients that do not read networks still find the API server (the client libraries use its IP)."""
    if not address or no_proxy == ALL or address in split(no_proxy):
        return no_proxy
    return f"{no_proxy},{address}" if no_proxy else address


def _pairs(urls: Mapping[str, Secret], no_proxy: str, *, in_secret: bool) -> Iterator[Pair]:
    for name, url in urls.items():
        if in_secret:
            value: Entry = {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": name, "optional": False}}}
        else:
            value = {"value": url.reveal()}
        yield _pair(name, value)
    if no_proxy:
        yield _pair(NO, {"value": no_proxy})


def _pair(name: str, value: Entry) -> Pair:
    return Pair(name, name.lower(), {"name": name, **value}, {"name": name.lower(), **value})


def _digest(urls: Mapping[str, Secret], no_proxy: str, key: bytes) -> str:
    told = msgspec.json.encode([[name, url.reveal()] for name, url in urls.items()] + [[NO, no_proxy]])
    return hmac.new(key, told, hashlib.sha256).hexdigest()[:_DIGEST_LENGTH]


def secret(namespace: str, egress: Egress) -> dict[str, Any]:
    """Secret `transom-egress` with the URLs, the credentials in them."""
    return _opaque(SECRET, namespace, {name: url.reveal().encode() for name, url in secret_data(egress).items()})


def ledger(namespace: str, noted: Mapping[str, bytes]) -> dict[str, Any]:
    """Secret `transom-pods`: what is noted of each namespace that has the Secret above; `namespace` is Transom's."""
    return _opaque(LEDGER, namespace, noted)


def config_map(namespace: str, text: str) -> dict[str, Any]:
    """ConfigMap `transom-egress-ca`; `text` is the system's CAs and the bundle, as PEM."""
    return {**_head("ConfigMap", CONFIG_MAP, namespace), "data": {BUNDLE_KEY: text}}


def _opaque(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(value).decode() for field, value in data.items()}
    return {**_head("Secret", name, namespace), "type": "Opaque", "data": encoded}


def _head(kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": MANAGED}}
