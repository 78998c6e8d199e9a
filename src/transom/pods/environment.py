"""What the pods of a cluster get of its settings: the variables, the objects that these refer to, and in which namespaces."""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.proxy.no_proxy import ALL, is_harmless, split
from transom.proxy.objects import LabelSelector
from transom.proxy.pods_list import KUBERNETES, PodsList
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
"""The Secret in Transom's namespace that lists the namespaces with a Secret from Transom, and its content."""
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
"""An item of `env` in a manifest."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "transom"}
"""The labels of all of them: Transom does not manage an object without them."""


class VariablePair(msgspec.Struct, frozen=True):
    """A variable in both cases; `upper` and `lower` are the items of `env`."""

    name: str
    twin: str
    upper: Entry
    lower: Entry


class PodEgress(msgspec.Struct, frozen=True):
    """What pods get. It holds no credentials: with credentials, the URLs are in the Secret.

    `withheld`: the proxy has credentials and no selector names the namespaces that may have them: no pod gets the variables.
    `digest` says which settings a pod was given: it is what its annotation has.
    """

    namespace: str = "transom-system"
    pairs: tuple[VariablePair, ...] = ()
    in_secret: bool = False
    withheld: bool = False
    trust: bool = False
    selector: LabelSelector | None = None
    digest: str = ""
    no_proxy_warnings: tuple[str, ...] = ()
    """The harmful items of NO_PROXY for some clients, as a warning for the creator of a pod."""
    no_proxy_left_out: tuple[str, ...] = ()
    """Items of the merged list that pods do not get."""
    service_names: bool = False
    """Whether NO_PROXY also gets the names of the Services of the pod's namespace, which are not in `pairs`."""

    @property
    def no_proxy(self) -> str:
        """The text of NO_PROXY; empty where pods get none."""
        return next((str(pair.upper["value"]) for pair in self.pairs if pair.name == NO), "")

    @property
    def has_pod_settings(self) -> bool:
        """Whether a pod could get settings, or a reason why it does not."""
        return bool(self.pairs or self.withheld or self.trust)

    def is_selected(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if `spec.pods.namespaceSelector` selects a namespace."""
        selector = self.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return True
        return selector.matches({NAME_LABEL: name, **labels})

    def needs_secret(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if a namespace needs the Secret."""
        return (
            self.in_secret
            and not self.withheld
            and not explain_exclusion(name, labels, self.namespace)
            and self.is_selected(name, labels)
        )

    def needs_config_map(self, name: str, labels: Mapping[str, str], *, is_requested: bool) -> bool:
        """Return True if a namespace needs the ConfigMap.

        `is_requested`: one of its pods, or the namespace itself, requests the CAs.
        """
        return (
            is_requested
            and self.trust
            and not explain_exclusion(name, labels, self.namespace)
            and self.is_selected(name, labels)
        )


def explain_exclusion(name: str, labels: Mapping[str, str], own_namespace: str) -> str | None:
    """Why no pod of a namespace gets anything, whatever the settings say; None where pods do. `own_namespace` is Transom's."""
    if name == own_namespace:
        return "the namespace is Transom's own"
    if name.startswith(("kube-", "openshift-")):
        return f"namespaces {name.partition('-')[0]}-* are left alone"
    if labels.get("transom.dev/inject") == "disabled":
        return "the namespace is labelled transom.dev/inject: disabled"
    return None


def build_pod_egress(egress: Egress | None, namespace: str, kubernetes_ip: str | None, key: bytes) -> PodEgress:
    """Build what pods get of a cluster's settings; `egress` None means no settings.

    `kubernetes_ip` is the cluster IP of the Service `default/kubernetes`. `key` keeps credentials from being guessed by the
    digest, which every pod contains; without credentials it is not used.
    """
    if egress is None or "Pods" not in egress.consumers:
        return PodEgress(namespace)
    selector = egress.pods.namespace_selector
    urls = {name: url for name, url in ((HTTP, egress.http_proxy), (HTTPS, egress.https_proxy)) if url}
    in_secret = egress.holds_credentials
    if in_secret and selector is None:
        return PodEgress(namespace, withheld=True, trust=bool(egress.trust))
    pods_list = egress.pods_list if urls else PodsList("")
    no_proxy = _with_api_server(pods_list.text, kubernetes_ip) if urls else ""
    service_names = bool(urls) and egress.pods.service_names == "Add"
    return PodEgress(
        namespace,
        tuple(_iter_pairs(urls, no_proxy, in_secret=in_secret)),
        in_secret,
        False,
        bool(egress.trust),
        selector,
        _compute_digest(urls, no_proxy, key if in_secret else b"", service_names=service_names) if urls else "",
        tuple(_warn_of_harms(no_proxy)),
        pods_list.left_out,
        service_names,
    )


def compute_fingerprint(egress: Egress | None, namespace: str) -> str:
    """Return a hash of what pods get by these settings, equal in each process of a version. It depends on no credentials."""
    made = build_pod_egress(egress, namespace, None, b"")
    if made.in_secret:
        # without a key, the digest lets credentials be guessed
        made = msgspec.structs.replace(made, digest="")
    return hashlib.sha256(msgspec.json.encode(made)).hexdigest()[:16]


def build_secret_data(egress: Egress) -> dict[str, Secret]:
    """Build the values of the Secret `transom-egress`."""
    return {name: url for name, url in ((HTTP, egress.http_proxy), (HTTPS, egress.https_proxy)) if url}


def _with_api_server(no_proxy: str, address: str | None) -> str:
    """Return NO_PROXY of pods: clients that read neither `.svc` nor networks still find the API server, by name and address."""
    if no_proxy == ALL:
        return no_proxy
    items = [*filter(None, split(no_proxy)), *KUBERNETES, *filter(None, (address,))]
    return ",".join(dict.fromkeys(items))


def _warn_of_harms(no_proxy: str) -> Iterator[str]:
    if all(is_harmless(item) for item in split(no_proxy)):
        return
    from transom.proxy.clients.harms import find_harms

    for harm in find_harms(no_proxy):
        yield f"NO_PROXY has {harm.item}, which {harm.message} ({', '.join(harm.clients)})"


def _iter_pairs(urls: Mapping[str, Secret], no_proxy: str, *, in_secret: bool) -> Iterator[VariablePair]:
    for name, url in urls.items():
        if in_secret:
            value: Entry = {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": name, "optional": False}}}
        else:
            value = {"value": url.reveal()}
        yield build_pair(name, value)
    if no_proxy:
        yield build_pair(NO, {"value": no_proxy})


def build_pair(name: str, value: Entry) -> VariablePair:
    """Build a variable; `value` is the part of its items that is the same in both cases."""
    return VariablePair(name, name.lower(), {"name": name, **value}, {"name": name.lower(), **value})


def _compute_digest(urls: Mapping[str, Secret], no_proxy: str, key: bytes, *, service_names: bool) -> str:
    """Compute the digest of the settings. It has the choice of `service_names` and not the names, which often change."""
    values = [[name, url.reveal()] for name, url in urls.items()] + [[NO, no_proxy]]
    content = msgspec.json.encode([*values, ["serviceNames", "Add"]] if service_names else values)
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:_DIGEST_LENGTH]


def build_secret(namespace: str, egress: Egress) -> dict[str, Any]:
    """Secret `transom-egress` with the URLs, the credentials in them."""
    return _build_opaque_secret(
        SECRET, namespace, {name: url.reveal().encode() for name, url in build_secret_data(egress).items()}
    )


def build_ledger(namespace: str, entries: Mapping[str, bytes]) -> dict[str, Any]:
    """Secret `transom-pods`: what is noted of each namespace that has the Secret above; `namespace` is Transom's."""
    return _build_opaque_secret(LEDGER, namespace, entries)


def build_config_map(namespace: str, text: str) -> dict[str, Any]:
    """ConfigMap `transom-egress-ca`; `text` is the system's CAs and the bundle, as PEM."""
    return {**_build_object("ConfigMap", CONFIG_MAP, namespace), "data": {BUNDLE_KEY: text}}


def _build_opaque_secret(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(value).decode() for field, value in data.items()}
    return {**_build_object("Secret", name, namespace), "type": "Opaque", "data": encoded}


def _build_object(kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": MANAGED}}
