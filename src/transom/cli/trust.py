"""`transom trust inspect`: the certificates of a bundle."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.examples import epilog
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.proxy.trust import Certificate

trust = typer.Typer(help="Trust bundles.", no_args_is_help=True, rich_markup_mode=None)


@trust.callback()
def _trust() -> None:
    """Trust bundles."""


@trust.command(epilog=epilog("trust inspect"))
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A PEM file, or - for the standard input.")],
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Show the certificates of a bundle.

    Of each: subject, issuer, serial number, SHA-1, SHA-256, life, and the Windows store that it belongs to.
    """
    from transom.proxy.trust import MAX_BUNDLE, concerns, parse_bundle

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BUNDLE + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_BUNDLE + 1)
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", ExitCode.INVALID)
    bundle = parse_bundle(data)
    for problem in bundle.problems:
        tell(f"{file}: {problem.severity}: {problem}")
    if any(problem.severity == "error" for problem in bundle.problems):
        raise SystemExit(ExitCode.INVALID)
    if not bundle.certificates:
        fail(f"{file}: there is no certificate in it", ExitCode.INVALID)
    if output is Format.TEXT:
        for index, certificate in enumerate(bundle.certificates, 1):
            print_lines(*_paragraph(index, certificate))
        for certificate, text in concerns(bundle.certificates, datetime.now(UTC)):
            index = bundle.certificates.index(certificate) + 1
            tell(f"{file}: warning: certificate {index} {text}")
    else:
        print_data([_as_json(certificate) for certificate in bundle.certificates], output)


def _as_json(certificate: "Certificate") -> dict[str, Any]:
    return {
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "sha1": certificate.sha1,
        "sha256": certificate.sha256,
        "notBefore": _timestamp(certificate.not_before),
        "notAfter": _timestamp(certificate.not_after),
        "store": certificate.store,
    }


def _timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _paragraph(index: int, certificate: "Certificate") -> list[str]:
    rows = (
        ("subject", certificate.subject),
        ("issuer", "the same" if certificate.self_issued else certificate.issuer),
        ("serial", certificate.serial),
        ("SHA-1", certificate.sha1),
        ("SHA-256", certificate.sha256),
        ("valid", f"{_timestamp(certificate.not_before)} to {_timestamp(certificate.not_after)}"),
        ("store", certificate.store),
    )
    return [str(index), *(f"  {name:<8} {value}" for name, value in rows)]
