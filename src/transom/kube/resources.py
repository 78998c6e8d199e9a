"""The kinds of object that Transom reads and writes: where each lives in the API, and the struct that it is read into."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic

import msgspec

from transom.kube.objects import BundleHolder, LeaseObject, Metadata, Namespace, T, Whole


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind in one version.

    `type` is what an object is read into: a projected struct, or a class that reads by itself, with a class method `from_json`.
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

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path below the server's address; without a name it is the collection, without a namespace that of all of them."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """One object from its JSON. Raises msgspec.ValidationError; its message names the field and no value."""
        read: T = _decoder(self.type)(data)
        return read


@functools.cache
def _decoder(type_: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    own: Callable[[bytes | msgspec.Raw], Any] | None = getattr(type_, "from_json", None)
    return own or msgspec.json.Decoder(type_).decode


NODES: Final = Resource("", "v1", "Node", "nodes", False, Whole)
PODS: Final = Resource("", "v1", "Pod", "pods", True, Whole)
SERVICES: Final = Resource("", "v1", "Service", "services", True, Whole)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False, Metadata)
LABELLED_NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False, Namespace)
REGISTRATIONS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, Whole
)
SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, Whole)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, Whole)
BUNDLE_HOLDERS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, BundleHolder)
EVENTS: Final = Resource("", "v1", "Event", "events", True, Metadata)
LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", True, LeaseObject)
SERVICE_CIDRS: Final = Resource("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, Whole)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Metadata
)
EGRESS_PROXIES: Final = Resource("transom.dev", "v1alpha1", "EgressProxy", "egressproxies", False, Whole)
WINDOWS_INSTANCES: Final = Resource("transom.dev", "v1alpha1", "WindowsInstance", "windowsinstances", True, Whole)
OPENSHIFT_PROXIES: Final = Resource("config.openshift.io", "v1", "Proxy", "proxies", False, Whole)
OPENSHIFT_NETWORKS: Final = Resource("config.openshift.io", "v1", "Network", "networks", False, Whole)
OPENSHIFT_INFRASTRUCTURES: Final = Resource("config.openshift.io", "v1", "Infrastructure", "infrastructures", False, Whole)
