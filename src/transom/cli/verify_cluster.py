"""`transom verify cluster`: whether the Windows nodes of a cluster work from end to end."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from transom.cli.checks import JUnit, Suite, ended
from transom.cli.checks import tell as tell_check
from transom.cli.cluster import ClusterOptions, ask
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.checked import Checked
    from transom.kube.client import Client
    from transom.verification.objects import Wanted

_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:/@_-]*")


def _reference(value: str | None) -> str | None:
    if value is not None and not _REFERENCE.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is no image: registry.example/agnhost:2.52")
    return value


def _url(value: str) -> str:
    if value and not re.fullmatch(r"https://[^\s@]+", value):
        raise typer.BadParameter(f"{value!r} is not https://HOST/…, without a user")
    return value


def _labels(values: list[str] | None) -> dict[str, str]:
    from transom.proxy.labels import is_key, is_value

    found = dict(one.partition("=")[::2] for one in values or ())
    for key, value in found.items():
        if not is_key(key) or not is_value(value):
            fail(f"--label {key}={value}: is no label: KEY=VALUE")
    return found


@grouped
def cluster(
    options: ClusterOptions,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="REF", help="The image of the pods. [default: agnhost]", callback=_reference),
    ] = None,
    linux_image: Annotated[
        str | None,
        typer.Option("--linux-image", metavar="REF", help="That of the Linux pod. [default: --image]", callback=_reference),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", metavar="REGISTRY", help="A mirror of the images' registry.", callback=_reference),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="On the namespace: by which its pods get the proxy."),
    ] = None,
    egress_url: Annotated[
        str, typer.Option("--egress-url", metavar="URL", help="What pods reach through the proxy.", callback=_url)
    ] = "",
    direct_url: Annotated[
        str, typer.Option("--direct-url", metavar="URL", help="What pods reach around the proxy.", callback=_url)
    ] = "",
    load_balancer: Annotated[
        bool, typer.Option("--load-balancer", help="Also make a Service of type LoadBalancer, and ask it from here.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long pods may take to be Ready.")
    ] = 600.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make nothing: whether the API server would take the objects, pods in -n.")
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Only take away what other runs have left, or work in.")] = False,
    report: JUnit = None,
    output: Output = Format.TEXT,
) -> None:
    """Check that the Windows nodes of a cluster work, from end to end.

    Pods and Services are made in a namespace of their own, which goes again, Ctrl-C included. Exit code 1 where a check fails,
    3 where the cluster does not answer.
    """
    if dry_run and clean:
        fail("--dry-run and --clean exclude each other")
    if clean:
        _clean(options, output)
        return
    wanted = _wanted(image, linux_image, mirror, _labels(label), load_balancer, egress_url, direct_url)
    told = tell_check if output is Format.TEXT else lambda _: None

    def say(line: str) -> None:
        # minutes go by while images are pulled
        tell(f"transom: {line}")

    async def work(client: "Client") -> "tuple[str, tuple[Checked, ...]]":
        from transom.verification import Waits, rehearse, verify

        server = client.connection.server
        if dry_run:
            return server, await rehearse(client, wanted, options.namespace or "default", told)
        say(f"{server}: the checks take some minutes, most of them for images that are pulled")
        return server, await verify(client, wanted, told, Waits(starting=timeout), say)

    try:
        server, found = ask(options, work, failing=ExitCode.NOT_READ)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    ended({"server": server, "namespace": wanted.namespace}, found, Suite("cluster", server), report, output)


def _wanted(
    image: str | None,
    linux_image: str | None,
    mirror: str | None,
    labels: dict[str, str],
    load_balancer: bool,
    egress: str,
    direct: str,
) -> "Wanted":
    from transom.verification import new_name
    from transom.verification.objects import AGNHOST_IMAGE, Wanted, mirrored

    windows = image or AGNHOST_IMAGE
    pair = (windows, linux_image or windows)
    windows, linux = (mirrored(one, mirror) for one in pair) if mirror else pair
    return Wanted(new_name(), windows, linux, labels, load_balancer, egress, direct)


def _clean(options: ClusterOptions, output: Format) -> None:
    async def work(client: "Client") -> list[str]:
        from transom.verification import clean

        return await clean(client, insist=True)

    found = ask(options, work, failing=ExitCode.NOT_READ)
    if output is not Format.TEXT:
        print_data({"removed": found}, output)
    else:
        print_lines(*(f"{name}: gone" for name in found) if found else ("nothing was left",))
