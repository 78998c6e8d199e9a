"""`transom adopt NAME…`: hosts of another Transom, and objects that are not Transom's."""

from typing import Final

from transom.cli.cluster import run_with_client
from transom.cli.host_requests import adopt_hosts, describe_refusal, print_plans
from transom.cli.host_selection import HostSelection
from transom.cli.options import parse_duration_option
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.controllers.runtime.cached_objects import ADOPT
from transom.diagnosis.field_owners import CLI_MANAGER
from transom.diagnosis.host_requests import HostAction
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.objects import Metadata
from transom.kube.resources import Resource

_KINDS: Final = {
    "secret": Resource("", "v1", "Secret", "secrets", True, Metadata),
    "configmap": Resource("", "v1", "ConfigMap", "configmaps", True, Metadata),
    "egressproxy": Resource("transom.dev", "v1alpha1", "EgressProxy", "egressproxies", False, Metadata),
    "node": Resource("", "v1", "Node", "nodes", False, Metadata),
}


def adopt_selected_objects(selection: HostSelection, timeout: str, output: Format, *, yes: bool) -> None:
    """Take over what is named, or with `yes` false show what would be; ends the command."""
    seconds = parse_duration_option("--timeout", timeout)
    if selection.is_empty:
        fail("adopt what? --from wmco or --from cluster-apps-operator, the names of hosts, or secret/NAME")
    if yes and not selection.context:
        fail("--yes hands over hosts and objects: name the cluster with --context NAME")
    objects = [host for host in selection.hosts or () if "/" in host]
    if objects and len(objects) < len(selection.hosts or ()):
        fail("name hosts and other objects in commands of their own")
    if objects:
        _adopt_objects(selection, objects, output, yes=yes)
        return
    selection.require_selection("adopt")
    if yes:
        adopt_hosts(selection, seconds, output)
    else:
        print_plans(HostAction.ADOPT, selection, output)


def _adopt_objects(selection: HostSelection, objects: list[str], output: Format, *, yes: bool) -> None:
    wanted: list[tuple[Resource[Metadata], str]] = []
    for obj in objects:
        kind, _, name = obj.partition("/")
        if kind.casefold() not in _KINDS or not name:
            fail(f"{obj}: name it as {', '.join(f'{each}/NAME' for each in _KINDS)}")
        wanted.append((_KINDS[kind.casefold()], name))

    async def run(client: Client) -> list[dict[str, object]]:
        return [
            await _adopt_object(client, kind, name, selection.effective_namespace if kind.namespaced else None, yes=yes)
            for kind, name in wanted
        ]

    adopted = run_with_client(selection, run)
    if output is Format.TEXT:
        for row in adopted:
            detail = f" ({row['detail']})" if row["detail"] else ""
            print_lines(f"{row['kind']} {row['name']}: {row['result']}{detail}")
    else:
        print_data(adopted, output)
    if any(item["result"] == "kept" for item in adopted):
        raise SystemExit(ExitCode.NOT_DONE)


async def _adopt_object(
    client: Client, kind: Resource[Metadata], name: str, namespace: str | None, *, yes: bool
) -> dict[str, object]:
    row: dict[str, object] = {"kind": kind.kind, "namespace": namespace, "name": name, "detail": ""}
    try:
        live_object = await client.get(kind, name, namespace)
        if (live_object.metadata.annotations or {}).get(ADOPT) == "true":
            return row | {"result": "there already"}
        if yes:
            value = {"metadata": {"uid": live_object.metadata.uid, "annotations": {ADOPT: "true"}}}
            await client.patch(kind, value, name, namespace, CLI_MANAGER)
    except ApiError as error:
        return row | {"result": "kept", "detail": describe_refusal(error)}
    return row | {"result": "taken over" if yes else "to take over"}
