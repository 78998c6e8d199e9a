"""`transom manifests`: everything needed to install Transom, as YAML for `kubectl apply -f -`."""

import enum
import re
import sys
from typing import Annotated, Any, Final

import typer

from transom.cli.cluster import NAMESPACE, namespace_name
from transom.cli.output import Format, fail, print_data

_WITHOUT_CLUSTER_API: Final = "egress,windows,pods"
"""The controllers of an install where nobody said more: others' Secrets are read and written for Cluster API alone."""


_REFERENCE: Final = re.compile(
    r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@sha256:[0-9a-f]{64})?"
)
"""An image as the distribution project writes it (github.com/distribution/reference, reference.go), not so strict."""


class Part(enum.StrEnum):
    """The value of `--part`."""

    CRDS = "crds"
    RBAC = "rbac"
    OPERATOR = "operator"
    WEBHOOK = "webhook"
    POLICIES = "policies"
    MONITORING = "monitoring"


def manifests(
    part: Annotated[
        list[Part] | None, typer.Option("--part", help="Only this part; may be given again. Without it: everything.")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Which run, and so need rights: egress, windows, fleet, pods. [default: all but fleet]",
            show_default=False,
        ),
    ] = None,
    cluster_api: Annotated[
        bool, typer.Option("--cluster-api", help="Also fleet, which reads and writes Secrets of every namespace.")
    ] = False,
    openshift: Annotated[
        bool, typer.Option("--openshift", help="Also the roles in OpenShift's own namespaces, and the metrics of hosts.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=namespace_name),
    ] = NAMESPACE,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image to run. [default: transom:VERSION]", show_default=False)
    ] = None,
    require_host_keys: Annotated[
        bool, typer.Option("--require-host-keys", help="The operator connects to no host whose key is not known.")
    ] = False,
    metrics_proxy: Annotated[
        str | None,
        typer.Option(
            "--metrics-proxy", metavar="IMAGE", help="Put kube-rbac-proxy, this image, before the metrics: TLS and who may."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.YAML,
) -> None:
    """Print everything needed to install Transom.

    transom manifests | kubectl apply -f -
    """
    for flag, reference in (("--image", image), ("--metrics-proxy", metrics_proxy)):
        if reference is not None and not _REFERENCE.fullmatch(reference):
            fail(f"{flag}: {reference!r} is no image: for example registry.example/transom:0.1.0, or with @sha256:…")
    chosen = _WITHOUT_CLUSTER_API if controllers is None else controllers
    if cluster_api and "fleet" not in chosen.split(","):
        chosen = f"{chosen},fleet"
    objects = _objects(
        frozenset(part or ()), chosen, namespace, image, metrics_proxy, openshift=openshift, require_host_keys=require_host_keys
    )
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": objects}, output)
    else:
        import yaml

        yaml.dump_all(objects, sys.stdout, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110)


def everything(namespace: str) -> list[dict[str, Any]]:
    """All that any options of this command make in a cluster; the images are not what they were."""
    chosen = f"{_WITHOUT_CLUSTER_API},fleet"
    return _objects(frozenset(), chosen, namespace, None, "kube-rbac-proxy", openshift=True, require_host_keys=False)


def _objects(
    parts: frozenset[Part],
    controllers: str,
    namespace: str,
    image: str | None,
    metrics_proxy: str | None,
    *,
    openshift: bool,
    require_host_keys: bool,
) -> list[dict[str, Any]]:
    from transom.manifests import admission, policies, roles, workloads
    from transom.manifests import openshift as of_openshift

    try:
        chosen = roles.controllers(controllers)
    except ValueError as error:
        fail(f"--controllers: {error}")
    # pods would wait for a Secret that nobody keeps: without that controller the admission server is there for who asks
    pods = "pods" in chosen or Part.WEBHOOK in parts
    parts = parts or frozenset(one for one in Part if pods or one is not Part.WEBHOOK)
    objects: list[dict[str, Any]] = []
    nodes = openshift and "nodes" in chosen
    if parts - {Part.CRDS}:
        labels = of_openshift.MONITORED if nodes and Part.MONITORING in parts else {}
        objects.append(workloads.namespace(namespace, labels))
    if Part.CRDS in parts:
        from transom.manifests.definitions import definitions

        objects += definitions()
    if Part.RBAC in parts:
        objects += roles.roles(namespace, chosen, openshift=openshift)
        objects += of_openshift.node_manager(namespace) if nodes else []
    if pods and parts & {Part.RBAC, Part.WEBHOOK}:
        objects += admission.admission_roles(namespace)
    if Part.RBAC in parts and metrics_proxy is not None:
        objects += roles.metrics_roles(namespace, (roles.NAME, *([admission.NAME] if pods else [])))
    if Part.OPERATOR in parts:
        objects += workloads.operator(
            namespace, image or _default_image(), controllers, metrics_proxy, require_host_keys=require_host_keys
        )
    if Part.WEBHOOK in parts:
        objects += admission.admission(namespace, image or _default_image(), metrics_proxy)
    if Part.POLICIES in parts:
        objects += policies.policies(namespace, webhook=pods, metrics_proxy=metrics_proxy is not None)
    if nodes and Part.MONITORING in parts:
        objects += of_openshift.monitoring(namespace)
    return objects


def _default_image() -> str:
    from importlib.metadata import version

    return f"transom:{version('transom')}"


def _dumper() -> Any:
    """Dumps without anchors: `kubectl` reads them, people do not."""
    import yaml

    class QuotingDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return QuotingDumper
