"""Certificates made in a process of its own: the library takes 10 MB, which a server would keep and not use for a year.

`python -m transom.webhook.renewal` reads an Order from standard input and writes a RenewalResult: keys go through two pipes.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from datetime import datetime

import msgspec

from transom.proxy.secret import Secret
from transom.webhook.webhook_secret import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    CertificateLifetimes,
    IssuedCertificate,
    WebhookSecret,
    parse_issued,
    parse_webhook_secret,
)


class RenewalFailed(Exception):
    """There is nothing that can be served, or the process ended without an answer. Its text holds no key."""


class RenewalRequest(msgspec.Struct, frozen=True):
    """The input of `compute_next_secret`: the Secret's data, or what was last known where they are damaged.

    `issued` is the data of a Certificate's Secret, if another program issues the served certificate.
    """

    data: dict[str, str]
    known: dict[str, str]
    hosts: tuple[str, ...]
    now: datetime
    trusted: str | None
    lives: CertificateLifetimes
    issued: dict[str, str] = {}


class RenewalResult(msgspec.Struct, frozen=True):
    """What the Secret has to hold now, and for how long that is so."""

    data: dict[str, str]
    expires: datetime
    seconds: float
    unfit: str = ""
    """Why what was issued cannot be served."""


class RenewedSecret(msgspec.Struct, frozen=True):
    """An outcome, read."""

    holdings: WebhookSecret
    expires: datetime
    seconds: float


async def renew_certificates(
    data: Mapping[str, Secret],
    last_known: WebhookSecret | None,
    hosts: tuple[str, ...],
    now: datetime,
    ca_bundle: str | None,
    lifetimes: CertificateLifetimes,
    issued: IssuedCertificate | None = None,
) -> RenewedSecret:
    """Compute the required content of the Secret. Raises RenewalFailed."""
    order = RenewalRequest(
        _reveal_data(data),
        _reveal_data(last_known.to_data()) if last_known else {},
        hosts,
        now,
        ca_bundle,
        lifetimes,
        _reveal_issued(issued),
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        answer, _ = await process.communicate(msgspec.json.encode(order))
    finally:
        if process.returncode is None:
            process.kill()
    try:
        outcome = msgspec.json.decode(answer, type=RenewalResult)
    except msgspec.DecodeError:
        raise RenewalFailed(f"the process that makes certificates ended with {process.returncode}") from None
    if outcome.unfit:
        raise RenewalFailed(f"the certificate that was issued cannot be served: {outcome.unfit}")
    current = parse_webhook_secret({name: Secret(text) for name, text in outcome.data.items()})
    if current is None:
        raise RenewalFailed("the process that makes certificates made too few")
    return RenewedSecret(current, outcome.expires, outcome.seconds)


def _reveal_data(data: Mapping[str, Secret]) -> dict[str, str]:
    return {name: item.reveal() for name, item in data.items()}


def _reveal_issued(issued: IssuedCertificate | None) -> dict[str, str]:
    return {AUTHORITY: issued.authorities, CERTIFICATE: issued.certificate, KEY: issued.key.reveal()} if issued else {}


def run_renewal(order: RenewalRequest) -> RenewalResult:
    """Run an order in the process."""
    from transom.webhook.certificates import compute_next_secret, compute_rotation_delay, get_expiry, parse_matching_secret

    if issued := parse_issued(_wrap_in_secrets(order.issued)):
        return _renew_from_issued(order, issued)
    current = next(
        (parsed for data in (order.data, order.known) if (parsed := parse_matching_secret(_wrap_in_secrets(data)))), None
    )
    made = compute_next_secret(current, order.hosts, order.now, order.trusted, order.lives)
    return RenewalResult(_reveal_data(made.to_data()), get_expiry(made), compute_rotation_delay(made, order.now, order.lives))


def _renew_from_issued(order: RenewalRequest, issued: IssuedCertificate) -> RenewalResult:
    from transom.webhook.certificates import get_expiry, parse_readable_secret
    from transom.webhook.issued_certificate import (
        InvalidIssuedCertificate,
        compute_issued_rotation_delay,
        compute_issued_secret,
    )

    current = next(
        (parsed for data in (order.data, order.known) if (parsed := parse_readable_secret(_wrap_in_secrets(data)))), None
    )
    try:
        made = compute_issued_secret(current, issued, order.hosts, order.now, order.trusted, order.lives)
    except InvalidIssuedCertificate as error:
        return RenewalResult({}, order.now, 0, str(error))
    return RenewalResult(
        _reveal_data(made.to_data()), get_expiry(made), compute_issued_rotation_delay(made, issued, order.now, order.lives)
    )


def _wrap_in_secrets(data: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(text) for name, text in data.items()}


def main() -> None:
    """Run the process. If its server was killed, it ends without an answer or a log line."""
    order_bytes = sys.stdin.buffer.read()
    if not order_bytes:
        return
    answer = msgspec.json.encode(run_renewal(msgspec.json.decode(order_bytes, type=RenewalRequest)))
    with contextlib.suppress(BrokenPipeError), sys.stdout.buffer as output:
        output.write(answer)


if __name__ == "__main__":
    main()
