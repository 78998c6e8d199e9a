"""`transom payload`: what a Windows worker is made of, as a directory."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.examples import epilog
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, print_lines, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.sources.payload import PayloadError
    from transom.windows.payload import Payload

payload = typer.Typer(
    help="What Windows workers are made of: a directory that `transom run --payload` reads.",
    short_help="What Windows workers are made of.",
    no_args_is_help=True,
)
Output = Annotated[Format, typer.Option("--output", "-o", help="How to write it.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The payload's directory.")]


@payload.command(epilog=epilog("payload schema"))
def schema() -> None:
    """Print the JSON Schema of payload.yaml."""
    from transom.sources.payload import payload_schema

    print_data(payload_schema(), Format.JSON)


@payload.command(epilog=epilog("payload default"))
def default(
    directory: Annotated[
        Path | None, typer.Option("--output-dir", metavar="DIR", help="Write it and its scripts there.")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="openshift or kubeadm.")] = "openshift",
    cni: Annotated[str, typer.Option("--cni", help="calico, flannel or none; of kubeadm.")] = "calico",
    kubernetes: Annotated[
        str, typer.Option("--kubernetes-version", metavar="VERSION", help="The kubelet's, such as v1.36.3; of kubeadm.")
    ] = "",
    csi_proxy: Annotated[
        bool, typer.Option("--csi-proxy", help="Also csi-proxy.exe, which you build yourself; of kubeadm.")
    ] = False,
) -> None:
    """Print the payload.yaml that is shipped.

    It is for OpenShift with OVN-Kubernetes, or for a cluster that kubeadm made.
    """
    from transom import payloads

    if kind == "openshift":
        if kubernetes or csi_proxy:
            fail("--kubernetes-version and --csi-proxy are of --kind kubeadm", ExitCode.INVALID)
        files = payloads.openshift()
    elif kind == "kubeadm":
        files = kubeadm_files(cni, kubernetes, csi_proxy)
    else:
        fail(f"--kind: there is no {kind!r}; there are openshift and kubeadm", ExitCode.INVALID)
    if directory is None:
        print_document(files["payload.yaml"].decode())
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    tell(f"transom: wrote payload.yaml and its scripts to {directory}; `transom payload build {directory}` completes it")
    if "cluster.yaml" in files:
        tell(f"transom: kubectl apply -f {directory / 'cluster.yaml'}, once: kube-proxy's rights")


def kubeadm_files(
    cni: str, kubernetes: str, csi_proxy: bool = False, *, flags: tuple[str, str] = ("--cni", "--kubernetes-version")
) -> "Mapping[str, bytes]":
    """The files of the payload for kubeadm, whose options have these names. Raises Exit."""
    from typing import cast

    from transom import payloads

    if cni not in payloads.CNIS:
        fail(f"{flags[0]}: there is no {cni!r}; there are {', '.join(payloads.CNIS)}", ExitCode.INVALID)
    if not kubernetes:
        fail(f"{flags[1]}: name the version that the nodes are to have, such as v1.36.3", ExitCode.INVALID)
    try:
        return payloads.kubeadm(cast("payloads.Cni", cni), kubernetes, csi_proxy=csi_proxy)
    except payloads.UnknownVersion as error:
        fail(f"{flags[1]}: {error}", ExitCode.INVALID)


@payload.command(epilog=epilog("payload build"))
def build(
    directory: Directory,
    files: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Where the files lie that payload.yaml names with `source`.")
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--from-image",
            metavar="IMAGE",
            help="The image of the Windows Machine Config Operator, as a directory or a tarball: it has all programs.",
        ),
    ] = None,
    layout: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="DIR", help="Also make an image of it, as an OCI layout in a directory that is not there."
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base",
            metavar="DIR",
            help="The OCI layout of Transom's image, to make it upon: for an init container (--payload-copied).",
        ),
    ] = None,
    architecture: Annotated[
        str, typer.Option("--architecture", help="Of the nodes that mount it: amd64 or arm64; what is in it is the same.")
    ] = "amd64",
    output: Output = Format.TEXT,
) -> None:
    """Complete a directory that has a payload.yaml.

    Its files are copied or taken out of an image, its URLs fetched through HTTPS_PROXY, and every hash is checked. What is
    there already, with its hash, is left as it is.
    """
    import asyncio

    from transom.downloads import DownloadError
    from transom.hosts.steps.payload_directory import LOCK, locked
    from transom.image_files import ImageError, take
    from transom.image_layout import LayoutError
    from transom.sources.payload import FILE, PayloadError, read_payload
    from transom.sources.payload_build import build as fetched

    if base is not None and layout is None:
        fail("--base: name the directory for the image by --image", ExitCode.INVALID)
    if layout is not None and layout.exists():
        fail(f"--image: {layout} is there already", ExitCode.INVALID)
    try:
        data = (directory / FILE).read_bytes()
    except OSError as error:
        fail(f"{directory / FILE}: cannot be read: {error.strerror}", ExitCode.INVALID)
    try:
        found = read_payload(data, str(directory / FILE))
        if files is not None:
            _copy(found, files, directory)
        if image is not None:
            absent = {file.source for file in found.files if file.source and not (directory / file.source).exists()}
            take(image, "payload", absent, directory)
        lock = asyncio.run(fetched(found, directory, locked(directory), tell))
        if lock.files:
            (directory / LOCK).write_bytes(lock.text())
        _check(directory, output)
        if layout is not None:
            _write_image(directory, layout, base, architecture)
    except PayloadError as error:
        _show(error)
        raise typer.Exit(ExitCode.INVALID) from None
    except ImageError as error:
        fail(f"--from-image: {error}", ExitCode.INVALID)
    except LayoutError as error:
        fail(f"--base: {error}", ExitCode.INVALID)
    except DownloadError as error:
        fail(str(error), ExitCode.NOT_DONE)


@payload.command(epilog=epilog("payload check"))
def check(directory: Directory, output: Output = Format.TEXT) -> None:
    """Check a payload as the operator does.

    That is payload.yaml, every file, and every hash.
    """
    from transom.sources.payload import PayloadError

    try:
        _check(directory, output)
    except PayloadError as error:
        _show(error)
        raise typer.Exit(ExitCode.INVALID) from None


@payload.command(epilog=epilog("payload copy"))
def copy(
    directory: Directory,
    target: Annotated[
        Path, typer.Argument(metavar="TO", help="Where to; what is there already, with its hash, is left as it is.")
    ],
    output: Output = Format.TEXT,
) -> None:
    """Copy a payload and nothing else.

    What an init container does (`transom manifests --payload-copied`): every hash is checked, before and after.
    """
    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.sources.payload import PayloadError

    try:
        _copy_parts(PayloadDirectory.open(directory), target)
        _check(target, output)
    except PayloadError as error:
        _show(error)
        raise typer.Exit(ExitCode.INVALID) from None
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", ExitCode.NOT_DONE)


def _copy_parts(opened: "PayloadDirectory", target: Path) -> None:
    for name, file in opened.parts.items():
        place = target / name
        if place.exists() and _same(place, file):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.part")
        shutil.copyfile(file, part)
        part.rename(place)


def _same(place: Path, file: Path) -> bool:
    import hashlib

    def digest(path: Path) -> str:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    return digest(place) == digest(file)


def _write_image(directory: Path, target: Path, base: Path | None, architecture: str) -> None:
    """Write the image of a whole payload, and say its name. Raises LayoutError."""
    import os
    import tempfile

    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.image_layout import Image, Layout, read

    opened = PayloadDirectory.open(directory)
    below = read(base, architecture) if base is not None else Image((), architecture, {})
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or (directory / "payload.yaml").stat().st_mtime)
    made = Layout(target, epoch)
    if base is not None:
        for layer in below.layers:
            made.take(layer, base)
    with tempfile.TemporaryDirectory(dir=target) as tree:
        _copy_parts(opened, Path(tree))
        layer = made.layer(Path(tree))
    version = opened.payload.version
    annotations = {"org.opencontainers.image.title": "transom-payload", "org.opencontainers.image.version": version}
    digest = made.write([Image((*below.layers, layer), architecture, below.config)], version, annotations)
    tell(f"transom: wrote the image to {target}: skopeo copy oci:{target}:{version} docker://REGISTRY/NAME:{version}")
    tell(f"transom: transom manifests --payload-image REGISTRY/NAME:{version}@{digest}")


def _copy(found: "Payload", source: Path, directory: Path) -> None:
    for name in {file.source for file in found.files if file.source} | {v.script for v in found.variables if v.script}:
        if (source / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, directory / name)


def _check(directory: Path, output: Format) -> None:
    from transom.hosts.steps.payload_directory import PayloadDirectory

    opened = PayloadDirectory.open(directory)
    size = sum(artifact.size for artifact in opened.artifacts.values())
    found = opened.payload
    if output is not Format.TEXT:
        files = [{"source": name, "sha256": a.sha256, "bytes": a.size} for name, a in opened.artifacts.items()]
        services = [service.name for service in found.services]
        summary = {"version": found.version, "kubernetes": found.kubernetes, "services": services, "files": files}
        print_data(summary, output)
        return
    print_lines(
        f"payload {found.version}, Kubernetes {found.kubernetes}: {len(found.services)} services, {len(found.files)} files, "
        f"{size / 1e6:.1f} MB"
    )


def _show(error: "PayloadError") -> None:
    for finding in error.findings:
        place = finding.file + (f":{finding.line}:{finding.column}" if finding.line else "")
        tell(f"{place}: {finding.field + ': ' if finding.field else ''}{finding.message}")
