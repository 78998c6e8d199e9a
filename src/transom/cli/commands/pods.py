"""`transom pods`: what the admission server does to pods, and why."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transom.cli.cluster import ClusterOptions, run_with_client
from transom.cli.examples import build_epilog
from transom.cli.findings import Source, examine_or_fail
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from transom.kube.client import Client
    from transom.pods.patch import Patch
    from transom.pods.pod_types import Pod
    from transom.pods.service_names import ServiceReference
    from transom.sources.objects import Objects

pods = typer.Typer(help="Explain the settings of pods.", no_args_is_help=True)


class _PodExplanation(NamedTuple):
    """A pod; `outdated` says of one that runs whether it is older than the settings, None where that is not known."""

    object: str
    patch: "Patch"
    running: bool = False
    outdated: bool | None = None
    left_out: tuple[str, ...] = ()
    """Items of the merged NO_PROXY that pods do not get."""
    services: "tuple[ServiceReference, ...]" = ()
    """Services that containers call through the proxy."""
    names: tuple[str, ...] = ()
    """The names of the namespace's Services that `spec.pods.serviceNames: Add` adds to NO_PROXY."""
    adds_names: bool = False
    """Whether the settings add them."""


@pods.callback()
def group() -> None:
    """Explain the settings of pods."""


@pods.command(epilog=build_epilog("pods explain"))
@with_option_groups
def explain(
    source: Source,
    pod: Annotated[str | None, typer.Argument(metavar="[POD]", help="Name of a pod in the cluster.")] = None,
    output: Output = Format.TEXT,
) -> None:
    """Explain what pods would get, and why.

    With -f, the command shows how the admission server would change each pod in the manifests, without a cluster. The
    manifests contain the settings, and pods or objects that create pods. The command also uses the labels of Namespaces, and
    the address of the Service default/kubernetes. With POD, it shows the settings of a pod in the cluster, and those that a
    new pod would get.
    """
    if (pod is None) == (not source.filename):
        fail("either POD, with -n NAMESPACE, or -f PATH")
    if pod is not None:
        explanations = [_explain_live_pod(pod, source)]
    else:
        explanations = list(_explain_files(source))
        if not explanations:
            fail("these manifests contain no pods and no pod templates", ExitCode.INVALID)
    if output is Format.TEXT:
        for at, explained in enumerate(explanations):
            print_lines(*([""] if at else []), *_format_lines(explained))
    else:
        print_data([_to_json_data(explained) for explained in explanations], output)


@pods.command(epilog=build_epilog("pods outdated"))
@with_option_groups
def outdated(
    source: Source,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Count pods of every namespace, as without -n.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Select pods of the cluster by labels: app=web.")
    ] = "",
    output: Output = Format.TEXT,
) -> None:
    """Count the pods that are older than the settings.

    The output lists the owners of these pods, with the command to replace the pods. Pods keep their initial environment.
    Transom does not restart them.
    """
    from transom.pods.outdated_pods import find_outdated
    from transom.sources.api_server import UNKNOWN, HashKeyUnread, compute_pod_egress

    if all_namespaces and source.namespace:
        fail("-A and -n exclude each other")
    if selector and source.filename:
        fail("-l is for pods of a cluster: -f names the pods itself")
    # of the cluster, -n names the pods' namespace
    its = source if source.filename else _select_own_namespace(source)
    objects, examined = examine_or_fail(its)
    if source.filename:
        running = [workload.pod for workload in objects.workloads if workload.kind == "Pod"]
        labels = {namespace.metadata.name: namespace.metadata.labels for namespace in objects.namespaces}
        address = _find_service_address(objects)
    else:
        running, labels, address, _ = _read_pods(source, labels=selector)
    egress = compute_pod_egress(objects, examined, address)
    if egress.digest == UNKNOWN:
        fail(str(HashKeyUnread(its.effective_namespace)))
    own = examined.settings.own
    workloads = find_outdated(running, labels, egress, own.variables if own is not None else None)
    if output is not Format.TEXT:
        print_data(workloads, output)
        return
    for item in workloads:
        owner = f"{item.kind}/{item.namespace}/{item.name}"
        print_lines(f"{owner}: {item.outdated} of {item.pods} pods; {item.restart or 'replace them'}")
    if not workloads:
        print_lines(f"no pod is older than the settings ({len(running):,} looked at)")


def _select_own_namespace(source: Source) -> Source:
    """Return the source for Transom's own objects in the same cluster."""
    import msgspec

    return msgspec.structs.replace(source, namespace=None)


def _explain_live_pod(name: str, source: Source) -> _PodExplanation:
    """Explain a pod of the cluster; without `namespace` it is in the context's."""
    from transom.common.escaping import NAME
    from transom.pods.namespace_services import add_service_names, build_short_names
    from transom.pods.outdated_pods import is_outdated
    from transom.pods.patch import build_patch
    from transom.sources.api_server import UNKNOWN, compute_pod_egress

    if not NAME.match(name):
        fail(f"{name!r} is not a valid pod name")
    objects, examined = examine_or_fail(_select_own_namespace(source))
    own = examined.settings.own
    adds_names = own is not None and own.pods.service_names == "Add"
    (pod,), labels, address, services = _read_pods(source, name, with_services=adds_names)
    egress = compute_pod_egress(objects, examined, address)
    place = pod.metadata.namespace or ""
    its = labels.get(place, {})
    outdated = None if egress.digest == UNKNOWN else is_outdated(pod, its, egress)
    return _PodExplanation(
        f"Pod/{place}/{name}",
        build_patch(pod, place, its, add_service_names(egress, place, services)),
        True,
        outdated,
        egress.no_proxy_left_out,
        names=build_short_names(place, services, egress.no_proxy).items,
        adds_names=egress.service_names,
    )


def _read_pods(
    cluster: ClusterOptions, name: str | None = None, *, labels: str = "", with_services: bool = False
) -> "tuple[list[Pod], dict[str, dict[str, str]], str | None, list[str]]":
    """Read the cluster's pods, or the one of that name, their namespaces' labels, and default/kubernetes' address.

    `with_services`: also the names of the Services in the namespace of that pod, without those that lead to a foreign host.
    """
    from transom.kube.resources import LABELLED_NAMESPACES, SERVICES, Resource
    from transom.pods.namespace_services import EXTERNAL_NAME
    from transom.pods.pod_types import Pod

    pods = Resource("", "v1", "Pod", "pods", True, Pod)

    async def read(client: "Client") -> "tuple[list[Pod], dict[str, dict[str, str]], str | None, list[str]]":
        names: list[str] = []
        if name is None:
            running = (await client.list_objects(pods, cluster.namespace, labels=labels)).items
            namespaces = (await client.list_objects(LABELLED_NAMESPACES)).items
        else:
            place = cluster.namespace or client.connection.namespace
            running = [await client.get(pods, name, place)]
            namespaces = [await client.get(LABELLED_NAMESPACES, place)]
            if with_services:
                services = (await client.list_objects(SERVICES, place)).items
                names = [item.metadata.name for item in services if (item.value.get("spec") or {}).get("type") != EXTERNAL_NAME]
        service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
        labels_by_name = {namespace.metadata.name: namespace.labels for namespace in namespaces}
        return running, labels_by_name, service["spec"].get("clusterIP"), names

    return run_with_client(cluster, read)


def _explain_files(source: Source) -> "Iterator[_PodExplanation]":
    """Explain the pods and pod templates of the manifests, including those of kinds that Transom does not know."""
    from transom.pods.namespace_services import add_service_names, build_short_names, group_names
    from transom.pods.patch import build_patch
    from transom.pods.service_names import find_proxied_services
    from transom.sources.api_server import compute_pod_egress

    objects, examined = examine_or_fail(source)
    labels = {namespace.metadata.name: namespace.metadata.labels for namespace in objects.namespaces}
    egress = compute_pod_egress(objects, examined, _find_service_address(objects))
    services = {
        (service.metadata.namespace or "", service.metadata.name): service.external_name for service in objects.services
    }
    names_by_namespace = group_names(services)
    templates = dict(_iter_templates(source.filename or ()))
    known = [
        (f"{workload.kind}/{workload.metadata.namespace}/{workload.metadata.name}", workload.pod)
        for workload in objects.workloads
    ]
    names = {name for name, _ in known}
    others = [
        (name, pod) for name, template in templates.items() if name not in names and (pod := _convert_template(name, template))
    ]
    for name, pod in (*known, *others):
        place = name.split("/")[1]
        its = add_service_names(egress, place, names_by_namespace.get(place, ()))
        made = build_patch(pod, place, labels.get(place, {}), its)
        left = {item.container for item in made.given if item.excluded}
        containers = _list_containers(templates.get(name, {})) if made.proxy is None else []
        texts = [container for container in containers if container.get("name") not in left]
        called = tuple(find_proxied_services(texts, place, services, its.no_proxy))
        yield _PodExplanation(
            name,
            made,
            left_out=egress.no_proxy_left_out,
            services=called,
            names=build_short_names(place, names_by_namespace.get(place, ()), egress.no_proxy).items,
            adds_names=egress.service_names,
        )


def _iter_templates(paths: "Iterable[str]") -> "Iterator[tuple[str, dict[str, Any]]]":
    """Yield each pod and each object with a pod template, by kind, namespace and name, in plain values."""
    from transom.sources.directory import iter_values
    from transom.sources.workloads import DEFAULT_NAMESPACE, get_pod_template

    for value in iter_values(paths):
        template, metadata = get_pod_template(value), value.get("metadata")
        if isinstance(metadata, dict) and _list_containers(template):
            name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
            yield f"{value.get('kind')}/{metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}", template


def _list_containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return []
    lists = (spec.get("initContainers"), spec.get("containers"))
    return [item for listed in lists if isinstance(listed, list) for item in listed if isinstance(item, dict)]


def _convert_template(name: str, template: dict[str, Any]) -> "Pod | None":
    """Convert the pod template of an unknown kind, such as Argo's Rollout; return None, with a warning, if it is invalid."""
    import msgspec

    from transom.cli.messages import print_to_stderr
    from transom.pods.pod_types import Pod

    try:
        return msgspec.convert(template, Pod)
    except msgspec.ValidationError as error:
        print_to_stderr(f"transom: warning: {name} is not explained: spec.template is not a pod: {error}")
        return None


def _find_service_address(objects: "Objects") -> str | None:
    services = {(service.metadata.namespace, service.metadata.name): service.cluster_ip for service in objects.services}
    return services.get(("default", "kubernetes"))


_AGE = {
    True: "it is older than the settings: it gets them when it is replaced",
    False: "it is not older than the settings",
    None: "whether it is older than the settings is not known: Secret transom-webhook cannot be read",
}


def _to_json_data(explanation: _PodExplanation) -> dict[str, Any]:
    from transom.pods.patch import format_ca_result, format_proxy_result

    made = explanation.patch
    return {
        "object": explanation.object,
        "outdated": explanation.outdated,
        "proxy": {"given": made.proxy is None, "reason": format_proxy_result(made)},
        "ca": {"given": made.ca is None, "reason": format_ca_result(made)},
        "containers": [
            {
                "name": item.container,
                "list": item.list,
                "added": item.added,
                "kept": item.kept,
                "replaced": item.replaced,
                "mounted": item.mounted,
                "excluded": item.excluded,
            }
            for item in made.given
        ],
        "noProxyLeftOut": explanation.left_out if _has_added_no_proxy(made) else (),
        "noProxyServices": explanation.names if explanation.adds_names and _has_added_no_proxy(made) else (),
        "warnings": [
            *made.warnings,
            *(
                _format_service_warning(item, () if explanation.adds_names else explanation.names)
                for item in explanation.services
            ),
        ],
        "patch": made.operations,
    }


def _has_added_no_proxy(made: "Patch") -> bool:
    return made.proxy is None and any("NO_PROXY" in item.added for item in made.given)


def _format_lines(explanation: _PodExplanation) -> list[str]:
    made, plain = explanation.patch, _to_json_data(explanation)
    lines = [plain["object"], f"  proxy: {plain['proxy']['reason']}", f"  CAs: {plain['ca']['reason']}"]
    if explanation.running:
        lines.append(f"  {_AGE[explanation.outdated]}")
    for item in made.given:
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (("gets", item.added), ("keeps its", item.kept), ("has replaced", item.replaced))
            if names
        ]
        if parts:
            lines.append(f"  {item.container}: {'; '.join(parts)}")
    if plain["noProxyLeftOut"]:
        left_out = ", ".join(plain["noProxyLeftOut"])
        lines.append(f"  NO_PROXY is without {left_out}: httpx fails on IPv6 networks (spec.pods.ipv6Networks: Keep has them)")
    if plain["noProxyServices"]:
        lines.append(f"  NO_PROXY has the Services of the namespace: {', '.join(plain['noProxyServices'])}")
    return [*lines, *(f"  warning: {warning}" for warning in plain["warnings"])]


def _format_service_warning(service: "ServiceReference", addable_names: "Collection[str]") -> str:
    """Return the warning; `addable_names` are the names that `spec.pods.serviceNames: Add` would add."""
    return (
        f"{service.container}: {service.place} names Service {service.name}, which goes to the proxy: write {service.full_name}"
        + (", or set spec.pods.serviceNames: Add" if service.name in addable_names else "")
    )
