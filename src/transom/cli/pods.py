"""`transom pods`: what the admission server does to pods, and why."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import NAMESPACE, Context, Files, FilesOrCluster, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format, fail, print_data

if TYPE_CHECKING:
    from transom.pods.environment import PodEgress
    from transom.pods.patch import Patch
    from transom.pods.pod import Pod
    from transom.sources.examination import Examined
    from transom.sources.objects import Objects
    from transom.sources.workloads import Workload

pods = typer.Typer(help="What pods get of the settings, and why.", no_args_is_help=True)
_HIDDEN = "***"


@pods.callback()
def group() -> None:
    """What pods get of the settings, and why."""


@pods.command()
def explain(
    filename: Files,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Say what pods would get, and why.

    What the admission server would do to each pod in the manifests; nothing is asked of a cluster. The manifests hold the pods,
    or what makes pods, beside the settings. Of their Namespaces the labels count, of Services the address of
    default/kubernetes.
    """
    from transom.pods.patch import patch

    objects, examined = examine_or_fail(filename, namespace)
    if not objects.workloads:
        fail("there is no pod in these manifests, and nothing that makes pods", ExitCode.INVALID)
    egress = _egress(objects, examined, _address(objects))
    labels = {one.metadata.name: one.metadata.labels for one in objects.namespaces}
    found = []
    for one in objects.workloads:
        place = one.metadata.namespace or ""
        found.append((one, patch(one.pod, place, labels.get(place, {}), egress)))
    if output is Format.TEXT:
        sys.stdout.write("\n".join(_text(one, made) for one, made in found))
    else:
        print_data([_plain(one, made) for one, made in found], output)


@pods.command()
def outdated(
    filename: FilesOrCluster = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
) -> None:
    """Count the pods that are older than the settings.

    By what made them, with the command that replaces them. They keep the environment that they were created with. Transom does
    not restart them.
    """
    from transom.pods.outdated import outdated

    objects, examined = examine_or_fail(filename, namespace, context)
    if filename:
        running = [one.pod for one in objects.workloads if one.kind == "Pod"]
        labels = {one.metadata.name: one.metadata.labels for one in objects.namespaces}
        address = _address(objects)
    else:
        running, labels, address = _read(context)
    egress = _egress(objects, examined, address)
    if egress.digest == _HIDDEN:
        fail(f"Secret {namespace}/transom-webhook cannot be read: without its key pods of these settings cannot be told apart")
    found = outdated(running, labels, egress)
    if output is not Format.TEXT:
        print_data(found, output)
        return
    for one in found:
        owner = f"{one.kind}/{one.namespace}/{one.name}"
        sys.stdout.write(f"{owner}: {one.outdated} of {one.pods} pods; {one.restart or 'replace them'}\n")
    if not found:
        sys.stdout.write("no pod is older than the settings\n")


def _read(context: str | None) -> "tuple[list[Pod], dict[str, dict[str, str]], str | None]":
    """The pods of the cluster, its namespaces' labels, and the address of the Service default/kubernetes."""
    import asyncio

    from transom.controllers.namespaces import NAMESPACES
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError
    from transom.kube.resources import Resource
    from transom.pods.pod import Pod

    async def read() -> "tuple[list[Pod], dict[str, dict[str, str]], str | None]":
        connection = connect(context=context)
        client = Client(connection)
        try:
            running = await client.list_objects(Resource("", "v1", "Pod", "pods", True, Pod))
            named = await client.list_objects(NAMESPACES)
            service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
        finally:
            await connection.close()
        return running.items, {one.metadata.name: one.labels for one in named.items}, service["spec"].get("clusterIP")

    try:
        return asyncio.run(read())
    except ApiError as error:
        fail(str(error), ExitCode.NOT_DONE)


def _address(objects: "Objects") -> str | None:
    services = {(one.metadata.namespace, one.metadata.name): one.cluster_ip for one in objects.services}
    return services.get(("default", "kubernetes"))


def _egress(objects: "Objects", examined: "Examined", address: str | None) -> "PodEgress":
    import msgspec

    from transom.pods.environment import HASH_KEY, of

    held = objects.secret(objects.namespace, "transom-webhook")
    key = held.data.get(HASH_KEY) if held else None
    made = of(examined.settings.own, objects.namespace, address, key.reveal().encode() if key else b"")
    # without the webhook's key the digest would give credentials away to whoever guesses
    return msgspec.structs.replace(made, digest=_HIDDEN) if made.in_secret and key is None else made


def _plain(one: "Workload", made: "Patch") -> dict[str, Any]:
    from transom.pods.explanation import ca_text, proxy_text

    return {
        "object": f"{one.kind}/{one.metadata.namespace}/{one.metadata.name}",
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
            }
            for given in made.given
        ],
        "warnings": made.warnings,
        "patch": made.operations,
    }


def _text(one: "Workload", made: "Patch") -> str:
    plain = _plain(one, made)
    lines = [plain["object"], f"  proxy: {plain['proxy']['reason']}", f"  CAs: {plain['ca']['reason']}"]
    for given in made.given:
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (("gets", given.added), ("keeps its", given.kept), ("had replaced", given.replaced))
            if names
        ]
        if parts:
            lines.append(f"  {given.container}: {'; '.join(parts)}")
    lines += [f"  warning: {warning}" for warning in made.warnings]
    return "\n".join(lines) + "\n"
