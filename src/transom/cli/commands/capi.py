"""`transom capi`: Windows workers of Cluster API clusters, and the images that they boot from."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from transom.capi.check.worker_inputs import ProviderName
from transom.cli.completion import complete_provider
from transom.cli.examples import build_epilog
from transom.cli.findings import Source, print_findings
from transom.cli.messages import print_to_stderr
from transom.cli.options import with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, to_yaml_stream
from transom.cli.output_files import Force, write_files
from transom.common.regular_files import read_regular_file, read_regular_text

if TYPE_CHECKING:
    from transom.capi.check.worker_inputs import WorkerInputs
    from transom.proxy.settings import Egress

capi = typer.Typer(name="capi", help="Create and check Windows workers for Cluster API.", no_args_is_help=True)

_PROVIDERS = " or ".join(", ".join(get_args(ProviderName)).rsplit(", ", 1)) + "."
_LARGEST = 1_048_576
"""The maximum size, in bytes, of a file of an image's build."""
_FLAGS = (
    "cluster",
    "provider",
    "name",
    "machine_name_prefix",
    "machine_pool",
    "location",
    "replicas",
    "kubernetes_version",
    "control_plane_version",
    "windows",
    "image",
    "instance_type",
    "secret_store",
    "daemons",
    "cni",
    "network_name",
    "api_version",
    "revision",
)


@capi.command(epilog=build_epilog("capi worker"))
@with_option_groups
def worker(
    source: Source,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Name of the Cluster for the machines.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", help=_PROVIDERS, autocompletion=complete_provider),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option("--inputs", metavar="FILE", help="Inputs as YAML or JSON. Options take precedence.")
    ] = None,
    cluster_namespace: Annotated[
        str | None, typer.Option("--cluster-namespace", metavar="NS", help="Namespace of the Cluster (default).")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the MachineDeployment or MachinePool (<cluster>-win).")
    ] = None,
    machine_name_prefix: Annotated[
        str | None, typer.Option("--machine-name-prefix", metavar="TEXT", help="Prefix of machine names.")
    ] = None,
    machine_pool: Annotated[
        bool | None, typer.Option("--machine-pool", help="Create a MachinePool (aws, azure) instead of a MachineDeployment.")
    ] = None,
    location: Annotated[
        str | None, typer.Option("--location", metavar="REGION", help="Region of a MachinePool on Azure.")
    ] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="Number of machines (1).")] = None,
    kubernetes_version: Annotated[
        str | None, typer.Option("--kubernetes-version", metavar="v1.N.M", help="Version of the kubelets.")
    ] = None,
    control_plane_version: Annotated[
        str | None,
        typer.Option(
            "--control-plane-version",
            metavar="v1.N.M",
            help="Version of the control plane, to check the version skew.",
        ),
    ] = None,
    windows: Annotated[
        str | None, typer.Option("--windows", metavar="YEAR", help="Version of Windows Server: 2019, 2022 or 2025 (2022).")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="Machine image, in the provider's notation.")] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="Type, size or flavor of the machines.")
    ] = None,
    secret_store: Annotated[
        str | None,
        typer.Option("--secret-store", help="Store for the join token: secrets-manager or ssm-parameter-store (AWS)."),
    ] = None,
    daemons: Annotated[
        str | None, typer.Option("--daemons", help="How kube-proxy runs: hostprocess or services (hostprocess).")
    ] = None,
    cni: Annotated[str | None, typer.Option("--cni", help="Network plugin: calico, flannel or none (calico).")] = None,
    network_name: Annotated[
        str | None, typer.Option("--network-name", metavar="NAME", help="With --cni none: name of the pod network in HNS.")
    ] = None,
    api_version: Annotated[
        str | None, typer.Option("--api-version", help="Version of Cluster API: v1beta1 or v1beta2 (v1beta2).")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="TEXT", help="Revision. A new value creates new templates from the same inputs."),
    ] = None,
    previous: Annotated[
        list[str] | None,
        typer.Option(
            "--previous", metavar="PATH", help="Objects from an earlier run or from the cluster, to list old templates."
        ),
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            "--part",
            help="Objects to print: machines for the management cluster; daemons (kube-proxy) or network (Calico's operator) "
            "for the workload cluster.",
        ),
    ] = "machines",
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.YAML,
    output_dir: Annotated[
        str | None,
        typer.Option("--output-dir", metavar="D", help="Write files instead, including secret values, with mode 0600."),
    ] = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Include the Secret with credentials.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of an inputs file.")] = False,
    force: Force = False,
) -> None:
    """Print Windows workers for a Cluster API cluster.

    The output contains templates, a MachineDeployment or MachinePool, the proxy, and kube-proxy.
    """
    from transom.capi.check.worker_inputs import build_schema as inputs_schema
    from transom.capi.worker.worker_objects import build_worker, iter_obsolete_objects

    if schema:
        print_data(inputs_schema(), Format.JSON)
        return
    if part not in ("machines", "daemons", "network"):
        fail(f"--part is machines, daemons or network, not {part!r}")
    arguments = locals()
    flags = {field: arguments[field] for field in _FLAGS if arguments[field] is not None}
    if cluster_namespace is not None:
        flags["namespace"] = cluster_namespace
    wanted, user_fields = _read_inputs(inputs, flags)
    wanted, egress, identity = _fill_inputs_from_cluster(source, wanted, named="namespace" in user_fields)
    made = build_worker(wanted, egress, identity, inputs or "", _find_infrastructure(source, wanted))
    print_findings(made.findings, sys.stderr)
    if any(finding.severity == "error" for finding in made.findings):
        raise SystemExit(ExitCode.INVALID)
    for note in (*_iter_default_notes(wanted, user_fields, settings=bool(source.filename or source.context)), *made.notes):
        print_to_stderr(f"note: {note}")
    objects = {"machines": made.objects, "daemons": made.daemons, "network": made.network}[part]
    present = [
        *_read_objects(previous or ()),
        *(_read_objects([output_dir]) if output_dir and Path(output_dir).is_dir() else ()),
    ]
    for line in iter_obsolete_objects(made.objects, present):
        print_to_stderr(f"note: {line}")
    if output_dir is not None:
        _write_manifests(Path(output_dir), objects, force=force)
        return
    if made.secret and not show_secrets:
        objects = tuple(item for item in objects if item["metadata"]["name"] != made.secret)
        print_to_stderr(
            f"note: Secret {wanted.namespace}/{made.secret} holds credentials and is left out: --show-secrets prints it, "
            "--output-dir writes it, and an operator of `transom manifests --cluster-api` keeps it"
        )
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(objects)}, output)
    else:
        print_document(to_yaml_stream(objects))


def _read_inputs(path: str | None, flags: Mapping[str, Any]) -> "tuple[WorkerInputs, set[str]]":
    """Return the inputs and the names of those that the user set."""
    import msgspec

    from transom.capi.check.worker_inputs import WorkerInputs
    from transom.cli.capi_inputs import read_inputs, read_mapping

    read = read_mapping(path) if path is not None else {}
    renamed = {field.name: field.encode_name for field in msgspec.structs.fields(WorkerInputs)}
    sources = {name: f"{path}: {name}" for name in read} | {renamed[name]: _get_flag(name) for name in flags}
    sources[""] = path or "the flags"
    values = {**read, **{renamed[name]: value for name, value in flags.items()}}
    return read_inputs(values, WorkerInputs, sources, "; --schema prints what there is"), set(values)


def _get_flag(field: str) -> str:
    """Return the flag of a field."""
    return "--cluster-namespace" if field == "namespace" else f"--{field.replace('_', '-')}"


def _fill_inputs_from_cluster(
    source: Source, inputs: "WorkerInputs", *, named: bool
) -> "tuple[WorkerInputs, Egress | None, str]":
    """Read the Cluster: the inputs with its networks, its settings, and its id; without `named` also its namespace.

    All come from the manifests, or from the management cluster of a named context; without these nothing is known.
    """
    if not source.filename and source.context is None:
        return inputs, None, ""
    import msgspec

    from transom.capi.values.cluster_identity import InvalidIdentity, get_cluster_id
    from transom.cli.findings import examine_or_fail

    objects, examined = examine_or_fail(source)
    cluster = next(
        (
            item
            for item in objects.clusters
            if (item.metadata.namespace or "", item.metadata.name) == (inputs.namespace, inputs.cluster)
        ),
        None,
    )
    same_name = [item for item in objects.clusters if item.metadata.name == inputs.cluster]
    if cluster is None and not named and len(same_name) == 1:
        (cluster,) = same_name
        inputs = msgspec.structs.replace(inputs, namespace=cluster.metadata.namespace or "default")
    if cluster is None:
        fail(
            f"{'-f' if source.filename else '--context'}: no Cluster {inputs.namespace}/{inputs.cluster} exists; NO_PROXY is "
            "made of its networks (--cluster-namespace says where it is)"
        )
    egress = examined.settings.get_with_withheld((inputs.namespace, inputs.cluster))
    try:
        identity = get_cluster_id(cluster)
    except InvalidIdentity as error:
        fail(f"Cluster {inputs.namespace}/{inputs.cluster}: {error}")
    if egress is not None and "Nodes" not in egress.consumers:
        egress = None
    networks = {"service_cidr": ",".join(cluster.services), "pod_cidr": ",".join(cluster.pods), "api_server": cluster.endpoint}
    unsaid = {field: value for field, value in networks.items() if value and not getattr(inputs, field)}
    return msgspec.structs.replace(inputs, **unsaid), egress, identity


def _find_infrastructure(source: Source, inputs: "WorkerInputs") -> "dict[str, Any] | None":
    """Return the object of the infrastructure that the Cluster of the manifests refers to; None where it is not among them."""
    from transom.sources.directory import iter_values

    objects = list(iter_values(source.filename or ()))
    key = (inputs.namespace, inputs.cluster)
    for cluster in (item for item in objects if item.get("kind") == "Cluster" and _get_namespace_and_name(item) == key):
        reference = cluster["spec"].get("infrastructureRef") or {}
        for item in objects:
            if item.get("kind") == reference.get("kind") and _get_namespace_and_name(item) == (
                inputs.namespace,
                reference.get("name"),
            ):
                return item
    return None


def _get_namespace_and_name(item: Mapping[str, Any]) -> tuple[str, Any]:
    metadata = item.get("metadata")
    return (metadata.get("namespace") or "default", metadata.get("name")) if isinstance(metadata, dict) else ("", None)


def _iter_default_notes(inputs: "WorkerInputs", user_fields: set[str], *, settings: bool) -> Iterator[str]:
    """Iterate over notes on defaults that the user should know."""
    if "kubernetesVersion" not in user_fields:
        yield f"Kubernetes {inputs.kubernetes_version}, since --kubernetes-version is not given: it must be the cluster's"
    if not settings:
        yield "no egress proxy and no CAs, since there is no -f and no --context"


def _read_objects(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return the objects of files and directories; items of lists are separate."""
    from transom.sources.yaml_text import InvalidText, read_documents

    object_list: list[dict[str, Any]] = []
    for path in paths:
        if not Path(path).exists():
            fail(f"{path}: no such file or directory")
        files = sorted(file for file in Path(path).rglob("*") if file.suffix in (".yaml", ".yml", ".json"))
        for file in files if Path(path).is_dir() else [Path(path)]:
            try:
                documents = [document.value for document in read_documents(read_regular_file(file))]
            except OSError as error:
                fail(f"{file}: cannot be read: {error.strerror}")
            except InvalidText as error:
                fail(f"{file}{f':{error.line}:{error.column}' if error.line else ''}: {error.reason}")
            for document in documents:
                if isinstance(document, dict):
                    items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
                    object_list += items if isinstance(items, list) else [document]
    return [item for item in object_list if isinstance(item, dict)]


def _write_manifests(directory: Path, objects: Iterable[Mapping[str, Any]], *, force: bool) -> None:
    files = {}
    for item in objects:
        metadata = item["metadata"]
        folder = metadata.get("namespace", "_cluster")
        files[f"{folder}/{item['kind'].lower()}-{metadata['name']}.yaml"] = to_yaml_stream([item]).encode()
    write_files("--output-dir", directory, files, force=force, private=True)


@capi.command(epilog=build_epilog("capi check"))
def check(
    filename: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH", help="Templates, files of an image build, or a directory of them."),
    ],
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TEXT,
) -> None:
    """Check your own templates and image files for Windows.

    The checks follow the actual behaviour of providers, cloudbase-init and Packer.
    """
    import msgspec

    from transom.capi.check.template_check import SourceObject, check_templates

    objects, files = [], {}
    for path in filename:
        if not Path(path).exists():
            fail(f"{path}: no such file or directory", ExitCode.NOT_READ)
        for file in _list_visible_files(Path(path)) if Path(path).is_dir() else [Path(path)]:
            if file.suffix in (".yaml", ".yml", ".json") and not file.name.endswith("manifest.json"):
                objects += [SourceObject(str(file), item) for item in _read_objects([str(file)])]
            elif file.suffix in (".hcl", ".ps1", ".conf", "") and file.stat().st_size < _LARGEST:
                files[str(file)] = read_regular_text(file, errors="replace")
    if not objects and not files:
        fail(f"{', '.join(filename)}: there is nothing to check", ExitCode.NOT_READ)
    findings = list(check_templates(objects, files))
    if not (findings or files or any(_is_checked(item.object) for item in objects)):
        fail(
            f"{', '.join(filename)}: there is nothing to check: no object of Cluster API, no DaemonSet, no image files",
            ExitCode.NOT_READ,
        )
    if output is Format.TEXT:
        print_findings(findings, sys.stdout)
    else:
        print_data([msgspec.to_builtins(finding) for finding in findings], output)
    if findings:
        raise SystemExit(ExitCode.NOT_DONE)


def _list_visible_files(directory: Path) -> list[Path]:
    """Return the files below a directory but hidden ones, such as `.gitignore`."""
    files = (item for item in directory.rglob("*") if item.is_file())
    return sorted(file for file in files if not any(part.startswith(".") for part in file.relative_to(directory).parts))


def _is_checked(item: Mapping[str, Any]) -> bool:
    """Return True if `capi check` looks at objects of this kind."""
    kind = item.get("kind")
    if kind == "ConfigMap":
        # a ClusterResourceSet applies the manifests in it
        return "DaemonSet" in str(item.get("data"))
    return kind in ("DaemonSet", "Installation") or "cluster.x-k8s.io" in str(item.get("apiVersion"))


@capi.command(epilog=build_epilog("capi image"))
def image(
    provider: Annotated[
        str,
        typer.Option("--provider", metavar="NAME", help=_PROVIDERS, autocompletion=complete_provider),
    ],
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="D", help="Directory to write the files to.")
    ] = None,
    windows: Annotated[
        str, typer.Option("--windows", metavar="YEAR", help="Version of Windows Server: 2019, 2022 or 2025.")
    ] = "2022",
    kubernetes_version: Annotated[
        str | None, typer.Option("--kubernetes-version", metavar="v1.N.M", help="Version of kubelet and kubeadm.")
    ] = None,
    daemons: Annotated[
        str, typer.Option("--daemons", help="How kube-proxy runs: hostprocess, or services if the image contains it.")
    ] = "hostprocess",
    variable: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="Set a Packer variable: containerd_url, containerd_sha256 and so on."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="List the downloads of the build, and write nothing.")] = False,
    downloads: Annotated[
        str | None,
        typer.Option("--downloads", metavar="D", help="Directory with these downloads, for the build to use."),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TEXT,
    force: Force = False,
) -> None:
    """Write a Packer template for the image of the workers.

    The output includes its scripts, and a manifest of the image's content.
    """
    from transom.capi.image.image_recipe import InvalidRecipe, build_recipe
    from transom.capi.image.inputs import ImageInputs
    from transom.capi.image.inputs import iter_downloads as needed
    from transom.capi.worker.windows_release import LICENCE
    from transom.cli.capi_inputs import (
        compute_hashes,
        copy_downloads,
        list_downloads,
        parse_variable,
        read_inputs,
        refuse_downloads,
    )

    values: dict[str, Any] = {"provider": provider, "windows": windows, "daemons": daemons}
    if kubernetes_version is not None:
        values["kubernetes_version"] = kubernetes_version
    values["variables"] = dict(parse_variable(text) for text in variable or ())
    local = compute_hashes(Path(downloads)) if downloads is not None else None
    try:
        inputs = read_inputs(values, ImageInputs, {name: _get_flag(name) for name in values})
        if offline:
            list_downloads(needed(inputs), output)
            return
        made = build_recipe(inputs, local)
    except InvalidRecipe as error:
        fail(str(error))
    if output_dir is None:
        fail("--output-dir D is missing: the directory for the template and its scripts")
    missing = [item.file for item in made.downloads if local is not None and item.file not in local]
    if missing:
        fail(f"--downloads {downloads}: {', '.join(missing)} does not exist; --offline lists what the build needs")
    directory = Path(output_dir)
    if downloads is not None and not force:
        refuse_downloads(Path(downloads), directory / "downloads")
    write_files("--output-dir", directory, made.files, force=force)
    if downloads is not None:
        copy_downloads(Path(downloads), directory / "downloads")
    print_to_stderr(f"note: packer init {directory} && packer build {directory}")
    print_to_stderr(f"note: {LICENCE}")
