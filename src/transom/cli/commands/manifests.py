"""`transom manifests`: everything needed to install Transom, as YAML for `kubectl apply -f -`."""

import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from transom.cli.cluster import parse_namespace
from transom.cli.messages import print_to_stderr
from transom.cli.options import NAMESPACE, log_to_stderr
from transom.cli.output import ExitCode, Format, fail, print_data
from transom.cli.output_files import Force, write_files
from transom.common.regular_files import read_regular_file
from transom.manifests.install import InstallPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transom.kube.client import Client
    from transom.kube.resources import Resource
    from transom.manifests.values import Image, Payload, Values


def manifests(
    context: typer.Context,
    part: Annotated[
        list[InstallPart] | None, typer.Option("--part", help="Print only this part. Repeatable. [default: everything]")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Controllers to run and grant rights to: egress, windows, fleet, pods. [default: all but fleet]",
            show_default=False,
        ),
    ] = None,
    cluster_api: Annotated[
        bool, typer.Option("--cluster-api", help="Include controller fleet, which reads and writes Secrets of every namespace.")
    ] = False,
    openshift: Annotated[
        bool, typer.Option("--openshift", help="Include roles in OpenShift's namespaces, and the metrics of hosts.")
    ] = False,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", envvar="TRANSOM_NAMESPACE", help="Transom's own namespace.", callback=parse_namespace
        ),
    ] = NAMESPACE,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            envvar="TRANSOM_IMAGE",
            help="Transom's image, with registry: registry.example/transom:0.1.0, or with @sha256:….",
            show_default=False,
        ),
    ] = None,
    any_registry: Annotated[
        bool,
        typer.Option("--any-registry", help="Accept images without a registry. Nodes pull them from their default registry."),
    ] = False,
    payload_image: Annotated[
        str | None,
        typer.Option(
            "--payload-image",
            metavar="IMAGE",
            help="Payload image (transom payload build --image), mounted as a volume. Requires Kubernetes 1.35.",
        ),
    ] = None,
    payload_copied: Annotated[
        bool,
        typer.Option("--payload-copied", help="Copy the payload with an init container instead. Build the image with --base."),
    ] = False,
    payload_claim: Annotated[
        str | None,
        typer.Option("--payload-claim", metavar="NAME", help="PersistentVolumeClaim with a payload directory."),
    ] = None,
    require_host_keys: Annotated[
        bool, typer.Option("--require-host-keys", help="Make the operator refuse hosts with an unknown key.")
    ] = False,
    metrics_proxy: Annotated[
        str | None,
        typer.Option(
            "--metrics-proxy",
            metavar="IMAGE",
            help="Image of kube-rbac-proxy, which adds TLS and authorization to the metrics.",
        ),
    ] = None,
    payload_kubeadm: Annotated[
        str | None,
        typer.Option(
            "--payload-kubeadm",
            metavar="VERSION",
            help="Use the shipped payload for kubeadm. Each pod downloads it through the proxy.",
        ),
    ] = None,
    payload_cni: Annotated[
        str, typer.Option("--payload-cni", help="Network plugin for --payload-kubeadm: calico, flannel or none.")
    ] = "calico",
    values: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Installation values as YAML, or - for standard input. Options take precedence.",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", metavar="DIR", help="Write one file for each object, and a kustomization.yaml."),
    ] = None,
    olm_bundle: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Write a bundle for this image, and a catalog for the Operator Lifecycle Manager, to --output-dir.",
        ),
    ] = None,
    any_cluster: Annotated[
        bool,
        typer.Option(
            "--any-cluster",
            help="Do not check whether the current cluster has a Transom in another namespace.",
        ),
    ] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.YAML,
    force: Force = False,
) -> None:
    """Print everything needed to install Transom.

    transom manifests --image registry.example/transom:0.1.0 | kubectl apply -f -
    """
    from msgspec.structs import replace

    from transom.manifests.install import build_objects
    from transom.manifests.values import to_json_data

    for flag, reference in (("--image", image), ("--metrics-proxy", metrics_proxy), ("--payload-image", payload_image)):
        if reference is not None:
            require_registry_image(flag, reference, any_registry=any_registry or flag == "--metrics-proxy")
    chart_values = _read_values(values)
    source = context.get_parameter_source("image")
    if chart_values.image.registry and source is not None and source.name == "ENVIRONMENT":
        # what the file says of this install is nearer than what the environment says of all
        image = None
    if payload_image is not None or payload_claim is not None or payload_kubeadm is not None or payload_copied:
        payload = _build_payload_values(payload_image, payload_claim, payload_kubeadm, payload_cni, copied=payload_copied)
        chart_values = replace(chart_values, payload=payload)
    parts = part or list(InstallPart)
    chosen = _merge_options(
        chart_values,
        controllers,
        image,
        metrics_proxy,
        cluster_api=cluster_api,
        openshift=openshift,
        require_host_keys=require_host_keys,
        webhook=InstallPart.WEBHOOK in (part or ()),
    )
    if not (chosen.image.registry or any_registry) and {InstallPart.OPERATOR, InstallPart.WEBHOOK} & set(parts):
        fail(
            "--image: name the image in your registry, such as registry.example/transom:VERSION (or set TRANSOM_IMAGE, or "
            "`image.registry` of the values); --any-registry is transom of this version, wherever nodes find it"
        )
    made = build_objects(to_json_data(chosen), namespace, part or ())
    if output_dir is None and not any_cluster and any(item["kind"] == "ClusterRoleBinding" for item in made):
        _refuse_second_install(namespace)
    if olm_bundle is not None:
        require_registry_image("--olm-bundle", olm_bundle, any_registry=any_registry)
        if output_dir is None or part:
            fail("--olm-bundle: it needs --output-dir, and no --part")
        _write_bundle(output_dir, made, namespace, olm_bundle, force=force)
    elif output_dir is not None:
        _write_manifests(output_dir, made, namespace, force=force)
    elif output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": made}, output)
    else:
        dump_yaml(made, sys.stdout)


_CHECK_SECONDS = 3.0


def _refuse_second_install(namespace: str) -> None:
    """End the command if the current cluster has a Transom in another namespace; nothing is said if that cannot be read.

    ClusterRoleBindings and policies have fixed names: applied for another namespace, they take the rights of the first.
    """
    if not (os.environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").exists()):
        # what asks a cluster takes a while to load
        return
    import asyncio
    import contextlib

    from transom.cli.cluster import describe_server
    from transom.cli.stopping import run_until_stopped
    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError

    async def find_install() -> tuple[str, str]:
        async with asyncio.timeout(_CHECK_SECONDS):
            connection = connect()
            try:
                return await find_other_install(Client(connection), namespace), describe_server(connection)
            finally:
                await connection.close()

    log_to_stderr(verbose=False)
    with contextlib.suppress(ApiError, ConfigurationError, TimeoutError, OSError):
        other, cluster = run_until_stopped(find_install())
        if other:
            fail(
                f"--namespace {namespace}: {cluster} has Transom in namespace {other}, and a cluster can have only one:"
                f" these manifests would remove its rights. Use --namespace {other}, or uninstall it first (transom uninstall"
                f" -n {other}); --any-cluster prints them anyway",
                ExitCode.NOT_DONE,
            )


async def find_other_install(client: "Client", namespace: str) -> str:
    """Return the namespace whose ServiceAccount ClusterRoleBinding transom binds, if it is another one. Raises ApiError."""
    from transom.kube.errors import NotFound
    from transom.kube.objects import UnstructuredObject
    from transom.kube.resources import Resource
    from transom.manifests.grants import NAME, RBAC

    group, _, version = RBAC.partition("/")
    bindings = Resource(group, version, "ClusterRoleBinding", "clusterrolebindings", False, UnstructuredObject)
    try:
        binding = await client.get(bindings, NAME)
    except NotFound:
        return ""
    bound = [str(subject.get("namespace")) for subject in binding.value.get("subjects") or ()]
    return "" if namespace in bound else next(iter(bound), "")


def list_all_objects(namespace: str) -> list[dict[str, Any]]:
    """All that any values make in a cluster; the images are not what they were."""
    from transom.manifests.install import build_objects
    from transom.manifests.values import Metrics, Values, to_json_data

    most = Values(
        controllers=["egress", "windows", "pods", "fleet"],
        openshift=True,
        metrics=Metrics(proxy="kube-rbac-proxy", service_monitor=True, alerts=True, dashboard=True),
    )
    return build_objects(to_json_data(most), namespace)


def build_api_resource(value: "Mapping[str, Any]") -> "Resource[Any]":
    """Return where the API has objects of the kind: the plurals of what `transom manifests` makes are regular."""
    from transom.kube.objects import Metadata
    from transom.kube.resources import Resource

    kind = value["kind"]
    group, _, version = value["apiVersion"].rpartition("/")
    name = kind.lower()
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"
    return Resource(group, version, kind, plural, "namespace" in value["metadata"], Metadata)


def _read_values(file: str | None) -> "Values":
    from transom.manifests.values import ValuesInvalid, read_values
    from transom.sources.yaml_text import MAX_BYTES, InvalidText, read_documents

    if file is None:
        return read_values({})
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if file == "-" else read_regular_file(file)
        documents = [document.value for document in read_documents(data)]
    except OSError as error:
        fail(f"--values {file}: {error.strerror or error}")
    except InvalidText as error:
        fail(f"--values {file}: {error}")
    if len(documents) > 1 or not isinstance(documents[0] if documents else {}, dict):
        fail(f"--values {file}: must be one mapping, such as `image: {{registry: registry.example}}`")
    try:
        return read_values(documents[0] if documents else {})
    except ValuesInvalid as error:
        fail(f"--values {file}: {error}")


def _merge_options(
    values: "Values",
    controllers: str | None,
    image: str | None,
    metrics_proxy: str | None,
    *,
    cluster_api: bool,
    openshift: bool,
    require_host_keys: bool,
    webhook: bool,
) -> "Values":
    """Merge the values of a file with the options."""
    from msgspec.structs import replace

    from transom.manifests.roles import parse_controllers as named

    if controllers is not None:
        try:
            named(controllers)
        except ValueError as error:
            fail(f"--controllers: {error}")
        values = replace(values, controllers=[name.strip() for name in controllers.split(",") if name.strip()])
    if cluster_api and "fleet" not in values.controllers:
        values = replace(values, controllers=[*values.controllers, "fleet"])
    if image is not None:
        values = replace(values, image=_parse_image(image))
    if metrics_proxy is not None:
        values = replace(values, metrics=replace(values.metrics, proxy=metrics_proxy))
    if webhook:
        values = replace(values, webhook=replace(values.webhook, always=True))
    return replace(
        values, openshift=values.openshift or openshift, require_host_keys=values.require_host_keys or require_host_keys
    )


def require_registry_image(flag: str, reference: str, *, any_registry: bool) -> None:
    """See that it is an image that nodes can find; ends the command where it is not.

    The first part of a name is a registry where it has a dot or a colon, or is `localhost` (github.com/distribution/reference,
    normalize.go, splitDockerDomain).
    """
    from transom.manifests.values import REFERENCE

    if not re.fullmatch(REFERENCE, reference):
        fail(f"{flag}: {reference!r} is not a valid image: for example registry.example/transom:0.1.0, or with @sha256:…")
    registry, slash, _ = reference.partition("/")
    if not any_registry and not (slash and (set(registry) & {".", ":"} or registry == "localhost")):
        fail(f"{flag}: {reference} names no registry, and nodes would look for it in another one: registry.example/{reference}")


def _build_payload_values(image: str | None, claim: str | None, kubeadm: str | None, cni: str, *, copied: bool) -> "Payload":
    import msgspec

    from transom.manifests.values import Payload

    ways = {"--payload-image": image, "--payload-claim": claim, "--payload-kubeadm": kubeadm}
    used_flags = [flag for flag, value in ways.items() if value is not None]
    if len(used_flags) > 1:
        fail(f"{used_flags[1]}: the payload comes from {used_flags[0]} already")
    if copied and image is None:
        fail("--payload-copied: name the image by --payload-image")
    if kubeadm is not None:
        from transom.cli.commands.payload import build_kubeadm_files

        build_kubeadm_files(cni, kubeadm, flags=("--payload-cni", "--payload-kubeadm"))
        return msgspec.convert({"kubeadm": kubeadm, "cni": cni}, Payload)
    if claim is not None:
        return Payload(volume={"persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    return Payload(image=image or "", copied=copied)


def _parse_image(reference: str) -> "Image":
    """Parse a reference that matches `REFERENCE`."""
    from transom.manifests.values import Image

    named, _, digest = reference.partition("@")
    registry, _, last = named.rpartition("/")
    name, _, tag = last.partition(":")
    return Image(registry=registry, name=name, tag=tag, digest=digest)


def _write_manifests(directory: Path, objects: list[dict[str, Any]], namespace: str, *, force: bool) -> None:
    files: dict[str, bytes] = {}
    for obj in objects:
        meta = obj["metadata"]
        place = [meta["namespace"]] if meta.get("namespace", namespace) != namespace else []
        files["-".join([obj["kind"].lower(), *place, meta["name"]]) + ".yaml"] = _to_yaml([obj])
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(files)}
    files["kustomization.yaml"] = _to_yaml([kustomization])
    write_files("--output-dir", directory, files, force=force)
    print_to_stderr(f"{len(files) - 1} objects and kustomization.yaml in {directory}")


def _to_yaml(objects: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    dump_yaml(objects, text)
    return text.getvalue().encode()


def dump_yaml(objects: list[dict[str, Any]], file: TextIO) -> None:
    """Write objects as YAML, for people."""
    import yaml

    yaml.dump_all(objects, file, Dumper=_create_dumper(), sort_keys=False, allow_unicode=True, width=110)


def _create_dumper() -> Any:
    """Create a dumper without anchors, which are hard to read."""
    import yaml

    class QuotingDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return QuotingDumper


def _write_bundle(directory: Path, objects: list[dict[str, Any]], namespace: str, image: str, *, force: bool) -> None:
    """Write the files of a bundle and a catalog for the Operator Lifecycle Manager below a directory. Raises Exit."""
    from transom import __version__
    from transom.manifests.grants import NAME
    from transom.manifests.olm import build_bundle, build_catalog

    made = build_bundle(objects, namespace, __version__)
    documents: dict[str, list[dict[str, Any]]] = {
        **{f"bundle/manifests/{name}": [manifest] for name, manifest in made.manifests.items()},
        "bundle/metadata/annotations.yaml": [{"annotations": made.annotations}],
        f"catalog/{NAME}/catalog.yaml": build_catalog(made, image, __version__),
        "beside.yaml": made.beside,
    }
    labels = "".join(f"LABEL {name}={text}\n" for name, text in made.annotations.items())
    copies = "COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n"
    files = {name: _to_yaml(content) for name, content in documents.items()}
    files["bundle.Dockerfile"] = f"FROM scratch\n{labels}{copies}".encode()
    write_files("--output-dir", directory, files, force=force)
    print_to_stderr(f"bundle, catalog, bundle.Dockerfile, and beside.yaml, which is applied first, in {directory}")
