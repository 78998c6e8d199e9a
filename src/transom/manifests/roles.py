"""What Transom may do: a ServiceAccount, and for each controller the verbs that it uses and no others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transom.manifests.conditions import AnyOf, Both, IsGiven, Test, ValuePlace
from transom.manifests.grants import LABELS, NAME, RBAC, Grants, Rule, granted, rule
from transom.manifests.templates import OWN, Conditional, resolved
from transom.pods.environment import CONFIG_MAP, LEDGER, SECRET
from transom.pods.registration import NAME as REGISTRATION
from transom.proxy.infrastructure_kinds import read_kinds
from transom.windows.nodes import BOOTSTRAPPERS, CLIENT, SERVING
from transom.windows.nodes.rollout import ROLLOUTS

EGRESS_PROXIES: Final = "egressproxies.transom.dev"
FOLLOW: Final = "list watch"
"""A reflector's verbs."""
TELL: Final = rule("", "events", "create patch", "what happened to an object, told once and counted")
_USER_DATA: Final = rule(
    "", "secrets", f"get create patch {FOLLOW}", "the user data of new Windows machines", "windows-user-data"
)
_SETTINGS: Final = "what the settings are made of"
_OPENSHIFT_TOKEN: Final = rule("", "secrets", FOLLOW, "OpenShift's token by which nodes join", "node-bootstrapper-token")
_MACHINES: Final = rule("machine.openshift.io", "machines", FOLLOW, "which machines of OpenShift are Windows hosts")
_TEMPLATES: Final = (
    rule("bootstrap.cluster.x-k8s.io", "kubeadmconfigs kubeadmconfigtemplates", FOLLOW, "which templates name our Secrets"),
    rule("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", FOLLOW, "which control planes name our Secrets"),
    rule("cluster.x-k8s.io", "machinedeployments machinepools machines", FOLLOW, "which machines are older than the settings"),
)
_FINALIZER: Final = rule(
    "transom.dev", "windowsinstances", "patch", "the finalizer: a host is given back before its object goes"
)
_STATUS: Final = rule("transom.dev", "windowsinstances/status", "patch", "conditions of a host")
_BEGUN: Final = (
    rule("", "configmaps", "create", "which hosts a rollout has begun, for the next leader"),
    rule("", "configmaps", "update", "the same", ROLLOUTS),
)
_LEASE: Final = (
    rule("coordination.k8s.io", "leases", "create", "who works: one replica at a time"),
    rule("coordination.k8s.io", "leases", "get update", "who works: one replica at a time", "transom"),
)


def _follow_infrastructure() -> Iterator[Rule]:
    plurals: dict[str, list[str]] = {}
    for group, plural in read_kinds().values():
        plurals.setdefault(group, []).append(plural)
    for group, names in plurals.items():
        yield rule(group, " ".join(names), FOLLOW, "the networks of clusters' machines, which NO_PROXY has")


ALWAYS: Final = Grants(
    everywhere=(
        rule("transom.dev", "egressproxies", FOLLOW, _SETTINGS),
        rule("config.openshift.io", "proxies networks infrastructures", FOLLOW, _SETTINGS),
        rule("networking.k8s.io", "servicecidrs", FOLLOW, "the networks that NO_PROXY has"),
        rule("cluster.x-k8s.io", "clusters", FOLLOW, "to which cluster of Cluster API settings belong"),
        *_follow_infrastructure(),
        rule(
            "",
            "configmaps",
            FOLLOW,
            "the cluster's networks (kube-system, kube-public), OpenShift's trusted CA, ConfigMaps that ask for the bundle",
        ),
        rule("", "nodes", FOLLOW, "which Node is a host's, and whether it is Ready"),
        rule(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "get",
            "an EgressProxy that went with its definition is an accident, one that was deleted is meant to be gone",
            EGRESS_PROXIES,
        ),
        rule("", "namespaces", "get", "the namespace's UID, by which this installation is told from others", OWN),
    ),
    own=(
        rule("transom.dev", "windowsinstances", FOLLOW, "the hosts"),
        rule("", "secrets", FOLLOW, "credentials, SSH keys, what Transom keeps"),
        *_LEASE,
        rule("", "events", "create patch", "objects of any namespace that cannot be read"),
    ),
)
"""What every operator needs, whichever controllers run."""
_ALL_GOES: Final = "hosts are left as they are where everything of Transom is deleted"
_RESUME: Final = rule("", "namespaces", FOLLOW, f"the annotation that lets a stopped rollout go on; {_ALL_GOES}", OWN)
_HOSTS: Final = (
    _RESUME,
    rule("apiextensions.k8s.io", "customresourcedefinitions", "get", _ALL_GOES, "windowsinstances.transom.dev"),
)
GRANTS: Final[Mapping[str, Grants]] = {
    "egress": Grants(
        everywhere=(
            rule("", "configmaps", "patch", "ConfigMaps that ask for the bundle may be in any namespace"),
            rule("transom.dev", "egressproxies/status", "patch", "conditions of the settings"),
            rule("transom.dev", "egressproxies", "patch", "the finalizer: hosts are given back first", "cluster"),
        ),
        own=(rule("", "secrets", "create", "the key of the hashes in a status"), TELL),
        default=(TELL,),
    ),
    "hosts": Grants(
        everywhere=(
            *_HOSTS,
            rule("cluster.x-k8s.io", "machines", "get", "whether a host that is given back goes with its Machine"),
        ),
        own=(
            _STATUS,
            _FINALIZER,
            rule("", "secrets", "create patch", "the key of the hashes in a status; keys that were seen to open hosts"),
            *_BEGUN,
            TELL,
        ),
    ),
    "clusters": Grants(
        everywhere=(
            rule("", "secrets", "get create patch delete", "what workload clusters get, each beside its Cluster"),
            rule("", "configmaps", "get create patch delete", "what workload clusters get that holds no credentials"),
            rule("application.giantswarm.io", "apps", f"{FOLLOW} patch", "Apps that ask for the values"),
            rule("helm.toolkit.fluxcd.io", "helmreleases", f"{FOLLOW} patch", "HelmReleases that ask for the values"),
            *_TEMPLATES,
        ),
    ),
    "machines": Grants(
        everywhere=(
            *_TEMPLATES,
            rule("bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates", "patch", "templates that ask for our entries"),
            rule("bootstrap.cluster.x-k8s.io", "kubeadmconfigs", "get patch", "the same of MachinePools"),
            rule(
                "controlplane.cluster.x-k8s.io",
                "kubeadmcontrolplanes",
                "patch",
                "the same entries; a rollout",
            ),
            rule("cluster.x-k8s.io", "machinedeployments", "patch", "a rollout"),
            rule(
                "",
                "secrets",
                "get patch",
                "when the Secrets that machines boot with were written; which templates were edited is noted on them",
            ),
        ),
    ),
    "propagation": Grants(
        everywhere=(
            rule("", "secrets", "get", "the kubeconfigs of workload clusters, each beside its Cluster"),
            rule("", "namespaces", "get", "whether a kubeconfig leads to this very cluster", "kube-system"),
        ),
    ),
    "instances": Grants(
        everywhere=(
            _MACHINES,
            rule("cluster.x-k8s.io", "machines", FOLLOW, "which machines of Cluster API are Windows hosts"),
            rule("", "namespaces", FOLLOW, "whether Transom is being uninstalled", OWN),
        ),
        own=(
            rule("transom.dev", "windowsinstances", "create patch delete", "instances of Machines and of `windows-instances`"),
            TELL,
        ),
    ),
    "strays": Grants(
        everywhere=(
            rule("transom.dev", "windowsinstances", FOLLOW, "hosts in namespaces where nobody works on them"),
            rule("transom.dev", "windowsinstances/status", "patch", "that nobody works on a host there"),
            TELL,
        ),
    ),
    "userdata": Grants(
        everywhere=(_MACHINES,),
        own=(TELL,),
        openshift=dict.fromkeys(("openshift-machine-api", "openshift-cluster-api"), (_USER_DATA,)),
    ),
    "certificates": Grants(
        everywhere=(
            _MACHINES,
            rule("certificates.k8s.io", "certificatesigningrequests", FOLLOW, "certificates that kubelets ask for"),
            rule(
                "certificates.k8s.io",
                "certificatesigningrequests/approval",
                "patch",
                "those of our instances are approved",
            ),
            rule("certificates.k8s.io", "signers", "approve", "approval, for two signers", CLIENT, SERVING),
            _OPENSHIFT_TOKEN,
            rule("", "services", "list", "no certificate of a host has a Service's name or address"),
        ),
        own=(
            rule("transom.dev", "windowsinstances/status", "patch", "which Node a host is, before its certificate is approved"),
            TELL,
        ),
        default=(
            rule("discovery.k8s.io", "endpointslices", "get", "no certificate has the API server's addresses", "kubernetes"),
            TELL,
        ),
    ),
    "nodes": Grants(
        everywhere=(
            *_HOSTS,
            _MACHINES,
            rule("operator.openshift.io", "networks", FOLLOW, "whether the network takes Windows nodes"),
            rule("config.openshift.io", "imagedigestmirrorsets imagetagmirrorsets", FOLLOW, "containerd's registry mirrors"),
            rule("config.openshift.io", "images", FOLLOW, "which ConfigMap has the CAs of registries"),
            rule("machineconfiguration.openshift.io", "controllerconfigs", FOLLOW, "the CAs of registries on Linux nodes"),
            rule("machineconfiguration.openshift.io", "machineconfigs", "get", "the credential providers of workers"),
            rule(
                "machineconfiguration.openshift.io", "machineconfigpools", "get", "which MachineConfig workers have", "worker"
            ),
            _OPENSHIFT_TOKEN,
            rule("", "nodes", "get patch", "a payload's variables; annotations, the worker's role, and whether it takes pods"),
            rule("", "nodes", "delete", "the Node of a host that is given back, unless its Machine is there"),
            rule("machine.openshift.io", "machines", "get", "whether the Machine of a host that is given back is there"),
            rule("", "pods", "list", "a Node is drained before its host is interrupted"),
            rule("", "pods/eviction", "create", "a Node is drained by eviction: budgets hold"),
            rule("machine.openshift.io", "machinesets", FOLLOW, "how many of its machines may be away at once"),
        ),
        own=(
            _STATUS,
            _FINALIZER,
            rule(
                "", "secrets", "create patch delete", "what a bootstrap token was made for; keys that were seen to open hosts"
            ),
            *_BEGUN,
            TELL,
        ),
        system=(rule("", "secrets", "create", "bootstrap tokens; the admission policy refuses others"),),
        openshift={"openshift-config": (rule("", "secrets", FOLLOW, "what registry mirrors want", "pull-secret"),)},
    ),
    "keys": Grants(
        everywhere=(_MACHINES, _RESUME),
        own=(rule("", "secrets", "patch delete", "keys that open no host any more"), TELL),
        openshift={
            "openshift-machine-api": (
                rule("machine.openshift.io", "machines", "delete", "a Machine that no key opens: its MachineSet makes another"),
                rule("machine.openshift.io", "machinesets", "get", "whether a MachineSet makes another"),
                rule("", "secrets", "get", "whether new machines get today's key", "windows-user-data"),
            )
        },
    ),
    "pods": Grants(
        everywhere=(
            rule("", "namespaces pods", FOLLOW, "which namespaces and pods asked for what"),
            rule(
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                FOLLOW,
                "whether new pods are asked about",
                REGISTRATION,
            ),
            rule("", "secrets", "get create patch delete", "the URLs that injected pods refer to", SECRET),
            rule("", "configmaps", "create patch delete", "the CAs that injected pods refer to", CONFIG_MAP),
        ),
        own=(rule("", "secrets", "create patch", "which namespaces have that Secret", LEDGER),),
        default=(TELL,),
    ),
}
CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "egress": ("egress",),
    "windows": ("hosts", "instances", "strays", "userdata", "certificates", "nodes", "keys"),
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
    unknown = [name for name in named if name not in CONTROLLERS and name not in GRANTS]
    if unknown or not named:
        parts = "; ".join(f"{name} ({', '.join(of)})" if len(of) > 1 else name for name, of in CONTROLLERS.items())
        raise ValueError(f"there is no controller {unknown[0]!r}; there are {parts}" if unknown else f"there are {parts}")
    return tuple(dict.fromkeys(one for name in named for one in CONTROLLERS.get(name, (name,))))


def roles(namespace: str, controllers: Iterable[str], *, openshift: bool = False) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom run` in a namespace, for some of its controllers."""
    values = {"controllers": list(controllers), "openshift": openshift}
    yield from resolved(list(role_templates()), values, namespace)


CHOSEN: Final = ValuePlace("controllers")
OPENSHIFT: Final = IsGiven(ValuePlace("openshift"))


def runs(controller: str) -> AnyOf:
    """Whether a controller is among those that were chosen, by its own name or by one that stands for several."""
    return AnyOf(CHOSEN, (controller, *(name for name, of in CONTROLLERS.items() if controller in of and name != controller)))


def role_templates() -> Iterator[Any]:
    """The same as templates, of the values `controllers` and `openshift`."""
    needed: list[tuple[Rule, Test | None]] = [(one, None) for one in ALWAYS.everywhere]
    needed += [(one, runs(name)) for name, grants in GRANTS.items() for one in grants.everywhere]
    placed: dict[str, list[tuple[Rule, Test | None]]] = {}
    for name, grants in {"": ALWAYS, **GRANTS}.items():
        for place, rules in grants.placed(OWN, openshift=True):
            tests: list[Test] = [*([runs(name)] if name else []), *([OPENSHIFT] if place in grants.openshift else [])]
            test = Both(tuple(tests)) if len(tests) > 1 else tests[0] if tests else None
            placed.setdefault(place, []).extend((one, test) for one in rules)
    yield from granted(NAME, needed, placed)
    yield Conditional(runs("certificates"), _bootstrappers())


def _bootstrappers() -> dict[str, Any]:
    """The holders of bootstrap tokens may ask for certificates, and nothing else."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAME}-bootstrappers", "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "Group", "name": BOOTSTRAPPERS, "apiGroup": "rbac.authorization.k8s.io"}],
    }


VERIFY_CLUSTER: Final = "transom-verify-cluster"
VERIFY_CLUSTER_RULES: Final[tuple[Rule, ...]] = (
    rule("", "nodes", "list", "the Windows nodes, and one of Linux"),
    rule("", "namespaces", "get list create patch delete", "the namespace of the verification, and those that were left"),
    rule("", "pods", "list create deletecollection", "a web server on each node; away where no kubelet ends it"),
    rule("", "pods/log", "get", "check `logs`"),
    rule("", "pods/exec", "get create", "a connection from each pod; `create` is asked for from Kubernetes 1.35 on (KEP-4006)"),
    rule("", "services", "list create", "a Service with pods of Windows, one of Linux, and a load balancer"),
)


def verify_cluster_role() -> dict[str, Any]:
    """A ClusterRole of these rules, and nothing else."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": VERIFY_CLUSTER},
        "rules": [one.manifest() for one in VERIFY_CLUSTER_RULES],
    }
