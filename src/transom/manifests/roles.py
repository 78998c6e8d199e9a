"""What Transom may do: a ServiceAccount, and for each controller the verbs that it uses and no others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transom.manifests.conditions import AllTests, HasAnyOf, IsSet, Test, ValuePlace
from transom.manifests.grants import LABELS, NAME, RBAC, Grants, Rule, build_account_values, build_rule, iter_account_objects
from transom.manifests.templates import OWN, Conditional, resolve_template
from transom.pods.environment import CONFIG_MAP, LEDGER, SECRET
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.proxy.infrastructure_kinds import read_kinds
from transom.rollout.state import CONFIG_MAP_NAME
from transom.windows.nodes.windows_instance import BOOTSTRAPPERS, CLIENT, SERVING

EGRESS_PROXIES: Final = "egressproxies.transom.dev"
FOLLOW: Final = "list watch"
"""A reflector's verbs."""
TELL: Final = build_rule("", "events", "create patch", "reports events, with a count instead of repetitions")
_USER_DATA: Final = build_rule(
    "", "secrets", f"get create patch {FOLLOW}", "the user data of new Windows machines", "windows-user-data"
)
_SETTINGS: Final = "what the settings are made of"
_OPENSHIFT_TOKEN: Final = build_rule("", "secrets", FOLLOW, "OpenShift's token for nodes that join", "node-bootstrapper-token")
_MACHINES: Final = build_rule("machine.openshift.io", "machines", FOLLOW, "which machines of OpenShift are Windows hosts")
_TEMPLATES: Final = (
    build_rule(
        "bootstrap.cluster.x-k8s.io", "kubeadmconfigs kubeadmconfigtemplates", FOLLOW, "which templates name Transom's Secrets"
    ),
    build_rule("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", FOLLOW, "which control planes name Transom's Secrets"),
    build_rule(
        "cluster.x-k8s.io", "machinedeployments machinepools machines", FOLLOW, "which machines are older than the settings"
    ),
)
_FINALIZER: Final = build_rule(
    "transom.dev", "windowsinstances", "patch", "the finalizer: Transom restores a host before its object is deleted"
)
_STATUS: Final = build_rule("transom.dev", "windowsinstances/status", "patch", "conditions of a host")
_BEGUN: Final = (
    build_rule("", "configmaps", "create", "which hosts a rollout is changing, for the next leader"),
    build_rule("", "configmaps", "update", "the same", CONFIG_MAP_NAME),
)
_LEASE: Final = (
    build_rule("coordination.k8s.io", "leases", "create", "leader election: one replica is active"),
    build_rule("coordination.k8s.io", "leases", "get update", "leader election: one replica is active", "transom"),
)


def _iter_infrastructure_rules() -> Iterator[Rule]:
    plurals: dict[str, list[str]] = {}
    for group, plural in read_kinds().values():
        plurals.setdefault(group, []).append(plural)
    for group, names in plurals.items():
        yield build_rule(group, " ".join(names), FOLLOW, "the networks of clusters' machines, for NO_PROXY")


ALWAYS: Final = Grants(
    everywhere=(
        build_rule("transom.dev", "egressproxies", FOLLOW, _SETTINGS),
        build_rule("config.openshift.io", "proxies networks infrastructures", FOLLOW, _SETTINGS),
        build_rule("networking.k8s.io", "servicecidrs", FOLLOW, "the networks in NO_PROXY"),
        build_rule("cluster.x-k8s.io", "clusters", FOLLOW, "the clusters of Cluster API that settings belong to"),
        *_iter_infrastructure_rules(),
        build_rule(
            "",
            "configmaps",
            FOLLOW,
            "the cluster's networks (kube-system, kube-public), OpenShift's trusted CA, ConfigMaps that request the bundle",
        ),
        build_rule("", "nodes", FOLLOW, "which Node is a host's, and whether it is Ready"),
        build_rule(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "get",
            "distinguishes a deleted EgressProxy from one that disappeared with its CRD",
            EGRESS_PROXIES,
        ),
        build_rule("", "namespaces", "get", "the namespace's UID, which identifies this installation", OWN),
    ),
    own=(
        build_rule("transom.dev", "windowsinstances", FOLLOW, "the hosts"),
        build_rule("", "secrets", FOLLOW, "credentials, SSH keys, stored data of Transom"),
        *_LEASE,
        build_rule("", "events", "create patch", "reports malformed objects of any namespace"),
    ),
)
"""What every operator needs, whichever controllers run."""
_ALL_GOES: Final = "keeps hosts unchanged if all of Transom is deleted"
_RESUME: Final = build_rule("", "namespaces", FOLLOW, f"the annotation that resumes a halted rollout; {_ALL_GOES}", OWN)
_HOSTS: Final = (
    _RESUME,
    build_rule("apiextensions.k8s.io", "customresourcedefinitions", "get", _ALL_GOES, "windowsinstances.transom.dev"),
)
GRANTS: Final[Mapping[str, Grants]] = {
    "egress": Grants(
        everywhere=(
            build_rule("", "configmaps", "patch", "ConfigMaps that request the bundle, in any namespace"),
            build_rule("transom.dev", "egressproxies/status", "patch", "conditions of the settings"),
            build_rule("transom.dev", "egressproxies", "patch", "the finalizer: Transom restores hosts first", "cluster"),
        ),
        own=(build_rule("", "secrets", "create", "the key of the hashes in a status"), TELL),
        default=(TELL,),
    ),
    "hosts": Grants(
        everywhere=(
            *_HOSTS,
            build_rule("cluster.x-k8s.io", "machines", "get", "whether a restored host is deleted with its Machine"),
        ),
        own=(
            _STATUS,
            _FINALIZER,
            build_rule("", "secrets", "create patch", "the key of the hashes in a status; keys that hosts have accepted"),
            *_BEGUN,
            TELL,
        ),
    ),
    "clusters": Grants(
        everywhere=(
            build_rule(
                "", "secrets", "get create patch delete", "the objects for workload clusters, in the namespace of each Cluster"
            ),
            build_rule("", "configmaps", "get create patch delete", "the objects for workload clusters without credentials"),
            build_rule("application.giantswarm.io", "apps", f"{FOLLOW} patch", "Apps that request the values"),
            build_rule("helm.toolkit.fluxcd.io", "helmreleases", f"{FOLLOW} patch", "HelmReleases that request the values"),
            *_TEMPLATES,
        ),
    ),
    "machines": Grants(
        everywhere=(
            *_TEMPLATES,
            build_rule(
                "bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates", "patch", "templates that request Transom's entries"
            ),
            build_rule("bootstrap.cluster.x-k8s.io", "kubeadmconfigs", "get patch", "the same for MachinePools"),
            build_rule(
                "controlplane.cluster.x-k8s.io",
                "kubeadmcontrolplanes",
                "patch",
                "the same entries; a rollout",
            ),
            build_rule("cluster.x-k8s.io", "machinedeployments", "patch", "a rollout"),
            build_rule(
                "",
                "secrets",
                "get patch",
                "the creation time of the Secrets for the first boot of machines; Transom records edited templates on them",
            ),
        ),
    ),
    "propagation": Grants(
        everywhere=(
            build_rule("", "secrets", "get", "the kubeconfigs of workload clusters, in the namespace of each Cluster"),
            build_rule("", "namespaces", "get", "whether a kubeconfig refers to this cluster itself", "kube-system"),
        ),
    ),
    "instances": Grants(
        everywhere=(
            _MACHINES,
            build_rule("cluster.x-k8s.io", "machines", FOLLOW, "which machines of Cluster API are Windows hosts"),
            build_rule("", "namespaces", FOLLOW, "whether Transom is being uninstalled", OWN),
        ),
        own=(
            build_rule(
                "transom.dev", "windowsinstances", "create patch delete", "instances of Machines and of `windows-instances`"
            ),
            TELL,
        ),
    ),
    "strays": Grants(
        everywhere=(
            build_rule("transom.dev", "windowsinstances", FOLLOW, "hosts in namespaces that the operator ignores"),
            build_rule("transom.dev", "windowsinstances/status", "patch", "reports that the operator ignores a host"),
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
            build_rule("certificates.k8s.io", "certificatesigningrequests", FOLLOW, "certificates that kubelets request"),
            build_rule(
                "certificates.k8s.io",
                "certificatesigningrequests/approval",
                "patch",
                "approves those of Transom's instances",
            ),
            build_rule("certificates.k8s.io", "signers", "approve", "approval, for two signers", CLIENT, SERVING),
            _OPENSHIFT_TOKEN,
            build_rule("", "services", "list", "refuses certificates with a Service's name or address"),
        ),
        own=(
            build_rule(
                "transom.dev", "windowsinstances/status", "patch", "which Node a host is, before its certificate is approved"
            ),
            TELL,
        ),
        default=(
            build_rule(
                "discovery.k8s.io",
                "endpointslices",
                "get",
                "refuses certificates with the API server's addresses",
                "kubernetes",
            ),
            TELL,
        ),
    ),
    "nodes": Grants(
        everywhere=(
            *_HOSTS,
            _MACHINES,
            build_rule("operator.openshift.io", "networks", FOLLOW, "whether the network supports Windows nodes"),
            build_rule(
                "config.openshift.io", "imagedigestmirrorsets imagetagmirrorsets", FOLLOW, "containerd's registry mirrors"
            ),
            build_rule("config.openshift.io", "images", FOLLOW, "which ConfigMap has the CAs of registries"),
            build_rule(
                "machineconfiguration.openshift.io", "controllerconfigs", FOLLOW, "the CAs of registries on Linux nodes"
            ),
            build_rule("machineconfiguration.openshift.io", "machineconfigs", "get", "the credential providers of workers"),
            build_rule(
                "machineconfiguration.openshift.io", "machineconfigpools", "get", "which MachineConfig workers use", "worker"
            ),
            _OPENSHIFT_TOKEN,
            build_rule("", "nodes", "get patch", "a payload's variables; annotations, the worker's role, and cordon"),
            build_rule("", "nodes", "delete", "the Node of a restored host, unless its Machine exists"),
            build_rule("machine.openshift.io", "machines", "get", "whether the Machine of a restored host exists"),
            build_rule("", "pods", "list", "drains a Node before its host is interrupted"),
            build_rule("", "pods/eviction", "create", "drains a Node by eviction, within disruption budgets"),
            build_rule("machine.openshift.io", "machinesets", FOLLOW, "how many of its machines may be unavailable at once"),
        ),
        own=(
            _STATUS,
            _FINALIZER,
            build_rule("", "secrets", "create patch delete", "the purpose of bootstrap tokens; keys that hosts have accepted"),
            *_BEGUN,
            TELL,
        ),
        system=(build_rule("", "secrets", "create", "bootstrap tokens; the admission policy refuses others"),),
        openshift={
            "openshift-config": (build_rule("", "secrets", FOLLOW, "the credentials of registry mirrors", "pull-secret"),)
        },
    ),
    "keys": Grants(
        everywhere=(_MACHINES, _RESUME),
        own=(build_rule("", "secrets", "patch delete", "keys that no host accepts any more"), TELL),
        openshift={
            "openshift-machine-api": (
                build_rule(
                    "machine.openshift.io",
                    "machines",
                    "delete",
                    "a Machine that accepts no key: its MachineSet creates another",
                ),
                build_rule("machine.openshift.io", "machinesets", "get", "whether a MachineSet creates another"),
                build_rule("", "secrets", "get", "whether new machines get the current key", "windows-user-data"),
            )
        },
    ),
    "pods": Grants(
        everywhere=(
            build_rule("", "namespaces pods", FOLLOW, "which namespaces and pods request settings"),
            build_rule(
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                FOLLOW,
                "whether the API server calls the admission server for new pods",
                REGISTRATION,
            ),
            build_rule("", "secrets", "get create patch delete", "the URLs that injected pods refer to", SECRET),
            build_rule("", "configmaps", "create patch delete", "the CAs that injected pods refer to", CONFIG_MAP),
        ),
        own=(build_rule("", "secrets", "create patch", "which namespaces have that Secret", LEDGER),),
        default=(TELL,),
    ),
}
CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "egress": ("egress",),
    "windows": ("hosts", "instances", "strays", "userdata", "certificates", "nodes", "keys"),
    "fleet": ("clusters", "machines", "propagation"),
    "pods": ("pods",),
}
"""The groups of controllers that `--controllers` accepts, in addition to single controllers."""


def parse_controllers(text: str | None) -> tuple[str, ...]:
    """Return the controllers in a comma-separated list of names and groups, each once; all of them for None.

    Raises:
        ValueError: an unknown name, or an empty list.
    """
    named = list(CONTROLLERS) if text is None else [name for part in text.split(",") if (name := part.strip())]
    unknown = [name for name in named if name not in CONTROLLERS and name not in GRANTS]
    if unknown or not named:
        parts = "; ".join(f"{name} ({', '.join(of)})" if len(of) > 1 else name for name, of in CONTROLLERS.items())
        raise ValueError(f"unknown controller {unknown[0]!r}; use {parts}" if unknown else f"use one or more of {parts}")
    return tuple(dict.fromkeys(item for name in named for item in CONTROLLERS.get(name, (name,))))


def iter_roles(namespace: str, controllers: Iterable[str], *, openshift: bool = False) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom run` in a namespace, for some of its controllers."""
    values = {"controllers": list(controllers), "openshift": openshift, **build_account_values()}
    yield from resolve_template(list(iter_role_templates()), values, namespace)


CHOSEN: Final = ValuePlace("controllers")
OPENSHIFT: Final = IsSet(ValuePlace("openshift"))


def build_controller_test(controller: str) -> HasAnyOf:
    """Return a test that is true if a controller is selected, by its name or its group."""
    return HasAnyOf(
        CHOSEN, (controller, *(name for name, of in CONTROLLERS.items() if controller in of and name != controller))
    )


def iter_role_templates() -> Iterator[Any]:
    """Yield the same objects as templates, with the values `controllers` and `openshift`."""
    needed: list[tuple[Rule, Test | None]] = [(item, None) for item in ALWAYS.everywhere]
    needed += [(item, build_controller_test(name)) for name, grants in GRANTS.items() for item in grants.everywhere]
    placed: dict[str, list[tuple[Rule, Test | None]]] = {}
    for name, grants in {"": ALWAYS, **GRANTS}.items():
        for place, rules in grants.iter_namespaced_rules(OWN, openshift=True):
            tests: list[Test] = [
                *([build_controller_test(name)] if name else []),
                *([OPENSHIFT] if place in grants.openshift else []),
            ]
            test = AllTests(tuple(tests)) if len(tests) > 1 else tests[0] if tests else None
            placed.setdefault(place, []).extend((item, test) for item in rules)
    yield from iter_account_objects(NAME, "operator", needed, placed)
    yield Conditional(build_controller_test("certificates"), _build_bootstrapper_binding())


def _build_bootstrapper_binding() -> dict[str, Any]:
    """Build the binding that lets holders of bootstrap tokens request certificates, and nothing else."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAME}-bootstrappers", "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "Group", "name": BOOTSTRAPPERS, "apiGroup": "rbac.authorization.k8s.io"}],
    }


VERIFY_CLUSTER: Final = "transom-verify-cluster"
VERIFY_CLUSTER_RULES: Final[tuple[Rule, ...]] = (
    build_rule("", "nodes", "list", "the Windows nodes, and one Linux node"),
    build_rule(
        "", "namespaces", "get list create patch delete", "the namespace of the verification, and those of earlier runs"
    ),
    build_rule("", "pods", "list create deletecollection", "a web server on each node; deletes it if the kubelet does not"),
    build_rule("", "pods/log", "get", "check `logs`"),
    build_rule("", "pods/exec", "get create", "a connection from each pod; Kubernetes 1.35 requires `create` (KEP-4006)"),
    build_rule("", "services", "list create", "a Service for Windows pods, one for Linux pods, and a load balancer"),
)


def build_verify_cluster_role() -> dict[str, Any]:
    """Build a ClusterRole of the rules for `transom verify cluster`, and no others."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": VERIFY_CLUSTER},
        "rules": [verify_cluster_rule.to_manifest() for verify_cluster_rule in VERIFY_CLUSTER_RULES],
    }
