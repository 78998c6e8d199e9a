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
from transom.webhook.holdings import AUTHORITY, CERTIFICATE, KEY, Holdings, Issued, Lives, parse_data, parse_issued


class RenewalFailed(Exception):
    """There is nothing that can be served, or the process ended without an answer. Its text holds no key."""


class Order(msgspec.Struct, frozen=True):
    """The input of `compute_next_holdings`: the Secret's data, or what was last known where they are damaged.

    `issued` is the data of a Certificate's Secret, if another program issues the served certificate.
    """

    data: dict[str, str]
    known: dict[str, str]
    hosts: tuple[str, ...]
    now: datetime
    trusted: str | None
    lives: Lives
    issued: dict[str, str] = {}


class RenewalResult(msgspec.Struct, frozen=True):
    """What the Secret has to hold now, and for how long that is so."""

    data: dict[str, str]
    expires: datetime
    seconds: float
    unfit: str = ""
    """Why what was issued cannot be served."""


class Renewed(msgspec.Struct, frozen=True):
    """An outcome, read."""

    holdings: Holdings
    expires: datetime
    seconds: float


async def renew(
    data: Mapping[str, Secret],
    known: Holdings | None,
    hosts: tuple[str, ...],
    now: datetime,
    trusted: str | None,
    lives: Lives,
    issued: Issued | None = None,
) -> Renewed:
    """Compute the required content of the Secret. Raises RenewalFailed."""
    order = Order(
        _reveal_data(data), _reveal_data(known.to_data()) if known else {}, hosts, now, trusted, lives, _reveal_issued(issued)
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
    current = parse_data({name: Secret(text) for name, text in outcome.data.items()})
    if current is None:
        raise RenewalFailed("the process that makes certificates made too few")
    return Renewed(current, outcome.expires, outcome.seconds)


def _reveal_data(data: Mapping[str, Secret]) -> dict[str, str]:
    return {name: item.reveal() for name, item in data.items()}


def _reveal_issued(issued: Issued | None) -> dict[str, str]:
    return {AUTHORITY: issued.authorities, CERTIFICATE: issued.certificate, KEY: issued.key.reveal()} if issued else {}


def run_order(order: Order) -> RenewalResult:
    """Run an order in the process."""
    from transom.webhook.certificates import compute_next_holdings, compute_seconds_to_next, get_expiry, parse_holdings

    if issued := parse_issued(_seal_data(order.issued)):
        return _run_issued_order(order, issued)
    current = next((parsed for data in (order.data, order.known) if (parsed := parse_holdings(_seal_data(data)))), None)
    made = compute_next_holdings(current, order.hosts, order.now, order.trusted, order.lives)
    return RenewalResult(_reveal_data(made.to_data()), get_expiry(made), compute_seconds_to_next(made, order.now, order.lives))


def _run_issued_order(order: Order, issued: Issued) -> RenewalResult:
    from transom.webhook.certificates import get_expiry, parse_readable
    from transom.webhook.issued import IssuedUnfit, compute_next_issued, compute_seconds_to_next_issued

    current = next((parsed for data in (order.data, order.known) if (parsed := parse_readable(_seal_data(data)))), None)
    try:
        made = compute_next_issued(current, issued, order.hosts, order.now, order.trusted, order.lives)
    except IssuedUnfit as error:
        return RenewalResult({}, order.now, 0, str(error))
    return RenewalResult(
        _reveal_data(made.to_data()), get_expiry(made), compute_seconds_to_next_issued(made, issued, order.now, order.lives)
    )


def _seal_data(data: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(text) for name, text in data.items()}


def main() -> None:
    """Run the process. If its server was killed, it ends without an answer or a log line."""
    order_bytes = sys.stdin.buffer.read()
    if not order_bytes:
        return
    answer = msgspec.json.encode(run_order(msgspec.json.decode(order_bytes, type=Order)))
    with contextlib.suppress(BrokenPipeError), sys.stdout.buffer as output:
        output.write(answer)


if __name__ == "__main__":
    main()
