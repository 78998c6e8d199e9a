"""`transom capi`: Windows workers of Cluster API clusters, and the images that they boot from."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from transom.capi.inputs import ProviderName
from transom.cli.completion import providers
from transom.cli.examples import epilog
from transom.cli.findings import Source, print_findings
from transom.cli.options import grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, tell, write_private, yaml_stream

if TYPE_CHECKING:
    from transom.capi.inputs import WorkerInputs
    from transom.proxy.settings import Egress

capi = typer.Typer(name="capi", help="Windows workers by Cluster API: bootstrap and images.", no_args_is_help=True)

_PROVIDERS = " or ".join(", ".join(get_args(ProviderName)).rsplit(", ", 1)) + "."
_LARGEST = 1_048_576
"""A file of an image's build that is longer, in bytes, is no text of one."""
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


@capi.command(epilog=epilog("capi worker"))
@grouped
def worker(
    source: Source,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="The Cluster that gets the machines.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", help=_PROVIDERS, autocompletion=providers),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option("--inputs", metavar="FILE", help="Inputs as YAML or JSON; flags override them.")
    ] = None,
    cluster_namespace: Annotated[
        str | None, typer.Option("--cluster-namespace", metavar="NS", help="The Cluster's namespace (default).")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The MachineDeployment's or MachinePool's name (<cluster>-win).")
    ] = None,
    machine_name_prefix: Annotated[
        str | None, typer.Option("--machine-name-prefix", metavar="TEXT", help="What machines' names begin with.")
    ] = None,
    machine_pool: Annotated[
        bool | None, typer.Option("--machine-pool", help="Make a MachinePool (aws, azure) instead of a MachineDeployment.")
    ] = None,
    location: Annotated[
        str | None, typer.Option("--location", metavar="REGION", help="Of a MachinePool on Azure: its region.")
    ] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="How many machines (1).")] = None,
    kubernetes_version: Annotated[
        str | None, typer.Option("--kubernetes-version", metavar="v1.N.M", help="The kubelets' version.")
    ] = None,
    control_plane_version: Annotated[
        str | None, typer.Option("--control-plane-version", metavar="v1.N.M", help="Check the version skew against it.")
    ] = None,
    windows: Annotated[
        str | None, typer.Option("--windows", metavar="YEAR", help="Windows Server: 2019, 2022 or 2025 (2022).")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="The image, as the provider names images.")] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="The machines' type, size or flavor.")
    ] = None,
    secret_store: Annotated[
        str | None,
        typer.Option("--secret-store", help="Keep the join token there: secrets-manager or ssm-parameter-store (AWS)."),
    ] = None,
    daemons: Annotated[
        str | None, typer.Option("--daemons", help="How kube-proxy runs: hostprocess or services (hostprocess).")
    ] = None,
    cni: Annotated[
        str | None, typer.Option("--cni", help="Who makes the pods' network: calico, flannel or none (calico).")
    ] = None,
    network_name: Annotated[
        str | None, typer.Option("--network-name", metavar="NAME", help="With --cni none: what HNS calls the pods' network.")
    ] = None,
    api_version: Annotated[
        str | None, typer.Option("--api-version", help="Of Cluster API: v1beta1 or v1beta2 (v1beta2).")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="TEXT", help="Another text makes new templates of the same inputs.")
    ] = None,
    previous: Annotated[
        list[str] | None,
        typer.Option(
            "--previous", metavar="PATH", help="Objects of an earlier run or of the cluster: old templates are named."
        ),
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            "--part",
            help="machines: for the management cluster; daemons, network: for the workload cluster (kube-proxy, and what "
            "Calico's operator is told).",
        ),
    ] = "machines",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.YAML,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="D", help="Write files, values included, each 0600.")
    ] = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Print the Secret with credentials too.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of an inputs file.")] = False,
) -> None:
    """Print Windows workers of a Cluster API cluster.

    That is templates, MachineDeployment or MachinePool, proxy and kube-proxy.
    """
    from transom.capi.inputs import schema as inputs_schema
    from transom.capi.worker import make, replaced

    if schema:
        print_data(inputs_schema(), Format.JSON)
        return
    if part not in ("machines", "daemons", "network"):
        fail(f"--part is machines, daemons or network, not {part!r}")
    given = locals()
    flags = {field: given[field] for field in _FLAGS if given[field] is not None}
    if cluster_namespace is not None:
        flags["namespace"] = cluster_namespace
    wanted, said = _inputs(inputs, flags)
    wanted, egress, identity = _of_cluster(source, wanted)
    made = make(wanted, egress, identity, inputs or "")
    print_findings(made.findings, sys.stderr)
    if any(finding.severity == "error" for finding in made.findings):
        raise SystemExit(ExitCode.INVALID)
    for note in (*_unsaid(wanted, said, settings=bool(source.filename or source.context)), *made.notes):
        tell(f"note: {note}")
    objects = {"machines": made.objects, "daemons": made.daemons, "network": made.network}[part]
    present = [*_objects(previous or ()), *(_objects([output_dir]) if output_dir and Path(output_dir).is_dir() else ())]
    for line in replaced(made.objects, present):
        tell(f"note: {line}")
    if output_dir is not None:
        _write(Path(output_dir), objects)
        return
    if made.secret and not show_secrets:
        objects = tuple(item for item in objects if item["metadata"]["name"] != made.secret)
        tell(
            f"note: Secret {wanted.namespace}/{made.secret} holds credentials and is left out: --show-secrets prints it, "
            "--output-dir writes it, and an operator of `transom manifests --cluster-api` keeps it"
        )
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(objects)}, output)
    else:
        print_document(yaml_stream(objects))


def _inputs(path: str | None, flags: Mapping[str, Any]) -> "tuple[WorkerInputs, set[str]]":
    """The inputs, and the names of those that were given."""
    import msgspec

    from transom.capi.inputs import WorkerInputs
    from transom.cli.capi_inputs import read_inputs, read_mapping

    read = read_mapping(path) if path is not None else {}
    renamed = {field.name: field.encode_name for field in msgspec.structs.fields(WorkerInputs)}
    told = {name: f"{path}: {name}" for name in read} | {renamed[name]: _flag(name) for name in flags}
    told[""] = path or "the flags"
    values = {**read, **{renamed[name]: value for name, value in flags.items()}}
    return read_inputs(values, WorkerInputs, told, "; --schema prints what there is"), set(values)


def _flag(field: str) -> str:
    """The flag of a field."""
    return "--cluster-namespace" if field == "namespace" else f"--{field.replace('_', '-')}"


def _of_cluster(source: Source, inputs: "WorkerInputs") -> "tuple[WorkerInputs, Egress | None, str]":
    """The inputs with the networks of the Cluster, its settings, and its id.

    All are of what the manifests, or the management cluster of a named context, hold; nothing is known without them.
    """
    if not source.filename and source.context is None:
        return inputs, None, ""
    import msgspec

    from transom.capi.identity import InvalidIdentity, cluster_id
    from transom.cli.findings import examine_or_fail

    objects, examined = examine_or_fail(source)
    found = next(
        (
            item
            for item in objects.clusters
            if (item.metadata.namespace or "", item.metadata.name) == (inputs.namespace, inputs.cluster)
        ),
        None,
    )
    if found is None:
        fail(
            f"{'-f' if source.filename else '--context'}: there is no Cluster {inputs.namespace}/{inputs.cluster}; NO_PROXY is "
            "made of its networks (--cluster-namespace says where it is)"
        )
    egress = examined.settings.asked_for((inputs.namespace, inputs.cluster))
    try:
        identity = cluster_id(found)
    except InvalidIdentity as error:
        fail(f"Cluster {inputs.namespace}/{inputs.cluster}: {error}")
    if egress is not None and "Nodes" not in egress.consumers:
        egress = None
    networks = {"service_cidr": ",".join(found.services), "pod_cidr": ",".join(found.pods), "api_server": found.endpoint}
    unsaid = {field: value for field, value in networks.items() if value and not getattr(inputs, field)}
    return msgspec.structs.replace(inputs, **unsaid), egress, identity


def _unsaid(inputs: "WorkerInputs", said: set[str], *, settings: bool) -> Iterator[str]:
    """Defaults that somebody should know of."""
    if "kubernetesVersion" not in said:
        yield f"Kubernetes {inputs.kubernetes_version}, since --kubernetes-version is not given: it must be the cluster's"
    if not settings:
        yield "no egress proxy and no CAs, since there is no -f and no --context"


def _objects(paths: Iterable[str]) -> list[dict[str, Any]]:
    """The objects of files and directories, members of lists one by one."""
    import yaml

    found: list[dict[str, Any]] = []
    for path in paths:
        if not Path(path).exists():
            fail(f"{path}: there is no such file or directory")
        files = sorted(file for file in Path(path).rglob("*") if file.suffix in (".yaml", ".yml", ".json"))
        for file in files if Path(path).is_dir() else [Path(path)]:
            try:
                documents = list(yaml.load_all(file.read_bytes(), yaml.CSafeLoader))
            except OSError as error:
                fail(f"{file}: cannot be read: {error.strerror}")
            except yaml.YAMLError:
                fail(f"{file}: this is not YAML")
            for document in documents:
                if isinstance(document, dict):
                    found += document.get("items", [document]) if str(document.get("kind", "")).endswith("List") else [document]
    return [item for item in found if isinstance(item, dict)]


def _write(directory: Path, objects: Iterable[Mapping[str, Any]]) -> None:
    for item in objects:
        metadata = item["metadata"]
        folder = directory / metadata.get("namespace", "_cluster")
        write_private(folder / f"{item['kind'].lower()}-{metadata['name']}.yaml", yaml_stream([item]).encode())


@capi.command(epilog=epilog("capi check"))
def check(
    filename: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH", help="Templates, files of an image's build, or a directory of them."),
    ],
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the findings.")] = Format.TEXT,
) -> None:
    """Check somebody's own templates and image files for Windows.

    By what providers, cloudbase-init and Packer really do.
    """
    import msgspec

    from transom.capi.template_check import GivenObject, check

    objects, files = [], {}
    for path in filename:
        if not Path(path).exists():
            fail(f"{path}: there is no such file or directory", ExitCode.NOT_READ)
        for file in sorted(one for one in Path(path).rglob("*") if one.is_file()) if Path(path).is_dir() else [Path(path)]:
            if file.suffix in (".yaml", ".yml", ".json") and not file.name.endswith("manifest.json"):
                objects += [GivenObject(str(file), item) for item in _objects([str(file)])]
            elif file.suffix in (".hcl", ".ps1", ".conf", "") and file.stat().st_size < _LARGEST:
                files[str(file)] = file.read_text("utf-8", "replace")
    if not objects and not files:
        fail(f"{', '.join(filename)}: there is nothing to check", ExitCode.NOT_READ)
    findings = list(check(objects, files))
    if output is Format.TEXT:
        print_findings(findings, sys.stdout)
    else:
        print_data([msgspec.to_builtins(finding) for finding in findings], output)
    if findings:
        raise SystemExit(ExitCode.NOT_DONE)


@capi.command(epilog=epilog("capi image"))
def image(
    provider: Annotated[
        str,
        typer.Option("--provider", metavar="NAME", help=_PROVIDERS, autocompletion=providers),
    ],
    output_dir: Annotated[str | None, typer.Option("--output-dir", metavar="D", help="Where the files are written.")] = None,
    windows: Annotated[str, typer.Option("--windows", metavar="YEAR", help="Windows Server: 2019, 2022 or 2025.")] = "2022",
    kubernetes_version: Annotated[
        str | None, typer.Option("--kubernetes-version", metavar="v1.N.M", help="The version of kubelet and kubeadm.")
    ] = None,
    daemons: Annotated[
        str, typer.Option("--daemons", help="hostprocess, or services: kube-proxy is on the image.")
    ] = "hostprocess",
    variable: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A Packer variable: containerd_url, containerd_sha256 and so on."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="List what the build downloads, and write nothing.")] = False,
    downloads: Annotated[
        str | None,
        typer.Option("--downloads", metavar="D", help="Files of that list: the build takes them from there."),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the list.")] = Format.TEXT,
) -> None:
    """Write a Packer template for the workers' image.

    With its scripts and a manifest of what goes in.
    """
    from transom.capi.image import InvalidRecipe, make
    from transom.capi.image.inputs import ImageInputs
    from transom.capi.image.inputs import downloads as needed
    from transom.capi.windows_release import LICENCE
    from transom.cli.capi_inputs import copy_downloads, hashes, list_downloads, read_inputs, variable_of

    values: dict[str, Any] = {"provider": provider, "windows": windows, "daemons": daemons}
    if kubernetes_version is not None:
        values["kubernetes_version"] = kubernetes_version
    values["variables"] = dict(variable_of(text) for text in variable or ())
    local = hashes(Path(downloads)) if downloads is not None else None
    try:
        inputs = read_inputs(values, ImageInputs, {name: _flag(name) for name in values})
        if offline:
            list_downloads(needed(inputs), output)
            return
        made = make(inputs, local)
    except InvalidRecipe as error:
        fail(str(error))
    if output_dir is None:
        fail("--output-dir D is missing: where the template and its scripts are to be written")
    missing = [item.file for item in made.downloads if local is not None and item.file not in local]
    if missing:
        fail(f"--downloads {downloads}: {', '.join(missing)} is not there; --offline lists what the build needs")
    directory = Path(output_dir)
    for name, content in made.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    if downloads is not None:
        copy_downloads(Path(downloads), directory / "downloads")
    tell(f"note: packer init {directory} && packer build {directory}")
    tell(f"note: {LICENCE}")
