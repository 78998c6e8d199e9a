"""`transom payload`: what a Windows worker is made of, as a directory."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.output import ExitCode, Format, fail, print_data, print_document, print_lines, tell

if TYPE_CHECKING:
    from transom.sources.payload import PayloadError
    from transom.windows.payload.payload import Payload

payload = typer.Typer(
    help="What Windows workers are made of: a directory that `transom run --payload` reads.",
    short_help="What Windows workers are made of.",
    no_args_is_help=True,
)
Output = Annotated[Format, typer.Option("--output", "-o", help="How to write it.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The payload's directory.")]


@payload.command()
def schema() -> None:
    """Print the JSON Schema of payload.yaml."""
    from transom.windows.payload.payload_schema import payload_schema

    print_data(payload_schema(), Format.JSON)


@payload.command()
def default(
    directory: Annotated[
        Path | None, typer.Option("--output-dir", metavar="DIR", help="Write it and its scripts there.")
    ] = None,
) -> None:
    """Print the payload.yaml that is shipped.

    It is for OpenShift with OVN-Kubernetes.
    """
    import importlib.resources

    shipped = importlib.resources.files("transom.payloads") / "openshift"
    if directory is None:
        print_document((shipped / "payload.yaml").read_text("utf-8"))
        return
    directory.mkdir(parents=True, exist_ok=True)
    for file in shipped.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    tell(f"transom: wrote payload.yaml and its scripts to {directory}; `transom payload build {directory}` completes it")


@payload.command()
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
    output: Output = Format.TEXT,
) -> None:
    """Complete a directory that has a payload.yaml.

    Its files are copied or taken out of an image, its URLs fetched through HTTPS_PROXY, and every hash is checked. What is
    there already, with its hash, is left as it is.
    """
    import asyncio

    from transom.downloads import DownloadError
    from transom.image_files import ImageError, take
    from transom.sources.payload import FILE, PayloadError, read_payload

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
        asyncio.run(_fetch(found, directory))
        _check(directory, output)
    except PayloadError as error:
        _show(error)
        raise typer.Exit(ExitCode.INVALID) from None
    except ImageError as error:
        fail(f"--from-image: {error}", ExitCode.INVALID)
    except DownloadError as error:
        fail(str(error), ExitCode.NOT_DONE)


@payload.command()
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


def _copy(found: "Payload", source: Path, directory: Path) -> None:
    for name in {file.source for file in found.files if file.source} | {v.script for v in found.variables if v.script}:
        if (source / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, directory / name)


async def _fetch(found: "Payload", directory: Path) -> None:
    from transom.downloads import Way, download
    from transom.hosts.steps.payload_directory import downloaded, to_fetch

    way = Way()
    async with way.session() as session:
        for url, sha256 in to_fetch(found, directory).items():
            tell(f"{url}")
            await download(way, session, url, sha256, downloaded(directory, sha256))


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
