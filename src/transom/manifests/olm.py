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
    "Keeps the egress proxy settings and the trusted CAs of Windows worker nodes, of new pods and of workload clusters as one "
    "EgressProxy says, and joins, upgrades and gives back Windows workers. Before the Subscription apply beside.yaml: rights "
    "in other namespaces than its own, and policies, which no bundle can hold."
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
    """Objects by the name of their file in `manifests/`, the annotations of `metadata/`, and what is applied beside it."""

    manifests: dict[str, Object]
    annotations: dict[str, str]
    beside: list[Object]


def bundle(objects: Iterable[Object], namespace: str, version: str) -> OlmBundle:
    """The bundle of an install's objects (`install.objects`)."""
    parts = _Parts(list(objects), namespace)
    csv = _service_version(parts, namespace, version)
    manifests = {f"{NAME}.clusterserviceversion.yaml": csv}
    for one in parts.bundled:
        manifests[f"{one['metadata']['name']}.{one['kind'].lower()}.yaml"] = _placeless(one)
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


def catalog(made: OlmBundle, image: str, version: str) -> list[Object]:
    """The documents of a file-based catalog that has this bundle alone, in an image of that name."""
    csv = next(one for one in made.manifests.values() if one["kind"] == "ClusterServiceVersion")
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
    """Objects by where they go: into the ClusterServiceVersion, into the bundle as they are, or beside it."""

    def __init__(self, objects: list[Object], namespace: str) -> None:
        self._namespace = namespace
        near = [one for one in objects if one["metadata"].get("namespace", namespace) == namespace]
        self.deployments = [one for one in near if one["kind"] == "Deployment"]
        self.accounts = sorted({one["spec"]["template"]["spec"]["serviceAccountName"] for one in self.deployments})
        # OLM makes these accounts, their rights and the Deployments by itself
        self._bindings = [one for one in near if "subjects" in one and all(map(self._account, one["subjects"]))]
        references = [_reference(one) for one in self._bindings]
        self._roles = {found: one for one in near if (found := (one["kind"], one["metadata"]["name"])) in references}
        accounts = [one for one in near if one["kind"] == "ServiceAccount" and one["metadata"]["name"] in self.accounts]
        made = [*self.deployments, *accounts, *self._bindings, *self._roles.values()]
        left = [one for one in objects if one not in made and one["kind"] != "Namespace"]
        self.bundled = [one for one in left if one["kind"] == _DEFINITION or (one["kind"] in _TAKEN and one in near)]
        self.beside = [one for one in left if one not in self.bundled]

    def rules(self, account: str, binding: str) -> list[Object]:
        """What the bindings of that kind give an account; RoleBindings of Transom's own namespace alone."""
        found = (one for one in self._bindings if one["kind"] == binding)
        references = [_reference(one) for one in found if account in map(self._account, one["subjects"])]
        return [rule for reference in references for rule in self._roles[reference]["rules"]]

    def _account(self, subject: Object) -> str | None:
        """The account of a Deployment that a subject is."""
        ours = subject["kind"] == "ServiceAccount" and subject.get("namespace") == self._namespace
        return subject["name"] if ours and subject["name"] in self.accounts else None


def _reference(binding: Object) -> tuple[str, str]:
    return binding["roleRef"]["kind"], binding["roleRef"]["name"]


def _service_version(parts: _Parts, namespace: str, version: str) -> Object:
    containers = [one for made in parts.deployments for one in made["spec"]["template"]["spec"]["containers"]]
    images = list(dict.fromkeys(one["image"] for one in containers))
    definitions = {one["spec"]["names"]["kind"]: one for one in parts.bundled if one["kind"] == _DEFINITION}
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
        "install": {"strategy": "deployment", "spec": _install(parts)},
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


def _install(parts: _Parts) -> Object:
    def permissions(binding: str) -> list[Object]:
        listed = ((account, parts.rules(account, binding)) for account in parts.accounts)
        return [{"serviceAccountName": account, "rules": rules} for account, rules in listed if rules]

    deployments = [
        {"name": one["metadata"]["name"], "label": one["metadata"]["labels"], "spec": one["spec"]} for one in parts.deployments
    ]
    return {
        "clusterPermissions": permissions("ClusterRoleBinding"),
        "permissions": permissions("RoleBinding"),
        "deployments": deployments,
    }


def _placeless(one: Mapping[str, Any]) -> Object:
    """An object without its namespace: OLM puts it into that of the Subscription."""
    metadata = {name: value for name, value in one["metadata"].items() if name != "namespace"}
    return {**one, "metadata": metadata}
