"""What Transom may do: a ServiceAccount, and for each controller the verbs that it uses and no others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.windows.signers import BOOTSTRAPPERS, CLIENT, SERVING

NAME: Final = "transom"
LABELS: Final = {"app.kubernetes.io/name": "transom"}
RBAC: Final = "rbac.authorization.k8s.io/v1"
FOLLOW: Final = ["list", "watch"]
"""A reflector's verbs."""
_CLUSTER_EVENTS: Final = "default"
"""The namespace of events about cluster-scoped objects."""
_SYSTEM: Final = "kube-system"

Rule = dict[str, list[str]]


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Rule:
    """One rule of a role; `names` narrows it to some objects."""
    made = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return made | {"resourceNames": names} if names else made


TELL: Final = rule("", ["events"], ["create", "patch"])


_USER_DATA: Final = rule("", ["secrets"], ["get", "create", "patch"], ["windows-user-data"])


class Grants(msgspec.Struct, frozen=True):
    """What one controller needs, by where it needs it.

    `everywhere` is in the ClusterRole, `own` in Transom's namespace, `default` in the namespace of events about cluster-scoped
    objects, `system` in kube-system. `openshift` is by namespace, for those that there are on OpenShift alone:
    `transom manifests --openshift`.
    """

    everywhere: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()
    default: tuple[Rule, ...] = ()
    system: tuple[Rule, ...] = ()
    openshift: Mapping[str, tuple[Rule, ...]] = msgspec.field(default_factory=dict)


_GRANTS: Final[Mapping[str, Grants]] = {
    "egress": Grants(
        everywhere=(
            # ConfigMaps that ask for the bundle may be in any namespace
            rule("", ["configmaps"], ["patch"]),
            rule("transom.dev", ["egressproxies/status"], ["patch"]),
        ),
        own=(TELL,),
        default=(TELL,),
    ),
    "hosts": Grants(
        # whether a host that is given back goes with its Machine
        everywhere=(rule("cluster.x-k8s.io", ["machines"], ["get"]),),
        own=(
            rule("transom.dev", ["windowsinstances/status"], ["patch"]),
            # the finalizer
            rule("transom.dev", ["windowsinstances"], ["patch"]),
            # the key of the hashes in a status; keys that were seen to open hosts
            rule("", ["secrets"], ["create", "patch"]),
            TELL,
        ),
    ),
    "clusters": Grants(
        everywhere=(
            rule("", ["secrets"], ["get", "create", "patch", "delete"]),
            rule("", ["configmaps"], ["get", "create", "patch", "delete"]),
            rule("application.giantswarm.io", ["apps"], [*FOLLOW, "patch"]),
            rule("helm.toolkit.fluxcd.io", ["helmreleases"], [*FOLLOW, "patch"]),
            rule("bootstrap.cluster.x-k8s.io", ["kubeadmconfigs", "kubeadmconfigtemplates"], FOLLOW),
            rule("controlplane.cluster.x-k8s.io", ["kubeadmcontrolplanes"], FOLLOW),
            rule("cluster.x-k8s.io", ["machinedeployments", "machinepools", "machines"], FOLLOW),
        ),
    ),
    "machines": Grants(
        everywhere=(
            rule("bootstrap.cluster.x-k8s.io", ["kubeadmconfigs", "kubeadmconfigtemplates"], FOLLOW),
            rule("controlplane.cluster.x-k8s.io", ["kubeadmcontrolplanes"], FOLLOW),
            rule("cluster.x-k8s.io", ["machinedeployments", "machinepools", "machines"], FOLLOW),
            # templates that ask for the entries; a rollout is a field of the other two
            rule("bootstrap.cluster.x-k8s.io", ["kubeadmconfigtemplates"], ["patch"]),
            rule("controlplane.cluster.x-k8s.io", ["kubeadmcontrolplanes"], ["patch"]),
            rule("cluster.x-k8s.io", ["machinedeployments"], ["patch"]),
            # when the Secrets that machines boot with were written; which templates were edited is noted on them
            rule("", ["secrets"], ["get", "patch"]),
        ),
    ),
    "propagation": Grants(
        everywhere=(
            # the kubeconfigs of workload clusters, each beside its Cluster
            rule("", ["secrets"], ["get"]),
            rule("", ["namespaces"], ["get"], ["kube-system"]),
        ),
    ),
    "instances": Grants(
        everywhere=(
            rule("machine.openshift.io", ["machines"], FOLLOW),
            rule("cluster.x-k8s.io", ["machines"], FOLLOW),
        ),
        own=(rule("transom.dev", ["windowsinstances"], ["create", "patch", "delete"]), TELL),
    ),
    "userdata": Grants(
        everywhere=(rule("machine.openshift.io", ["machines"], FOLLOW),),
        own=(TELL,),
        openshift=dict.fromkeys(("openshift-machine-api", "openshift-cluster-api"), (_USER_DATA,)),
    ),
    "certificates": Grants(
        everywhere=(
            rule("machine.openshift.io", ["machines"], FOLLOW),
            rule("certificates.k8s.io", ["certificatesigningrequests"], FOLLOW),
            rule("certificates.k8s.io", ["certificatesigningrequests/approval"], ["patch"]),
            rule("certificates.k8s.io", ["signers"], ["approve"], [CLIENT, SERVING]),
            # OpenShift's, by which its nodes join: it is there by this name alone
            rule("", ["secrets"], FOLLOW, ["node-bootstrapper-token"]),
        ),
        own=(TELL,),
        default=(TELL,),
    ),
    "nodes": Grants(
        everywhere=(
            rule("machine.openshift.io", ["machines"], FOLLOW),
            rule("operator.openshift.io", ["networks"], FOLLOW),
            rule("config.openshift.io", ["imagedigestmirrorsets", "imagetagmirrorsets"], FOLLOW),
            rule("", ["secrets"], FOLLOW, ["node-bootstrapper-token"]),
            # the Node as a payload's variables see it; its annotations, the worker's role, and whether it takes pods
            rule("", ["nodes"], ["get", "patch"]),
            # the Node of a host that is given back, unless its Machine is there
            rule("", ["nodes"], ["delete"]),
            rule("machine.openshift.io", ["machines"], ["get"]),
            # a Node is drained before its host is interrupted
            rule("", ["pods"], ["list"]),
            rule("", ["pods/eviction"], ["create"]),
            # how many of its machines may be away at once
            rule("machine.openshift.io", ["machinesets"], FOLLOW),
        ),
        own=(
            rule("transom.dev", ["windowsinstances/status"], ["patch"]),
            # the finalizer
            rule("transom.dev", ["windowsinstances"], ["patch"]),
            # what a bootstrap token was made for; keys that were seen to open hosts
            rule("", ["secrets"], ["create", "patch", "delete"]),
            TELL,
        ),
        # bootstrap tokens
        system=(rule("", ["secrets"], ["create"]),),
        # what registry mirrors want
        openshift={"openshift-config": (rule("", ["secrets"], ["get"], ["pull-secret"]),)},
    ),
    "keys": Grants(
        everywhere=(rule("machine.openshift.io", ["machines"], FOLLOW),),
        # keys that open no host any more
        own=(rule("", ["secrets"], ["patch", "delete"]), TELL),
        openshift={
            "openshift-machine-api": (
                # a Machine that no key opens is replaced by its MachineSet, with user data that has today's
                rule("machine.openshift.io", ["machines"], ["delete"]),
                rule("machine.openshift.io", ["machinesets"], ["get"]),
                rule("", ["secrets"], ["get"], ["windows-user-data"]),
            )
        },
    ),
    "pods": Grants(
        everywhere=(
            rule("", ["namespaces", "pods"], FOLLOW),
            rule("", ["secrets"], ["get", "create", "patch", "delete"]),
            rule("", ["configmaps"], ["create", "patch", "delete"]),
        ),
        default=(TELL,),
    ),
}
CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "egress": ("egress",),
    "windows": ("hosts", "instances", "userdata", "certificates", "nodes", "keys"),
    "fleet": ("clusters", "machines", "propagation"),
    "pods": ("pods",),
}
"""The names that `--controllers` takes, each with the controllers that it stands for; one of these can be named, too."""


def controllers(text: str | None) -> tuple[str, ...]:
    """The controllers that a text of names with commas stands for, each once; all of them for None.

    Raises:
        ValueError: a name that nothing has, or none at all.
    """
    named = list(CONTROLLERS) if text is None else [name for part in text.split(",") if (name := part.strip())]
    unknown = [name for name in named if name not in CONTROLLERS and name not in _GRANTS]
    if unknown or not named:
        parts = "; ".join(f"{name} ({', '.join(of)})" if len(of) > 1 else name for name, of in CONTROLLERS.items())
        raise ValueError(f"there is no controller {unknown[0]!r}; there are {parts}" if unknown else f"there are {parts}")
    return tuple(dict.fromkeys(one for name in named for one in CONTROLLERS.get(name, (name,))))


def roles(namespace: str, controllers: Iterable[str], *, openshift: bool = False) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom run` in a namespace, for some of its controllers."""
    chosen = tuple(controllers)
    grants = [_GRANTS[name] for name in chosen]
    placed: dict[str, list[Rule]] = {namespace: [*_own(), *(one for grant in grants for one in grant.own)]}
    placed.setdefault(_CLUSTER_EVENTS, []).extend(one for grant in grants for one in grant.default)
    placed.setdefault(_SYSTEM, []).extend(one for grant in grants for one in grant.system)
    for grant in grants if openshift else ():
        for place, more in grant.openshift.items():
            placed.setdefault(place, []).extend(more)
    everywhere = [*_everywhere(namespace, chosen), *(one for grant in grants for one in grant.everywhere)]
    yield from granted(
        NAME, namespace, _distinct(everywhere), {place: _distinct(rules) for place, rules in placed.items() if rules}
    )
    if "certificates" in chosen:
        yield _bootstrappers()


def _bootstrappers() -> dict[str, Any]:
    """The holders of bootstrap tokens may ask for certificates, and nothing else."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAME}-bootstrappers", "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "Group", "name": BOOTSTRAPPERS, "apiGroup": "rbac.authorization.k8s.io"}],
    }


def _everywhere(namespace: str, chosen: tuple[str, ...]) -> Iterator[Rule]:
    """What the settings are made of, whoever runs."""
    yield rule("transom.dev", ["egressproxies"], FOLLOW)
    yield rule("config.openshift.io", ["proxies", "networks", "infrastructures"], FOLLOW)
    yield rule("networking.k8s.io", ["servicecidrs"], FOLLOW)
    yield rule("cluster.x-k8s.io", ["clusters"], FOLLOW)
    # the networks of the cluster (kube-system, kube-public), OpenShift's trusted CA, ConfigMaps that ask for the bundle
    yield rule("", ["configmaps", "nodes"], FOLLOW)
    yield rule("", ["namespaces"], ["get"], [namespace])
    # an EgressProxy that went with its definition is an accident, one that was deleted is a wish
    yield rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], ["egressproxies.transom.dev"])
    if "hosts" in chosen or "nodes" in chosen:
        # hosts are left as they are where everything of Transom is deleted
        yield rule("", ["namespaces"], FOLLOW, [namespace])
        yield rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], ["windowsinstances.transom.dev"])


def _own() -> Iterator[Rule]:
    yield rule("transom.dev", ["windowsinstances"], FOLLOW)
    yield rule("", ["secrets"], FOLLOW)
    yield rule("coordination.k8s.io", ["leases"], ["create"])
    yield rule("coordination.k8s.io", ["leases"], ["get", "update"], [NAME])


def _distinct(rules: Iterable[Rule]) -> list[Rule]:
    """Each rule once, in order: several controllers may need the same."""
    found: list[Rule] = []
    for one in rules:
        if one not in found:
            found.append(one)
    return found


def granted(name: str, namespace: str, everywhere: list[Rule], placed: Mapping[str, list[Rule]]) -> Iterator[dict[str, Any]]:
    """ServiceAccount `name` in a namespace, and what it may do: everywhere, and in the namespaces that are named."""
    account = {"name": name, "namespace": namespace, "labels": LABELS}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    yield {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name, "labels": LABELS}, "rules": everywhere}
    yield _binding("ClusterRoleBinding", "ClusterRole", namespace, None, name)
    for place, rules in placed.items():
        metadata = {"name": name, "namespace": place, "labels": LABELS}
        yield {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}
        yield _binding("RoleBinding", "Role", namespace, place, name)


def _binding(kind: str, role: str, namespace: str, place: str | None, name: str) -> dict[str, Any]:
    """The ServiceAccount `name` in a namespace, bound to the role of that name."""
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name, "labels": LABELS} | ({"namespace": place} if place else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
