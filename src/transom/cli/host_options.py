"""How hosts are connected to, as options: which keys are believed, and how long things may take, as people write it."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.output import fail

if TYPE_CHECKING:
    from transom.hosts.ssh.connection import Timeouts

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
CONNECT, CHANNEL, WHOLE = "10s", "1m", "15m"
CONNECT_HELP = "How long a host may take to let us in."
CHANNEL_HELP = "How long a host may make no progress before it is given up on."
WHOLE_HELP = "How long all the work on one host may take, files sent included."
ConnectTimeout = Annotated[str, typer.Option("--connect-timeout", metavar="DURATION", help=CONNECT_HELP)]
ChannelTimeout = Annotated[str, typer.Option("--channel-timeout", metavar="DURATION", help=CHANNEL_HELP)]
PassTimeout = Annotated[str, typer.Option("--pass-timeout", metavar="DURATION", help=WHOLE_HELP)]
REQUIRE_HOST_KEYS_HELP = "Connect to no host whose key is not known: by spec.hostKey, or from an earlier connection."
RequireHostKeys = Annotated[
    bool, typer.Option("--require-host-keys", envvar="TRANSOM_REQUIRE_HOST_KEYS", help=REQUIRE_HOST_KEYS_HELP)
]


def timeouts(connect: str, channel: str, whole: str) -> "Timeouts":
    """The timeouts that three options say; ends the process where one is no duration."""
    from transom.hosts.ssh.connection import Timeouts

    return Timeouts(
        duration("--connect-timeout", connect),
        duration("--channel-timeout", channel),
        duration("--pass-timeout", whole),
    )


def duration(flag: str, text: str) -> float:
    """The seconds that an option says; ends the process where that is no duration."""
    try:
        return seconds(text)
    except ValueError as error:
        fail(f"{flag}: {error}")


def seconds(text: str) -> float:
    """A duration as Go writes it. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; for example 30m or 1h30m")
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if total < 1:
        raise ValueError(f"{text!r} is less than a second")
    return total
