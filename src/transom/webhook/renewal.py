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
from transom.webhook.holdings import AUTHORITY, CERTIFICATE, KEY, Holdings, Issued, Lives, held_in, issued_in


class RenewalFailed(Exception):
    """There is nothing that can be served, or the process ended without an answer. Its text holds no key."""


class Order(msgspec.Struct, frozen=True):
    """What `next_holdings` is asked: the Secret's data, or what was last known where they are damaged.

    `issued` is the data of a Certificate's Secret, where somebody else issues what is served.
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
    """What the Secret has to hold now. Raises RenewalFailed."""
    order = Order(_revealed(data), _revealed(known.data()) if known else {}, hosts, now, trusted, lives, _issued(issued))
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
    current = held_in({name: Secret(text) for name, text in outcome.data.items()})
    if current is None:
        raise RenewalFailed("the process that makes certificates made too few")
    return Renewed(current, outcome.expires, outcome.seconds)


def _revealed(data: Mapping[str, Secret]) -> dict[str, str]:
    return {name: one.reveal() for name, one in data.items()}


def _issued(issued: Issued | None) -> dict[str, str]:
    return {AUTHORITY: issued.authorities, CERTIFICATE: issued.certificate, KEY: issued.key.reveal()} if issued else {}


def carry_out(order: Order) -> RenewalResult:
    """The work of the process."""
    from transom.webhook.certificates import expiry, holdings, next_holdings, seconds_to_next

    if issued := issued_in(_secrets(order.issued)):
        return _carry_out_issued(order, issued)
    current = next((found for data in (order.data, order.known) if (found := holdings(_secrets(data)))), None)
    made = next_holdings(current, order.hosts, order.now, order.trusted, order.lives)
    return RenewalResult(_revealed(made.data()), expiry(made), seconds_to_next(made, order.now, order.lives))


def _carry_out_issued(order: Order, issued: Issued) -> RenewalResult:
    from transom.webhook.certificates import expiry, readable
    from transom.webhook.issued import IssuedUnfit, next_issued, seconds_to_next_issued

    current = next((found for data in (order.data, order.known) if (found := readable(_secrets(data)))), None)
    try:
        made = next_issued(current, issued, order.hosts, order.now, order.trusted, order.lives)
    except IssuedUnfit as error:
        return RenewalResult({}, order.now, 0, str(error))
    return RenewalResult(_revealed(made.data()), expiry(made), seconds_to_next_issued(made, issued, order.now, order.lives))


def _secrets(data: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(text) for name, text in data.items()}


def main() -> None:
    """The process. One whose server was killed has nobody to answer, and nothing to say in its log."""
    asked = sys.stdin.buffer.read()
    if not asked:
        return
    answer = msgspec.json.encode(carry_out(msgspec.json.decode(asked, type=Order)))
    with contextlib.suppress(BrokenPipeError), sys.stdout.buffer as output:
        output.write(answer)


if __name__ == "__main__":
    main()
