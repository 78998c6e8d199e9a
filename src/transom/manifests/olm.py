"""What the Operator Lifecycle Manager installs from: a bundle and a file-based catalog, of the same objects as every install.

The formats are those of operator-framework: ClusterServiceVersion (operator-framework/api v0.45.0,
pkg/operators/v1alpha1/clusterserviceversion_types.go), the labels of a bundle and the kinds that it takes
(operator-framework/operator-registry v1.73.0, pkg/lib/bundle/generate.go and supported_resources.go), the catalog's schemas
(alpha/declcfg/declcfg.go, alpha/property/property.go).
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from transom.manifests.definitions import GROUP, KINDS, VERSION
from transom.manifests.grants import NAME

Object = dict[str, Any]
CHANNEL: Final = "candidate"
"""As releases before 1.0 are called (olm.operatorframework.io, best practices, channel naming)."""
_DEFINITION: Final = "CustomResourceDefinition"
_TAKEN: Final = {
    *("ClusterRole", "ClusterRoleBinding", "ConfigMap", "PodDisruptionBudget", "PriorityClass", "PrometheusRule"),
    *("Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "ServiceMonitor"),
}
"""Kinds that a bundle may hold besides. Not NetworkPolicy, which older releases of OLM refuse with the whole bundle."""
_ABOUT: Final = (
    "Applies the egress proxy settings and trusted CAs of an EgressProxy to Windows worker nodes, new pods and workload "
    "clusters, and joins, upgrades and removes Windows workers. Apply beside.yaml before the Subscription: it contains"
    " rights in "
    "other namespaces, and policies, which a bundle cannot contain."
)
_ICON: Final = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40" fill="none" stroke="#1d4f73" stroke-width="3">'
    b'<path d="M7 37V17a13 13 0 0 1 26 0v20M7 17h26M20 4v13M20 17 10 9M20 17l10-8"/></svg>'
)
_EXAMPLES: Final = (
    {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "EgressProxy",
        "metadata": {"name": "cluster"},
        "spec": {"httpProxy": "http://proxy.corp.example:3128", "httpsProxy": "http://proxy.corp.example:3128"},
    },
    {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "WindowsInstance",
        "metadata": {"name": "win-1"},
        "spec": {"address": "win-1.corp.example", "username": "Administrator"},
    },
)


class OlmBundle(msgspec.Struct, frozen=True):
    """Objects by the name of their file in `manifests/`, the annotations of `metadata/`, and the objects of beside.yaml."""

    manifests: dict[str, Object]
    annotations: dict[str, str]
    beside: list[Object]


def build_bundle(objects: Iterable[Object], namespace: str, version: str) -> OlmBundle:
    """Build the bundle of an install's objects (`install.build_objects`)."""
    parts = _Parts(list(objects), namespace)
    csv = _build_service_version(parts, namespace, version)
    manifests = {f"{NAME}.clusterserviceversion.yaml": csv}
    for item in parts.bundled:
        manifests[f"{item['metadata']['name']}.{item['kind'].lower()}.yaml"] = _without_namespace(item)
    mark = "operators.operatorframework.io.bundle"
    annotations = {
        f"{mark}.mediatype.v1": "registry+v1",
        f"{mark}.manifests.v1": "manifests/",
        f"{mark}.metadata.v1": "metadata/",
        f"{mark}.package.v1": NAME,
        f"{mark}.channels.v1": CHANNEL,
        f"{mark}.channel.default.v1": CHANNEL,
    }
    return OlmBundle(manifests, annotations, parts.beside)


def build_catalog(made: OlmBundle, image: str, version: str) -> list[Object]:
    """Build a file-based catalog that has only this bundle, in an image with that name."""
    csv = next(manifest for manifest in made.manifests.values() if manifest["kind"] == "ClusterServiceVersion")
    spec, name = csv["spec"], csv["metadata"]["name"]
    metadata = {
        "annotations": {name: text for name, text in csv["metadata"]["annotations"].items() if name != "alm-examples"},
        "apiServiceDefinitions": {},
        "crdDescriptions": spec["customresourcedefinitions"],
        **{field: spec[field] for field in _TOLD if field in spec},
    }
    properties = [
        {"type": "olm.package", "value": {"packageName": NAME, "version": version}},
        *({"type": "olm.gvk", "value": {"group": GROUP, "version": VERSION, "kind": kind.kind}} for kind in KINDS),
        {"type": "olm.csv.metadata", "value": metadata},
    ]
    related = [*spec["relatedImages"], {"name": "", "image": image}]
    return [
        {"schema": "olm.package", "name": NAME, "defaultChannel": CHANNEL, "description": spec["description"]},
        {"schema": "olm.channel", "package": NAME, "name": CHANNEL, "entries": [{"name": name}]},
        {
            "schema": "olm.bundle",
            "package": NAME,
            "name": name,
            "image": image,
            "properties": properties,
            "relatedImages": related,
        },
    ]


_TOLD: Final = ("description", "displayName", "installModes", "keywords", "maturity", "minKubeVersion", "provider")


class _Parts:
    """Objects by destination: the ClusterServiceVersion, the bundle, or beside.yaml."""

    def __init__(self, objects: list[Object], namespace: str) -> None:
        self._namespace = namespace
        near = [obj for obj in objects if obj["metadata"].get("namespace", namespace) == namespace]
        self.deployments = [item for item in near if item["kind"] == "Deployment"]
        self.accounts = sorted(
            {deployment["spec"]["template"]["spec"]["serviceAccountName"] for deployment in self.deployments}
        )
        # OLM creates these accounts, their rights and the Deployments
        self._bindings = [item for item in near if "subjects" in item and all(map(self._find_account, item["subjects"]))]
        references = [_build_reference(binding) for binding in self._bindings]
        self._roles = {
            reference: item for item in near if (reference := (item["kind"], item["metadata"]["name"])) in references
        }
        accounts = [item for item in near if item["kind"] == "ServiceAccount" and item["metadata"]["name"] in self.accounts]
        made = [*self.deployments, *accounts, *self._bindings, *self._roles.values()]
        left = [obj for obj in objects if obj not in made and obj["kind"] != "Namespace"]
        self.bundled = [item for item in left if item["kind"] == _DEFINITION or (item["kind"] in _TAKEN and item in near)]
        self.beside = [item for item in left if item not in self.bundled]

    def list_rules(self, account: str, binding: str) -> list[Object]:
        """List the rules that bindings of a kind give an account; only RoleBindings of Transom's own namespace."""
        bindings = (item for item in self._bindings if item["kind"] == binding)
        references = [_build_reference(item) for item in bindings if account in map(self._find_account, item["subjects"])]
        return [rule for reference in references for rule in self._roles[reference]["rules"]]

    def _find_account(self, subject: Object) -> str | None:
        """Return the Deployment's account that a subject names, or None."""
        ours = subject["kind"] == "ServiceAccount" and subject.get("namespace") == self._namespace
        return subject["name"] if ours and subject["name"] in self.accounts else None


def _build_reference(binding: Object) -> tuple[str, str]:
    return binding["roleRef"]["kind"], binding["roleRef"]["name"]


def _build_service_version(parts: _Parts, namespace: str, version: str) -> Object:
    containers = [container for made in parts.deployments for container in made["spec"]["template"]["spec"]["containers"]]
    images = list(dict.fromkeys(container["image"] for container in containers))
    definitions = {item["spec"]["names"]["kind"]: item for item in parts.bundled if item["kind"] == _DEFINITION}
    owned = [
        {
            "name": f"{kind.plural}.{GROUP}",
            "kind": kind.kind,
            "version": VERSION,
            "displayName": kind.kind,
            "description": kind.description,
        }
        for kind in KINDS
        if kind.kind in definitions
    ]
    annotations = {
        "alm-examples": json.dumps(_EXAMPLES),
        "capabilities": "Seamless Upgrades",
        "categories": "Networking",
        "containerImage": images[0],
        "description": "Egress proxy settings and trusted CAs for clusters with Windows worker nodes",
        "operatorframework.io/suggested-namespace": namespace,
    }
    spec = {
        "displayName": "Transom",
        "description": _ABOUT,
        "version": version,
        "maturity": "alpha",
        "minKubeVersion": "1.30.0",
        "keywords": ["windows", "proxy", "egress", "certificates"],
        "provider": {"name": "Transom"},
        "icon": [{"base64data": base64.b64encode(_ICON).decode(), "mediatype": "image/svg+xml"}],
        # of a bundle for all namespaces OLM makes cluster-wide what is Transom's in its own (ensureSingletonRBAC): its Secrets
        "installModes": [
            {"type": mode, "supported": mode == "OwnNamespace"}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "install": {"strategy": "deployment", "spec": _build_install_strategy(parts)},
        "customresourcedefinitions": {"owned": owned},
        "relatedImages": [
            {"name": image.rpartition("/")[2].partition("@")[0].partition(":")[0], "image": image} for image in images
        ],
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": f"{NAME}.v{version}", "namespace": "placeholder", "annotations": annotations},
        "spec": spec,
    }


def _build_install_strategy(parts: _Parts) -> Object:
    def build_permissions(binding: str) -> list[Object]:
        listed = ((account, parts.list_rules(account, binding)) for account in parts.accounts)
        return [{"serviceAccountName": account, "rules": rules} for account, rules in listed if rules]

    deployments = [
        {"name": deployment["metadata"]["name"], "label": deployment["metadata"]["labels"], "spec": deployment["spec"]}
        for deployment in parts.deployments
    ]
    return {
        "clusterPermissions": build_permissions("ClusterRoleBinding"),
        "permissions": build_permissions("RoleBinding"),
        "deployments": deployments,
    }


def _without_namespace(manifest: Mapping[str, Any]) -> Object:
    """Return an object without its namespace: OLM creates it in the Subscription's namespace."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    return {**manifest, "metadata": metadata}
