"""Options that say how long work on a host may take, of commands and of the operator."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.options import duration

if TYPE_CHECKING:
    from transom.hosts.ssh import Timeouts

CONNECT, CHANNEL, WHOLE = "10s", "1m", "15m"
CONNECT_HELP = "How long a host may take to let us in."
CHANNEL_HELP = "How long a host may make no progress before it is given up on."
WHOLE_HELP = "How long all the work on one host may take, files sent included."
ConnectTimeout = Annotated[str, typer.Option("--connect-timeout", metavar="DURATION", help=CONNECT_HELP)]
ChannelTimeout = Annotated[str, typer.Option("--channel-timeout", metavar="DURATION", help=CHANNEL_HELP)]
PassTimeout = Annotated[str, typer.Option("--pass-timeout", metavar="DURATION", help=WHOLE_HELP)]


def timeouts(connect: str, channel: str, whole: str) -> "Timeouts":
    """The timeouts that three options say (`10s`, `1m30s`): to connect, for each channel, for the whole pass of a host.

    Ends the process where one is no duration.
    """
    from transom.hosts.ssh import Timeouts

    return Timeouts(
        duration("--connect-timeout", connect),
        duration("--channel-timeout", channel),
        duration("--pass-timeout", whole),
    )
