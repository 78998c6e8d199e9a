"""Whether Transom can be installed in a cluster, and whether an installation is complete: from facts to verdicts. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from transom.common.counting import format_first
from transom.common.mappings import get_nested_value
from transom.controllers.inventory.adoption import OPERATOR as WMCO
from transom.controllers.runtime.cached_objects import MANAGED_BY_WMCO
from transom.diagnosis.fields import format_label, get_condition, get_items, get_mapping, get_metadata, get_name, get_namespace
from transom.diagnosis.overview import build_overview, find_leader
from transom.diagnosis.snapshot import ClusterSnapshot, Value
from transom.manifests.definitions import GROUP, KINDS, VERSION, build_crds
from transom.pods.webhook_configuration import NAME as REGISTRATION
from transom.pods.webhook_configuration import is_own_configuration

Verdict = Literal["pass", "warn", "fail", "unknown"]
LEAST: Final = (1, 30)
"""The version of Kubernetes that the admission policies need: ValidatingAdmissionPolicy is stable since 1.30."""
CLUSTER_APPS_OPERATOR: Final = "cluster-apps-operator"
PEERS: Final = (WMCO, CLUSTER_APPS_OPERATOR)
_PEER_OPTION: Final = {WMCO: "wmco", CLUSTER_APPS_OPERATOR: "cluster-apps-operator"}
_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)")
_LISTED: Final = 5
_WEBHOOK: Final = "transom-webhook"


class InstallCheck(msgspec.Struct, frozen=True):
    """One check: `seen` is what it goes by, `do` what to do where it is not passed. `unknown`: it could not be read."""

    id: str
    claim: str
    verdict: Verdict
    seen: str
    do: str = ""


class Right(msgspec.Struct, frozen=True, order=True):
    """A right of an access review. `namespace` is empty for the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind, slash, subresource = self.resource.partition("/")
        resource = f"{kind}.{self.group}{slash}{subresource}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}{named}" + (f" in {self.namespace}" if self.namespace else "")


class Rights(msgspec.Struct, frozen=True):
    """The answers of access reviews: what is `missing` of what was asked; `why` is set where they could not be asked."""

    asked: int = 0
    missing: tuple[Right, ...] = ()
    why: str = ""


class ImageAnswer(msgspec.Struct, frozen=True):
    """What a registry said of an image. `status` is HTTP's; None where it was not reached, and `why` says why."""

    reference: str
    status: int | None = None
    why: str = ""


class ClusterFacts(msgspec.Struct, frozen=True):
    """What was read of a cluster for both kinds of check.

    `groups` are the API groups that it serves, `definitions` those of Transom by name, `binding` the ClusterRoleBinding
    `transom`, `deployments` those with the names of Transom and of its peers in all namespaces, `nodes` those of Windows. Of
    the kinds in `unread` nothing is known, and why.
    """

    namespace: str
    kubernetes: str
    groups: frozenset[str] = frozenset()
    definitions: Mapping[str, Value] = {}
    binding: Value | None = None
    deployments: tuple[Value, ...] = ()
    nodes: tuple[Value, ...] = ()
    unread: Mapping[str, str] = {}


# --- before an install


def iter_checks_before(
    cluster: ClusterFacts, own: Rights, roles: str | None, image: ImageAnswer | None
) -> Iterator[InstallCheck]:
    """Yield the checks of a cluster before the installation of Transom.

    `own` are the rights of the person for what `transom manifests` makes; `roles` is why the server would refuse its roles,
    None where it would not.
    """
    yield _check_kubernetes(cluster)
    yield _check_user(own, roles)
    yield _check_definitions_before(cluster)
    yield _check_other_install(cluster)
    yield _check_peers(cluster)
    yield _check_windows_nodes(cluster)
    yield _check_platform(cluster)
    yield _check_image(image)


def _check_kubernetes(cluster: ClusterFacts) -> InstallCheck:
    claim = "the API server has the version that Transom needs"
    match = _NUMBERS.match(cluster.kubernetes)
    if match is None:
        return _build_unknown("kubernetes", claim, cluster.kubernetes or "its version may not be read")
    least = ".".join(map(str, LEAST))
    if (int(match[1]), int(match[2])) < LEAST:
        do = "upgrade the cluster, or leave the policies out: transom manifests --part crds --part rbac --part operator ..."
        return InstallCheck("kubernetes", claim, "fail", f"{cluster.kubernetes}; the admission policies need {least}", do)
    return InstallCheck("kubernetes", claim, "pass", f"{cluster.kubernetes}; at least {least} is needed")


def _check_user(own: Rights, roles: str | None) -> InstallCheck:
    claim = "you may create everything that `transom manifests` prints"
    if own.why:
        return _build_unknown("rights", claim, own.why)
    if own.missing:
        do = "have a cluster administrator install it, or ask for these rights"
        return InstallCheck("rights", claim, "fail", f"you may not {_format_rights(own.missing)}", do)
    if roles is not None:
        do = "only who has the rights of a role, or the verb `escalate`, may create it: have a cluster administrator install it"
        return InstallCheck("rights", claim, "fail", roles, do)
    return InstallCheck("rights", claim, "pass", f"{own.asked} rights, and the roles themselves")


def _check_definitions_before(cluster: ClusterFacts) -> InstallCheck:
    claim = "Transom's CRDs do not exist, or can be updated"
    if why := cluster.unread.get("CustomResourceDefinition"):
        return _build_unknown("definitions", claim, why)
    if not cluster.definitions:
        return InstallCheck("definitions", claim, "pass", "not installed yet")
    going = [name for name, value in cluster.definitions.items() if get_metadata(value).get("deletionTimestamp")]
    if going:
        do = "wait until they are gone; objects with finalizers hold them: docs/uninstall.md"
        return InstallCheck("definitions", claim, "fail", f"{', '.join(going)}: being deleted", do)
    if drift := describe_drift(cluster.definitions):
        return InstallCheck("definitions", claim, "pass", f"installed, of another version: {drift}; an install updates them")
    return InstallCheck("definitions", claim, "pass", "installed, of this version")


def _check_other_install(cluster: ClusterFacts) -> InstallCheck:
    """Its ClusterRoles, bindings and policies have fixed names: a second one takes the rights of the first."""
    claim = "no other namespace of this cluster has a Transom"
    if why := cluster.unread.get("ClusterRoleBinding") or cluster.unread.get("Deployment"):
        return _build_unknown("other-transom", claim, why)
    elsewhere = {str(item.get("namespace")) for item in get_items(cluster.binding, "subjects")}
    elsewhere |= {get_namespace(deployment) or "" for deployment in cluster.deployments if get_name(deployment) == "transom"}
    elsewhere -= {cluster.namespace}
    if elsewhere:
        names = ", ".join(sorted(elsewhere))
        do = f"one Transom works in a cluster: install into that namespace (-n {sorted(elsewhere)[0]}), or uninstall it first"
        return InstallCheck("other-transom", claim, "fail", f"there is one in {names}", do)
    mine = any(get_name(deployment) == "transom" for deployment in cluster.deployments)
    return InstallCheck("other-transom", claim, "pass", f"one is in {cluster.namespace} already" if mine else "there is none")


def _check_peers(cluster: ClusterFacts) -> InstallCheck:
    claim = "no other operator manages Windows nodes, or the proxy of workload clusters"
    if why := cluster.unread.get("Deployment"):
        return _build_unknown("other-operators", claim, why)
    peer_deployments = [deployment for deployment in cluster.deployments if get_name(deployment) in PEERS]
    managed = [get_name(node) for node in cluster.nodes if MANAGED_BY_WMCO in get_mapping(get_metadata(node), "annotations")]
    if not peer_deployments and not managed:
        return InstallCheck("other-operators", claim, "pass", "there is none")
    parts = [format_label("Deployment", item) for item in peer_deployments]
    parts += [f"{len(managed)} Windows nodes of {WMCO}"] if managed else []
    peers = dict.fromkeys(_PEER_OPTION[get_name(item)] for item in peer_deployments) or {"wmco": None}
    commands = " and ".join(f"transom adopt --from {peer}" for peer in peers)
    do = f"what they manage is left alone until it is handed over: {commands}"
    return InstallCheck("other-operators", claim, "warn", ", ".join(parts), do)


def _check_windows_nodes(cluster: ClusterFacts) -> InstallCheck:
    claim = "Windows nodes"
    if why := cluster.unread.get("Node"):
        return _build_unknown("windows-nodes", claim, why)
    names = [get_name(node) for node in cluster.nodes]
    if names:
        return InstallCheck("windows-nodes", claim, "pass", f"{len(names)}: {format_first(names, _LISTED)}")
    seen = "none yet; hosts of lifecycle Node become nodes (docs/windows-nodes.md)"
    return InstallCheck("windows-nodes", claim, "pass", seen)


def _check_platform(cluster: ClusterFacts) -> InstallCheck:
    """Check the platform, which decides the options of `transom manifests`."""
    claim = "the platform, and the options for it"
    openshift, cluster_api = "config.openshift.io" in cluster.groups, "cluster.x-k8s.io" in cluster.groups
    names = ["OpenShift"] * openshift + ["Cluster API"] * cluster_api
    controllers = "egress,windows,pods" + ",fleet" * cluster_api
    command = f"transom manifests{' --openshift' * openshift} --controllers {controllers}"
    more = "; fleet gives workload clusters the settings, and reads and writes Secrets of all namespaces" * cluster_api
    return InstallCheck("platform", claim, "pass", f"{' with '.join(names) or 'Kubernetes'}: {command}{more}")


def _check_image(image: ImageAnswer | None) -> InstallCheck:
    claim = "the image can be pulled"
    if image is None:
        do = "name it: transom check --pre --image registry.example/transom:VERSION"
        return InstallCheck("image", claim, "warn", "not checked: no image is named", do)
    if image.status is None:
        do = "look whether nodes reach the registry; from here it could not be asked"
        return InstallCheck("image", claim, "warn", f"{image.reference}: {image.why}", do)
    if image.status == 200:
        return InstallCheck("image", claim, "pass", f"{image.reference} exists")
    if image.status in (401, 403):
        do = "give the nodes a login for this registry: imagePullSecrets of the values"
        return InstallCheck("image", claim, "warn", f"{image.reference}: the registry answers and asks for a login", do)
    do = "push the image (docs/install.md), or correct the name"
    return InstallCheck("image", claim, "fail", f"{image.reference}: the registry answers {image.status}", do)


# --- after an install


def iter_checks_after(cluster: ClusterFacts, snapshot: ClusterSnapshot, account: Rights) -> Iterator[InstallCheck]:
    """Yield the checks of an installation. `account` are the rights of the operator's ServiceAccount."""
    yield _check_definitions_after(cluster)
    yield from _check_workloads(snapshot)
    yield _check_lease(snapshot)
    yield _check_binding(cluster)
    yield _check_account(account, cluster.namespace)
    yield _check_admission(snapshot)


def _check_definitions_after(cluster: ClusterFacts) -> InstallCheck:
    claim = "Transom's CRDs exist, and have this version"
    do = "transom manifests --part crds | kubectl apply -f -"
    if why := cluster.unread.get("CustomResourceDefinition"):
        return _build_unknown("definitions", claim, why)
    missing = [name for name in _list_definition_names() if name not in cluster.definitions]
    if missing:
        return InstallCheck("definitions", claim, "fail", f"not there: {', '.join(missing)}", do)
    waiting = [
        name for name, value in cluster.definitions.items() if get_condition(value, "Established").get("status") != "True"
    ]
    if waiting:
        return InstallCheck("definitions", claim, "fail", f"not established: {', '.join(waiting)}", "kubectl describe crd NAME")
    if drift := describe_drift(cluster.definitions):
        return InstallCheck("definitions", claim, "fail", f"of another version than this program: {drift}", do)
    return InstallCheck("definitions", claim, "pass", "established, of this version")


def _check_workloads(snapshot: ClusterSnapshot) -> Iterator[InstallCheck]:
    for name, item in (("transom", "the operator"), (_WEBHOOK, "the admission server")):
        id_, claim = ("operator" if name == "transom" else "admission-server"), f"{item} runs"
        if not snapshot.was_read("Deployment"):
            yield _build_unknown(id_, claim, _explain_unread(snapshot, "deployments"))
            continue
        deployment = next(
            (own_object for own_object in snapshot.iter_own_objects("Deployment") if get_name(own_object) == name), None
        )
        if deployment is None:
            missing = f"Deployment/{name} does not exist in {snapshot.namespace}"
            if name == _WEBHOOK:
                yield InstallCheck(id_, claim, "warn", f"{missing}: pods get no settings", "transom manifests --part webhook")
            else:
                yield InstallCheck(id_, claim, "warn", f"{missing}: it runs elsewhere, or not at all", "see the check `lease`")
            continue
        replicas = get_nested_value(deployment, "spec", "replicas")
        wanted = 1 if replicas is None else replicas
        available, updated = (
            get_nested_value(deployment, "status", field) or 0 for field in ("availableReplicas", "updatedReplicas")
        )
        current = get_nested_value(deployment, "status", "observedGeneration") == get_metadata(deployment).get("generation")
        message = f"{available} of {wanted} pods are available, {updated} are of the newest version"
        if current and wanted and min(available, updated) >= wanted:
            yield InstallCheck(id_, claim, "pass", message)
        else:
            do = f"kubectl describe pods -n {snapshot.namespace} -l app.kubernetes.io/name=transom; transom doctor says more"
            yield InstallCheck(id_, claim, "fail", message, do)


def _check_lease(snapshot: ClusterSnapshot) -> InstallCheck:
    claim = "an operator leads: it holds Lease/transom"
    who = find_leader(snapshot)
    if who is None:
        return _build_unknown("lease", claim, _explain_unread(snapshot, "leases"))
    if who.working:
        return InstallCheck("lease", claim, "pass", f"{who.holder}, renewed {who.renewed}")
    last = f"{who.holder} was the last, renewed {who.renewed}" if who.holder else "it never had a holder"
    if not who.holder and who.renewed:
        last = f"the last leader stopped cleanly, renewed {who.renewed}"
    return InstallCheck("lease", claim, "fail", last, f"kubectl logs deployment/transom -n {snapshot.namespace}")


def _check_binding(cluster: ClusterFacts) -> InstallCheck:
    claim = "ClusterRoleBinding transom names the ServiceAccount of this namespace"
    if why := cluster.unread.get("ClusterRoleBinding"):
        return _build_unknown("binding", claim, why)
    subjects = {str(item.get("namespace")) for item in get_items(cluster.binding, "subjects")}
    if cluster.namespace in subjects:
        return InstallCheck("binding", claim, "pass", f"transom in {cluster.namespace}")
    named = ", ".join(sorted(subjects))
    if named:
        do = f"the Transom in {cluster.namespace} has no rights: apply its manifests again, or use -n {named}"
        return InstallCheck("binding", claim, "fail", f"it names {named}: another install took it over", do)
    return InstallCheck("binding", claim, "fail", "there is none", _format_rbac_command(cluster.namespace))


def _check_account(rights: Rights, namespace: str) -> InstallCheck:
    claim = "the operator's ServiceAccount has the rights of its roles"
    if rights.why:
        return _build_unknown("account", claim, rights.why)
    if rights.missing:
        seen = f"system:serviceaccount:{namespace}:transom may not {_format_rights(rights.missing)}"
        return InstallCheck("account", claim, "fail", seen, _format_rbac_command(namespace))
    return InstallCheck("account", claim, "pass", f"{rights.asked} rights")


def _format_rbac_command(namespace: str) -> str:
    return f"transom manifests -n {namespace} --part rbac | kubectl apply -f - (with the options of the install)"


def _check_admission(snapshot: ClusterSnapshot) -> InstallCheck:
    claim = "the admission server is registered, and answers"
    hook = build_overview(snapshot).webhook
    if hook is None or not snapshot.was_read("MutatingWebhookConfiguration"):
        return _build_unknown("admission", claim, _explain_unread(snapshot, "mutatingwebhookconfigurations"))
    live = next((obj for obj in snapshot.list_objects("MutatingWebhookConfiguration") if get_name(obj) == REGISTRATION), None)
    do = (
        f"kubectl logs deployment/{_WEBHOOK} -n {snapshot.namespace}, and look at its Service and the network to the API server"
    )
    if hook.reason in ("NotRegistered", "NotCalled", "Outdated", "OldSettings", "PodsRefused"):
        return InstallCheck("admission", claim, "fail", f"{hook.reason}: {hook.message}", do)
    if hook.reason == "Injected":
        return InstallCheck("admission", claim, "pass", hook.message)
    if live is None:
        wanted = any(get_name(own_object) == _WEBHOOK for own_object in snapshot.iter_own_objects("Deployment"))
        message = f"MutatingWebhookConfiguration/{REGISTRATION} does not exist"
        if wanted:
            return InstallCheck("admission", claim, "fail", message, do)
        return InstallCheck("admission", claim, "warn", f"{message}: pods get no settings", "transom manifests --part webhook")
    if not is_own_configuration(live):
        message = f"MutatingWebhookConfiguration/{REGISTRATION} is not Transom's"
        return InstallCheck("admission", claim, "fail", message, f"kubectl delete mutatingwebhookconfiguration {REGISTRATION}")
    why = f"{hook.reason}: {hook.message}" if hook.reason else "no EgressProxy gives pods anything yet"
    return InstallCheck("admission", claim, "pass", f"registered; {why}")


# --- shared


def describe_drift(live: Mapping[str, Value]) -> str:
    """Return how the CRDs of a server differ from those of this program: fields that one of them lacks."""
    lacking: list[str] = []
    unknown: list[str] = []
    for wanted in build_crds():
        kind, live_definition = str(wanted["spec"]["names"]["kind"]), live.get(str(wanted["metadata"]["name"]))
        if live_definition is None:
            continue
        ours, theirs = _list_paths(_get_schema(wanted)), _list_paths(_get_schema(live_definition))
        lacking += [f"{kind} {path}" for path in ours if path not in theirs]
        unknown += [f"{kind} {path}" for path in theirs if path not in ours]
    parts = [f"the server lacks {format_first(lacking, _LISTED)}"] if lacking else []
    parts += [f"this program does not know {format_first(unknown, _LISTED)}"] if unknown else []
    return "; ".join(parts)


def _get_schema(definition: Value) -> Mapping[str, Any]:
    versions = get_items(definition, "spec", "versions")
    return next(
        (get_mapping(version, "schema", "openAPIV3Schema") for version in versions if version.get("name") == VERSION), {}
    )


def _list_paths(schema: Mapping[str, Any], before: str = "") -> dict[str, None]:
    """Return the paths of all fields, in their order."""
    paths: dict[str, None] = {}
    for name, field in get_mapping(schema, "properties").items():
        path = f"{before}.{name}" if before else str(name)
        paths[path] = None
        paths |= _list_paths(field, path)
        paths |= _list_paths(get_mapping(field, "items"), f"{path}[]")
    return paths


def _list_definition_names() -> list[str]:
    return [f"{kind.plural}.{GROUP}" for kind in KINDS]


def _build_unknown(id_: str, claim: str, why: str) -> InstallCheck:
    return InstallCheck(
        id_, claim, "unknown", f"could not be read: {why}", "request this permission, or have an administrator check it"
    )


def _explain_unread(snapshot: ClusterSnapshot, plural: str) -> str:
    return next((item.why for item in snapshot.unread if item.what.startswith(plural)), plural)


def _format_rights(rights: Sequence[Right]) -> str:
    return format_first(map(str, sorted(rights)), _LISTED)
