"""The kinds of object that Transom reads and writes: where each lives in the API, and the struct that it is read into."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic
from urllib.parse import quote

import msgspec

from transom.kube.errors import NameInvalid
from transom.kube.objects import BundleConfigMap, LeaseObject, Metadata, Namespace, T, UnstructuredObject


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind in one version.

    `type` is what an object is read into: a projected struct, or a class with its own class method `from_json`.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def build_path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path below the server's address: of the collection without a name, of all namespaces without a namespace.

        Every part is quoted. Raises NameInvalid for a part that no quoting keeps in its place.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote_part(namespace)]
        parts += [self.plural, *(quote_part(part) for part in (name, subresource) if part)]
        return "/".join(parts)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """One object from its JSON. Raises msgspec.ValidationError; its message names the field and no value."""
        read: T = _build_decoder(self.type)(data)
        return read


def quote_part(text: str) -> str:
    """Quote one part of a path so that `/`, `?` and `%` have no meaning. Raises NameInvalid for `.`, `..` and "".

    Servers read `%2E%2E` as `..` (RFC 3986, 6.2.2.2), and Kubernetes has no such names ("Object Names and IDs").
    """
    if text in ("", ".", ".."):
        raise NameInvalid(f"{text!r} is not a valid name of an object")
    return text if text.isascii() and text.isalnum() else quote(text, safe=":")


@functools.cache
def _build_decoder(type_: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    own: Callable[[bytes | msgspec.Raw], Any] | None = getattr(type_, "from_json", None)
    return own or msgspec.json.Decoder(type_).decode


NODES: Final = Resource("", "v1", "Node", "nodes", False, UnstructuredObject)
PODS: Final = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)
SERVICES: Final = Resource("", "v1", "Service", "services", True, UnstructuredObject)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False, Metadata)
LABELLED_NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False, Namespace)
REGISTRATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    UnstructuredObject,
)
SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, UnstructuredObject)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, UnstructuredObject)
BUNDLE_HOLDERS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, BundleConfigMap)
EVENTS: Final = Resource("", "v1", "Event", "events", True, Metadata)
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", True, LeaseObject)
SERVICE_CIDRS: Final = Resource("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, UnstructuredObject)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Metadata
)
EGRESS_PROXIES: Final = Resource("transom.dev", "v1alpha1", "EgressProxy", "egressproxies", False, UnstructuredObject)
WINDOWS_INSTANCES: Final = Resource("transom.dev", "v1alpha1", "WindowsInstance", "windowsinstances", True, UnstructuredObject)
OPENSHIFT_PROXIES: Final = Resource("config.openshift.io", "v1", "Proxy", "proxies", False, UnstructuredObject)
OPENSHIFT_NETWORKS: Final = Resource("config.openshift.io", "v1", "Network", "networks", False, UnstructuredObject)
OPENSHIFT_INFRASTRUCTURES: Final = Resource(
    "config.openshift.io", "v1", "Infrastructure", "infrastructures", False, UnstructuredObject
)
