"""`transom payload`: what a Windows worker is made of, as a directory."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from transom.cli.examples import build_epilog
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail, print_data, print_document, print_lines
from transom.cli.output_files import Force, refuse_conflicts, write_files
from transom.cli.stopping import run_until_stopped
from transom.common.regular_files import open_regular_file, read_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.sources.payload import PayloadError
    from transom.windows.payload.payload import Payload

payload = typer.Typer(
    help="Build and check payloads: the directory that `transom run --payload` installs on Windows workers.",
    short_help="Build and check payloads of Windows workers.",
    no_args_is_help=True,
)
Output = Annotated[Format, typer.Option("--output", "-o", help="The output format.")]
_MANIFEST: Final = re.compile(rb"\bkind[\"']?\s*:\s*[\"']?(EgressProxy|WindowsInstance)\b")
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The payload directory.")]


@payload.command(epilog=build_epilog("payload schema"))
def schema() -> None:
    """Print the JSON Schema of payload.yaml."""
    from transom.sources.payload import build_payload_schema

    print_data(build_payload_schema(), Format.JSON)


@payload.command(epilog=build_epilog("payload default"))
def default(
    directory: Annotated[
        Path | None, typer.Option("--output-dir", metavar="DIR", help="Write payload.yaml and its scripts to this directory.")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="Kind of payload: openshift or kubeadm.")] = "openshift",
    cni: Annotated[str, typer.Option("--cni", help="Network plugin for kubeadm: calico, flannel or none.")] = "calico",
    kubernetes: Annotated[
        str,
        typer.Option("--kubernetes-version", metavar="VERSION", help="Version of the kubelet for kubeadm, such as v1.36.3."),
    ] = "",
    csi_proxy: Annotated[
        bool, typer.Option("--csi-proxy", help="Include csi-proxy.exe for kubeadm, which you build yourself.")
    ] = False,
    force: Force = False,
) -> None:
    """Print the shipped payload.yaml.

    The payload is for OpenShift with OVN-Kubernetes, or for a kubeadm cluster.
    """
    from transom.payloads import shipped_payloads

    if directory is not None:
        _refuse_manifests(directory)
    if kind == "openshift":
        if kubernetes or csi_proxy:
            fail("--kubernetes-version and --csi-proxy are of --kind kubeadm", ExitCode.INVALID)
        files = shipped_payloads.build_openshift_payload()
    elif kind == "kubeadm":
        files = build_kubeadm_files(cni, kubernetes, csi_proxy)
    else:
        fail(f"--kind: there is no {kind!r}; there are openshift and kubeadm", ExitCode.INVALID)
    if directory is None:
        print_document(files["payload.yaml"].decode())
        return
    write_files("--output-dir", directory, files, force=force)
    print_to_stderr(
        f"transom: wrote payload.yaml and its scripts to {directory}; `transom payload build {directory}` completes it"
    )
    if "cluster.yaml" in files:
        rights = ", and kube-proxy's rights" if kind == "kubeadm" else ""
        print_to_stderr(f"transom: kubectl apply -f {directory / 'cluster.yaml'}, once: RuntimeClasses of Windows pods{rights}")


def _refuse_manifests(directory: Path) -> None:
    """End the command if the directory has manifests: every command with -f would also read payload.yaml, and refuse it."""
    for file in sorted(directory.glob("*")):
        if file.suffix in (".yaml", ".yml", ".json") and file.is_file() and _MANIFEST.search(read_regular_file(file)):
            fail(
                f"--output-dir: {directory} has manifests ({file.name}), and commands with -f {directory} would read "
                "payload.yaml as one of them: name another directory"
            )


def build_kubeadm_files(
    cni: str, kubernetes: str, csi_proxy: bool = False, *, flags: tuple[str, str] = ("--cni", "--kubernetes-version")
) -> "Mapping[str, bytes]":
    """Build the files of the payload for kubeadm; `flags` are the names of its options in messages. Raises Exit."""
    from typing import cast

    from transom.payloads import shipped_payloads

    if cni not in shipped_payloads.CNIS:
        fail(f"{flags[0]}: there is no {cni!r}; there are {', '.join(shipped_payloads.CNIS)}", ExitCode.INVALID)
    if not kubernetes:
        fail(f"{flags[1]}: name the version that the nodes are to have, such as v1.36.3", ExitCode.INVALID)
    try:
        return shipped_payloads.build_kubeadm_payload(cast("shipped_payloads.Cni", cni), kubernetes, csi_proxy=csi_proxy)
    except shipped_payloads.UnknownVersion as error:
        fail(f"{flags[1]}: {error}", ExitCode.INVALID)


@payload.command(epilog=build_epilog("payload build"))
def build(
    directory: Directory,
    files: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Directory with the files that payload.yaml names by `source`.")
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--from-image",
            metavar="IMAGE",
            help="Image of the Windows Machine Config Operator, as a directory or tarball. It contains all programs.",
        ),
    ] = None,
    layout: Annotated[
        Path | None,
        typer.Option("--image", metavar="DIR", help="Create an image of the payload, as an OCI layout in a new directory."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base",
            metavar="DIR",
            help="OCI layout of Transom's image as base image, for an init container (--payload-copied).",
        ),
    ] = None,
    architecture: Annotated[
        str,
        typer.Option(
            "--architecture", help="Architecture of the nodes that mount it: amd64 or arm64. The content is the same."
        ),
    ] = "amd64",
    output: Output = Format.TEXT,
    force: Force = False,
) -> None:
    """Complete a directory that contains a payload.yaml.

    The command copies files or extracts them from an image, downloads URLs through HTTPS_PROXY, and verifies every hash. It
    keeps existing files with the correct hash.
    """
    from transom.hosts.steps.payload_directory import LOCK, read_lock_file
    from transom.http.downloads import DownloadError
    from transom.oci.image_files import ImageError, extract_files
    from transom.oci.image_layout import LayoutError
    from transom.sources.payload import FILE, PayloadError, parse_payload
    from transom.sources.payload_build import download_payload as fetched

    if base is not None and layout is None:
        fail("--base: name the directory for the image by --image", ExitCode.INVALID)
    if layout is not None and layout.exists():
        fail(f"--image: {layout} already exists", ExitCode.INVALID)
    try:
        data = read_regular_file(directory / FILE)
    except OSError as error:
        fail(f"{directory / FILE}: cannot be read: {error.strerror}", ExitCode.INVALID)
    try:
        parsed = parse_payload(data, str(directory / FILE))
        if files is not None:
            _copy_sources(parsed, files, directory, force=force)
        if image is not None:
            absent = {file.source for file in parsed.files if file.source and not (directory / file.source).exists()}
            extract_files(image, "payload", absent, directory)
        with exit_when_stopped(
            f"before {directory} was complete: downloaded files stay, and the next build continues with them"
        ):
            lock = run_until_stopped(fetched(parsed, directory, read_lock_file(directory), print_to_stderr))
        if lock.files:
            (directory / LOCK).write_bytes(lock.to_json())
        _print_payload_summary(directory, output)
        if layout is not None:
            _write_image(directory, layout, base, architecture)
    except PayloadError as error:
        _print_error(error)
        raise typer.Exit(ExitCode.INVALID) from None
    except ImageError as error:
        fail(f"--from-image: {error}", ExitCode.INVALID)
    except LayoutError as error:
        fail(f"--base: {error}", ExitCode.INVALID)
    except DownloadError as error:
        fail(str(error), ExitCode.NOT_DONE)


@payload.command(epilog=build_epilog("payload check"))
def check(directory: Directory, output: Output = Format.TEXT) -> None:
    """Check a payload as the operator does.

    The command checks payload.yaml, every file, and every hash.
    """
    from transom.sources.payload import PayloadError

    try:
        _print_payload_summary(directory, output)
    except PayloadError as error:
        _print_error(error)
        raise typer.Exit(ExitCode.INVALID) from None


@payload.command(epilog=build_epilog("payload copy"))
def copy(
    directory: Directory,
    target: Annotated[
        Path, typer.Argument(metavar="TO", help="Target directory. Files that already exist with the same hash are kept.")
    ],
    output: Output = Format.TEXT,
    force: Force = False,
) -> None:
    """Copy only the files of a payload.

    An init container runs this command (`transom manifests --payload-copied`). It verifies every hash before and after
    copying.
    """
    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.sources.payload import PayloadError

    try:
        opened = PayloadDirectory.open(directory)
        existing = {target / name: file for name, file in opened.parts.items() if (target / name).exists()}
        differing = [place for place, file in existing.items() if not _has_same_content(place, file)]
        if not force:
            refuse_conflicts("", differing)
        _copy_payload_files(opened, target)
        _print_payload_summary(target, output)
    except PayloadError as error:
        _print_error(error)
        raise typer.Exit(ExitCode.INVALID) from None
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", ExitCode.NOT_DONE)


def _copy_payload_files(opened: "PayloadDirectory", target: Path) -> None:
    for name, file in opened.parts.items():
        place = target / name
        if place.exists() and _has_same_content(place, file):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.part")
        shutil.copyfile(file, part)
        part.rename(place)


def _has_same_content(place: Path, file: Path) -> bool:
    import hashlib

    def digest(path: Path) -> str:
        with open_regular_file(path) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    return digest(place) == digest(file)


def _write_image(directory: Path, target: Path, base: Path | None, architecture: str) -> None:
    """Write the image of a whole payload, and say its name. Raises LayoutError."""
    import os
    import tempfile

    from transom.hosts.steps.payload_directory import PayloadDirectory
    from transom.oci.image_layout import Image, Layout, read_image

    opened = PayloadDirectory.open(directory)
    below = read_image(base, architecture) if base is not None else Image((), architecture, {})
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or (directory / "payload.yaml").stat().st_mtime)
    made = Layout(target, epoch)
    if base is not None:
        for layer in below.layers:
            made.link_layer(layer, base)
    with tempfile.TemporaryDirectory(dir=target) as tree:
        _copy_payload_files(opened, Path(tree))
        layer = made.write_layer(Path(tree))
    version = opened.payload.version
    annotations = {"org.opencontainers.image.title": "transom-payload", "org.opencontainers.image.version": version}
    digest = made.write([Image((*below.layers, layer), architecture, below.config)], version, annotations)
    print_to_stderr(
        f"transom: wrote the image to {target}: skopeo copy oci:{target}:{version} docker://REGISTRY/NAME:{version}"
    )
    print_to_stderr(f"transom: transom manifests --payload-image REGISTRY/NAME:{version}@{digest}")


def _copy_sources(parsed: "Payload", source: Path, directory: Path, *, force: bool) -> None:
    """Copy the files of a directory that payload.yaml names. A script has no hash that would show an edit."""
    scripts = {v.script for v in parsed.variables if v.script}
    unchecked = scripts | {file.source for file in parsed.files if file.source and not file.sha256}
    differing = [
        directory / name
        for name in sorted(unchecked)
        if (source / name).is_file() and (directory / name).exists() and not _has_same_content(directory / name, source / name)
    ]
    if not force:
        refuse_conflicts("--from", differing)
    for name in {file.source for file in parsed.files if file.source} | scripts:
        target = directory / name
        if (source / name).is_file() and not (target.exists() and _has_same_content(target, source / name)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target)


def _print_payload_summary(directory: Path, output: Format) -> None:
    from transom.hosts.steps.payload_directory import PayloadDirectory

    opened = PayloadDirectory.open(directory)
    size = sum(artifact.size for artifact in opened.artifacts.values())
    parsed = opened.payload
    if output is not Format.TEXT:
        files = [{"source": name, "sha256": a.sha256, "bytes": a.size} for name, a in opened.artifacts.items()]
        services = [service.name for service in parsed.services]
        summary = {"version": parsed.version, "kubernetes": parsed.kubernetes, "services": services, "files": files}
        print_data(summary, output)
        return
    print_lines(
        f"payload {parsed.version}, Kubernetes {parsed.kubernetes}: {len(parsed.services)} services, "
        f"{len(parsed.files)} files, "
        f"{size / 1e6:.1f} MB"
    )


def _print_error(error: "PayloadError") -> None:
    for finding in error.findings:
        place = finding.file + (f":{finding.line}:{finding.column}" if finding.line else "")
        print_to_stderr(f"{place}: {finding.field + ': ' if finding.field else ''}{finding.message}")
