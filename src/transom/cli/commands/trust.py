"""`transom trust inspect`: the certificates of a bundle."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transom.cli.examples import build_epilog
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, Format, print_data, print_lines
from transom.common.regular_files import open_regular_file

if TYPE_CHECKING:
    from transom.proxy.trust import Certificate, ReadBundle

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
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files in PEM, DER or PKCS#7, or - for standard input.")
    ],
    output: Annotated[Format, typer.Option("--output", "-o", help="The output format.")] = Format.TEXT,
) -> None:
    """Show the certificates of bundles.

    For each certificate, it shows subject, issuer, serial number, SHA-1, SHA-256, validity, and the Windows store that it
    belongs to. Of several files, JSON and YAML name the `file` of each certificate.
    """
    certificates: list[dict[str, Any]] = []
    is_invalid = False
    for file in files:
        bundle = _read_bundle(file)
        if bundle is None:
            is_invalid = True
        elif output is Format.TEXT:
            if len(files) > 1:
                print_lines(f"{file}:")
            _print_bundle(file, bundle)
        else:
            name = {"file": file} if len(files) > 1 else {}
            certificates += [name | _as_json(certificate) for certificate in bundle.bundle.certificates]
    if output is not Format.TEXT and not (is_invalid and len(files) == 1):
        print_data(certificates, output)
    if is_invalid:
        raise SystemExit(ExitCode.INVALID)


def _read_bundle(file: str) -> "ReadBundle | None":
    """Read a bundle; print what is wrong with it, and return None if that is an error."""
    from transom.proxy.trust import MAX_BUNDLE, read_bundle

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BUNDLE + 1)
        else:
            with open_regular_file(file) as opened:
                data = opened.read(MAX_BUNDLE + 1)
    except OSError as error:
        print_to_stderr(f"transom: {file}: cannot be read: {error.strerror}")
        return None
    read = read_bundle(data)
    problems = read.bundle.problems
    for problem in problems:
        print_to_stderr(f"{file}: {problem.severity}: {problem}")
    if any(problem.severity == "error" for problem in problems):
        return None
    if not read.bundle.certificates:
        print_to_stderr(f"transom: {file}: no certificate found")
        return None
    return read


def _print_bundle(file: str, read: "ReadBundle") -> None:
    """Print the certificates of a bundle, and warnings about them."""
    from transom.proxy.trust import iter_certificate_warnings

    certificates = read.bundle.certificates
    for index, certificate in enumerate(certificates, 1):
        print_lines(*_format_certificate(index, certificate))
    for certificate, text in iter_certificate_warnings(certificates, datetime.now(UTC)):
        print_to_stderr(f"{file}: warning: certificate {certificates.index(certificate) + 1} {text}")
    if read.form != "PEM":
        print_to_stderr(
            f"{file}: warning: this is {read.form}: a ConfigMap of CAs needs PEM in UTF-8 ({_CONVERSIONS[read.form]})"
        )


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
