"""`transom trust inspect`: the certificates of a bundle."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transom.cli.examples import build_epilog
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.common.regular_files import open_regular_file

if TYPE_CHECKING:
    from transom.proxy.trust import Certificate

_CONVERSIONS: Final = {
    "DER": "openssl x509 -inform der -in FILE",
    "PKCS#7": "openssl pkcs7 -print_certs -in FILE, with -inform der for a binary file",
    "UTF-16": "iconv -f utf-16 -t utf-8 FILE",
}

trust = typer.Typer(help="Inspect trust bundles.", no_args_is_help=True, rich_markup_mode=None)


@trust.callback()
def _trust() -> None:
    """Trust bundles."""


@trust.command(epilog=build_epilog("trust inspect"))
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file in PEM, DER or PKCS#7, or - for standard input.")],
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TEXT,
) -> None:
    """Show the certificates of a bundle.

    For each certificate, it shows subject, issuer, serial number, SHA-1, SHA-256, validity, and the Windows store that it
    belongs to.
    """
    from transom.proxy.trust import MAX_BUNDLE, iter_certificate_warnings, read_bundle

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BUNDLE + 1)
        else:
            with open_regular_file(file) as opened:
                data = opened.read(MAX_BUNDLE + 1)
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", ExitCode.INVALID)
    read = read_bundle(data)
    bundle = read.bundle
    for problem in bundle.problems:
        print_to_stderr(f"{file}: {problem.severity}: {problem}")
    if any(problem.severity == "error" for problem in bundle.problems):
        raise SystemExit(ExitCode.INVALID)
    if not bundle.certificates:
        fail(f"{file}: no certificate found", ExitCode.INVALID)
    if output is Format.TEXT:
        for index, certificate in enumerate(bundle.certificates, 1):
            print_lines(*_format_certificate(index, certificate))
        for certificate, text in iter_certificate_warnings(bundle.certificates, datetime.now(UTC)):
            index = bundle.certificates.index(certificate) + 1
            print_to_stderr(f"{file}: warning: certificate {index} {text}")
        if read.form != "PEM":
            print_to_stderr(
                f"{file}: warning: this is {read.form}: a ConfigMap of CAs needs PEM in UTF-8 ({_CONVERSIONS[read.form]})"
            )
    else:
        print_data([_as_json(certificate) for certificate in bundle.certificates], output)


def _as_json(certificate: "Certificate") -> dict[str, Any]:
    return {
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "sha1": certificate.sha1,
        "sha256": certificate.sha256,
        "notBefore": _format_timestamp(certificate.not_before),
        "notAfter": _format_timestamp(certificate.not_after),
        "store": certificate.store,
    }


def _format_timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _format_certificate(index: int, certificate: "Certificate") -> list[str]:
    rows = (
        ("subject", certificate.subject),
        ("issuer", "the same" if certificate.self_issued else certificate.issuer),
        ("serial", certificate.serial),
        ("SHA-1", certificate.sha1),
        ("SHA-256", certificate.sha256),
        ("valid", f"{_format_timestamp(certificate.not_before)} to {_format_timestamp(certificate.not_after)}"),
        ("store", certificate.store),
    )
    return [str(index), *(f"  {name:<8} {value}" for name, value in rows)]
