"""`transom userdata`: what a new Windows machine runs at its first boot."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, examine_or_fail
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data, print_document

if TYPE_CHECKING:
    from transom.proxy.secret import Secret
    from transom.sources.objects import Objects


@with_option_groups
def userdata(
    source: Source,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Platform: AWS, Azure, GCP … [default: from Infrastructure]", show_default=False),
    ] = None,
    openssh_msi: Annotated[
        str | None,
        typer.Option(
            "--openssh-msi",
            metavar="URL",
            envvar="TRANSOM_OPENSSH_MSI",
            help="URL of the OpenSSH installer, for machines that cannot get it from Windows. [default: a release on GitHub]",
            show_default=False,
        ),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the user data for the first boot of Windows machines.

    The user data enables SSH for the key in the Secret cloud-private-key, also behind a proxy. JSON contains `text`,
    `leftOut` (the subjects of certificates that exceed the size limit) and `problems` (what machines cannot do at their
    first boot).
    """
    from transom.common.installers import OPENSSH_URL
    from transom.hosts.errors import KeyUnusable
    from transom.hosts.ssh.ssh_client import format_public_key
    from transom.proxy.merging import find_platform
    from transom.windows.firstboot import build_user_data

    if platform is not None and find_platform(platform) is None:
        fail(f"--platform: {platform!r} is not known: AWS, Azure, GCP, OpenStack, VSphere, Nutanix, None …")
    objects, examined = examine_or_fail(source)
    egress = examined.settings.own
    if egress is None:
        fail("the egress settings are not valid", ExitCode.INVALID)
    if platform is None and objects.infrastructure is not None and objects.infrastructure.platform is not None:
        platform = objects.infrastructure.platform.type
    key = _find_private_key(objects, source.effective_namespace)
    try:
        made = build_user_data(format_public_key(key), egress, platform=platform or "", openssh_msi=openssh_msi or OPENSSH_URL)
    except KeyUnusable as error:
        fail(f"Secret {source.effective_namespace}/cloud-private-key: {error}", ExitCode.INVALID)
    except ValueError as error:
        fail(f"--openssh-msi: {error}", ExitCode.INVALID)
    for certificate in made.left_out:
        print_to_stderr(f"warning: no room for {certificate.subject}: hosts get it with their first pass")
    for problem in made.problems:
        print_to_stderr(f"warning: {problem}")
    if output is Format.TEXT:
        print_document(made.text)
    else:
        left_out = [item.subject for item in made.left_out]
        print_data({"text": made.text, "leftOut": left_out, "problems": list(made.problems)}, output)


def _find_private_key(objects: "Objects", namespace: str) -> "Secret":
    from transom.windows.nodes.windows_instance import KEY

    secret = objects.find_secret(namespace, "cloud-private-key")
    key = secret.data.get(KEY) if secret else None
    if key is None:
        fail(f"no Secret {namespace}/cloud-private-key with the SSH key as `{KEY}` exists", ExitCode.INVALID)
    return key
