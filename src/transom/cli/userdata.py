"""`transom userdata`: what a new Windows machine runs at its first boot."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, examine_or_fail
from transom.cli.output import ExitCode, Format, fail, print_data

if TYPE_CHECKING:
    from transom.proxy.secret import Secret
    from transom.sources.objects import Objects


def userdata(
    filename: FilesOrCluster = None,
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
    context: Context = None,
    namespace: Namespace = NAMESPACE,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Print what Windows machines run at first boot.

    This user data opens SSH for the key in the Secret cloud-private-key, behind a proxy too. JSON has `text`, and as `leftOut`
    the subjects of certificates that there was no room for.
    """
    from transom.hosts.errors import KeyUnusable
    from transom.hosts.private_key import public_line
    from transom.windows.userdata import OPENSSH_MSI, user_data

    objects, examined = examine_or_fail(filename, namespace, context)
    egress = examined.settings.own
    if egress is None:
        fail("the egress settings are not valid", ExitCode.INVALID)
    if platform is None and objects.infrastructure is not None and objects.infrastructure.platform is not None:
        platform = objects.infrastructure.platform.type
    key = _private_key(objects, namespace)
    try:
        made = user_data(public_line(key), egress, platform=platform or "", openssh_msi=openssh_msi or OPENSSH_MSI)
    except KeyUnusable as error:
        fail(f"Secret {namespace}/cloud-private-key: {error}", ExitCode.INVALID)
    except ValueError as error:
        fail(f"--openssh-msi: {error}", ExitCode.INVALID)
    for certificate in made.left_out:
        sys.stderr.write(f"warning: no room for {certificate.subject}: hosts get it with their first pass\n")
    if output is Format.TEXT:
        sys.stdout.write(made.text)
    else:
        print_data({"text": made.text, "leftOut": [one.subject for one in made.left_out]}, output)


def _private_key(objects: "Objects", namespace: str) -> "Secret":
    from transom.windows.instance import KEY

    secret = objects.secret(namespace, "cloud-private-key")
    key = secret.data.get(KEY) if secret else None
    if key is None:
        fail(f"there is no Secret {namespace}/cloud-private-key with the SSH key as `{KEY}`", ExitCode.INVALID)
    return key
