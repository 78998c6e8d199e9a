"""`transom userdata`: what a new Windows machine runs at its first boot."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, examine_or_fail
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_document, tell

if TYPE_CHECKING:
    from transom.proxy.secret import Secret
    from transom.sources.objects import Objects


@grouped
def userdata(
    source: Source,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="AWS, Azure, GCP … [default: as the Infrastructure says]", show_default=False),
    ] = None,
    openssh_msi: Annotated[
        str | None,
        typer.Option(
            "--openssh-msi",
            metavar="URL",
            envvar="TRANSOM_OPENSSH_MSI",
            help="The installer of OpenSSH for machines that cannot get it from Windows. [default: a release on GitHub]",
            show_default=False,
        ),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Print what Windows machines run at first boot.

    This user data opens SSH for the key in the Secret cloud-private-key, behind a proxy too. JSON has `text`, and as `leftOut`
    the subjects of certificates that there was no room for.
    """
    from transom.hosts.errors import KeyUnusable
    from transom.hosts.ssh import public_line
    from transom.proxy.merging import known_platform
    from transom.windows.firstboot import OPENSSH_MSI, user_data

    if platform is not None and known_platform(platform) is None:
        fail(f"--platform: {platform!r} is not known: AWS, Azure, GCP, OpenStack, VSphere, Nutanix, None …")
    objects, examined = examine_or_fail(source)
    egress = examined.settings.own
    if egress is None:
        fail("the egress settings are not valid", ExitCode.INVALID)
    if platform is None and objects.infrastructure is not None and objects.infrastructure.platform is not None:
        platform = objects.infrastructure.platform.type
    key = _private_key(objects, source.own)
    try:
        made = user_data(public_line(key), egress, platform=platform or "", openssh_msi=openssh_msi or OPENSSH_MSI)
    except KeyUnusable as error:
        fail(f"Secret {source.own}/cloud-private-key: {error}", ExitCode.INVALID)
    except ValueError as error:
        fail(f"--openssh-msi: {error}", ExitCode.INVALID)
    for certificate in made.left_out:
        tell(f"warning: no room for {certificate.subject}: hosts get it with their first pass")
    if output is Format.TEXT:
        print_document(made.text)
    else:
        print_data({"text": made.text, "leftOut": [one.subject for one in made.left_out]}, output)


def _private_key(objects: "Objects", namespace: str) -> "Secret":
    from transom.windows.nodes import KEY

    secret = objects.secret(namespace, "cloud-private-key")
    key = secret.data.get(KEY) if secret else None
    if key is None:
        fail(f"there is no Secret {namespace}/cloud-private-key with the SSH key as `{KEY}`", ExitCode.INVALID)
    return key
