"""`transom pods`: what the admission server does to pods, and why."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transom.cli.cluster import ClusterOptions, ask
from transom.cli.examples import epilog
from transom.cli.findings import Source, examine_or_fail
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.pods import Pod
    from transom.pods.patch import Patch
    from transom.sources.objects import Objects

pods = typer.Typer(help="What pods get of the settings, and why.", no_args_is_help=True)


class _Explained(NamedTuple):
    """A pod; `outdated` says of one that runs whether it is older than the settings, None where that is not known."""

    object: str
    patch: "Patch"
    running: bool = False
    outdated: bool | None = None


@pods.callback()
def group() -> None:
    """What pods get of the settings, and why."""


@pods.command(epilog=epilog("pods explain"))
@grouped
def explain(
    source: Source,
    pod: Annotated[str | None, typer.Argument(metavar="[POD]", help="A pod of the cluster of the kubeconfig.")] = None,
    output: Output = Format.TEXT,
) -> None:
    """Say what pods would get, and why.

    What the admission server would do to each pod in the manifests; nothing is asked of a cluster. The manifests hold the pods,
    or what makes pods, beside the settings. Of their Namespaces the labels count, of Services the address of
    default/kubernetes. With POD in their stead: what a pod of the cluster has, and would get if it were made now.
    """
    from transom.pods.patch import patch
    from transom.sources.api_server import pod_egress

    if (pod is None) == (not source.filename):
        fail("either POD, with -n NAMESPACE, or -f PATH")
    if pod is not None:
        found = [_live(pod, source)]
    else:
        objects, examined = examine_or_fail(source)
        if not objects.workloads:
            fail("there is no pod in these manifests, and nothing that makes pods", ExitCode.INVALID)
        labels = {one.metadata.name: one.metadata.labels for one in objects.namespaces}
        egress = pod_egress(objects, examined, _address(objects))
        found = [
            _Explained(
                f"{one.kind}/{one.metadata.namespace}/{one.metadata.name}",
                patch(one.pod, place := one.metadata.namespace or "", labels.get(place, {}), egress),
            )
            for one in objects.workloads
        ]
    if output is Format.TEXT:
        for at, one in enumerate(found):
            print_lines(*([""] if at else []), *_lines(one))
    else:
        print_data([_plain(one) for one in found], output)


@pods.command(epilog=epilog("pods outdated"))
@grouped
def outdated(
    source: Source,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="The pods of every namespace, as without -n.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only pods of the cluster with these labels: app=web.")
    ] = "",
    output: Output = Format.TEXT,
) -> None:
    """Count the pods that are older than the settings.

    By what made them, with the command that replaces them. They keep the environment that they were created with. Transom does
    not restart them.
    """
    from transom.pods.outdated import outdated
    from transom.sources.api_server import UNKNOWN, HashKeyUnread, pod_egress

    if all_namespaces and source.namespace:
        fail("-A and -n exclude each other")
    if selector and source.filename:
        fail("-l is for pods of a cluster: -f names the pods itself")
    # of the cluster, -n names the pods' namespace
    its = source if source.filename else _of_transom(source)
    objects, examined = examine_or_fail(its)
    if source.filename:
        running = [one.pod for one in objects.workloads if one.kind == "Pod"]
        labels = {one.metadata.name: one.metadata.labels for one in objects.namespaces}
        address = _address(objects)
    else:
        running, labels, address = _read(source, labels=selector)
    egress = pod_egress(objects, examined, address)
    if egress.digest == UNKNOWN:
        fail(str(HashKeyUnread(its.own)))
    own = examined.settings.own
    found = outdated(running, labels, egress, own.variables if own is not None else None)
    if output is not Format.TEXT:
        print_data(found, output)
        return
    for one in found:
        owner = f"{one.kind}/{one.namespace}/{one.name}"
        print_lines(f"{owner}: {one.outdated} of {one.pods} pods; {one.restart or 'replace them'}")
    if not found:
        print_lines(f"no pod is older than the settings ({len(running):,} looked at)")


def _of_transom(source: Source) -> Source:
    """The same cluster, for Transom's own objects."""
    import msgspec

    return msgspec.structs.replace(source, namespace=None)


def _live(name: str, source: Source) -> _Explained:
    """A pod of the cluster; without `namespace` it is in the context's."""
    from transom.pods.outdated import is_outdated
    from transom.pods.patch import patch
    from transom.shown import NAME
    from transom.sources.api_server import UNKNOWN, pod_egress

    if not NAME.match(name):
        fail(f"{name!r} is no name of a pod")
    objects, examined = examine_or_fail(_of_transom(source))
    (pod,), labels, address = _read(source, name)
    egress = pod_egress(objects, examined, address)
    place = pod.metadata.namespace or ""
    its = labels.get(place, {})
    outdated = None if egress.digest == UNKNOWN else is_outdated(pod, its, egress)
    return _Explained(f"Pod/{place}/{name}", patch(pod, place, its, egress), True, outdated)


def _read(
    cluster: ClusterOptions, name: str | None = None, *, labels: str = ""
) -> "tuple[list[Pod], dict[str, dict[str, str]], str | None]":
    """The pods of the cluster or the one of that name, their namespaces' labels, the address of default/kubernetes."""
    from transom.kube.resources import LABELLED_NAMESPACES, Resource
    from transom.pods import Pod

    pods = Resource("", "v1", "Pod", "pods", True, Pod)

    async def read(client: "Client") -> "tuple[list[Pod], dict[str, dict[str, str]], str | None]":
        if name is None:
            running = (await client.list_objects(pods, cluster.namespace, labels=labels)).items
            namespaces = (await client.list_objects(LABELLED_NAMESPACES)).items
        else:
            place = cluster.namespace or client.connection.namespace
            running = [await client.get(pods, name, place)]
            namespaces = [await client.get(LABELLED_NAMESPACES, place)]
        service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
        return running, {one.metadata.name: one.labels for one in namespaces}, service["spec"].get("clusterIP")

    return ask(cluster, read)


def _address(objects: "Objects") -> str | None:
    services = {(one.metadata.namespace, one.metadata.name): one.cluster_ip for one in objects.services}
    return services.get(("default", "kubernetes"))


_AGE = {
    True: "it is older than the settings: it gets them when it is replaced",
    False: "it is not older than the settings",
    None: "whether it is older than the settings is not known: Secret transom-webhook cannot be read",
}


def _plain(one: _Explained) -> dict[str, Any]:
    from transom.pods.patch import ca_text, proxy_text

    made = one.patch
    return {
        "object": one.object,
        "outdated": one.outdated,
        "proxy": {"given": made.proxy is None, "reason": proxy_text(made)},
        "ca": {"given": made.ca is None, "reason": ca_text(made)},
        "containers": [
            {
                "name": given.container,
                "list": given.list,
                "added": given.added,
                "kept": given.kept,
                "replaced": given.replaced,
                "mounted": given.mounted,
                "excluded": given.excluded,
            }
            for given in made.given
        ],
        "warnings": made.warnings,
        "patch": made.operations,
    }


def _lines(one: _Explained) -> list[str]:
    made, plain = one.patch, _plain(one)
    lines = [plain["object"], f"  proxy: {plain['proxy']['reason']}", f"  CAs: {plain['ca']['reason']}"]
    if one.running:
        lines.append(f"  {_AGE[one.outdated]}")
    for given in made.given:
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (("gets", given.added), ("keeps its", given.kept), ("has replaced", given.replaced))
            if names
        ]
        if parts:
            lines.append(f"  {given.container}: {'; '.join(parts)}")
    return [*lines, *(f"  warning: {warning}" for warning in made.warnings)]
