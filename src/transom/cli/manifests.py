"""`transom manifests`: everything needed to install Transom, as YAML for `kubectl apply -f -`."""

import enum
import sys
from typing import Annotated, Any

import typer

from transom.cli.findings import NAMESPACE, namespace_name
from transom.cli.output import Format, fail, print_data


class Part(enum.StrEnum):
    """The value of `--part`."""

    CRDS = "crds"
    RBAC = "rbac"
    OPERATOR = "operator"
    WEBHOOK = "webhook"


def manifests(
    part: Annotated[
        list[Part] | None, typer.Option("--part", help="Only this part; may be given again. Without it: everything.")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Which run, and so need rights: egress, windows, fleet, pods. [default: all]",
            show_default=False,
        ),
    ] = None,
    openshift: Annotated[bool, typer.Option("--openshift", help="Also the roles in OpenShift's own namespaces.")] = False,
    namespace: Annotated[
        str, typer.Option(envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=namespace_name)
    ] = NAMESPACE,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image to run. [default: transom:VERSION]", show_default=False)
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.YAML,
) -> None:
    """Print everything needed to install Transom.

    transom manifests | kubectl apply -f -
    """
    objects = _objects(frozenset(part or ()), controllers, namespace, image, openshift=openshift)
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": objects}, output)
    else:
        import yaml

        yaml.dump_all(objects, sys.stdout, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110)


def _objects(
    parts: frozenset[Part], controllers: str | None, namespace: str, image: str | None, *, openshift: bool
) -> list[dict[str, Any]]:
    from transom.manifests import admission, roles, workloads

    try:
        chosen = roles.controllers(controllers)
    except ValueError as error:
        fail(f"--controllers: {error}")
    # pods would wait for a Secret that nobody keeps: without that controller the admission server is there for who asks
    pods = "pods" in chosen or Part.WEBHOOK in parts
    parts = parts or frozenset(one for one in Part if pods or one is not Part.WEBHOOK)
    objects: list[dict[str, Any]] = []
    if parts & {Part.RBAC, Part.OPERATOR, Part.WEBHOOK}:
        objects.append(workloads.namespace(namespace))
    if Part.CRDS in parts:
        from transom.manifests.definitions import definitions

        objects += definitions()
    if Part.RBAC in parts:
        objects += roles.roles(namespace, chosen, openshift=openshift)
    if pods and parts & {Part.RBAC, Part.WEBHOOK}:
        objects += admission.admission_roles(namespace)
    if Part.OPERATOR in parts:
        objects += workloads.operator(namespace, image or _default_image(), controllers)
    if Part.WEBHOOK in parts:
        objects += admission.admission(namespace, image or _default_image())
    return objects


def _default_image() -> str:
    from importlib.metadata import version

    return f"transom:{version('transom')}"


def _dumper() -> Any:
    """Dumps without anchors: `kubectl` reads them, people do not."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper
