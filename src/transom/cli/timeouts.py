"""Options that say how long work on a host may take, of commands and of the operator."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.options import parse_duration_option

if TYPE_CHECKING:
    from transom.hosts.ssh.ssh_client import Timeouts

CONNECT, LOGIN, CHANNEL, WHOLE, SERVICE = "10s", "2m", "1m", "15m", "4m"
CONNECT_HELP = "SSH connection timeout, for TCP and for the key exchange."
LOGIN_HELP = "SSH login timeout, after the key exchange."
CHANNEL_HELP = "Timeout for a host without progress."
WHOLE_HELP = "Timeout for all work on one host, including file transfer."
SERVICE_HELP = "Timeout for a service to stop or start, without a checkpoint."
ConnectTimeout = Annotated[str, typer.Option("--connect-timeout", metavar="DURATION", help=CONNECT_HELP)]
LoginTimeout = Annotated[str, typer.Option("--login-timeout", metavar="DURATION", help=LOGIN_HELP)]
ChannelTimeout = Annotated[str, typer.Option("--channel-timeout", metavar="DURATION", help=CHANNEL_HELP)]
PassTimeout = Annotated[str, typer.Option("--pass-timeout", metavar="DURATION", help=WHOLE_HELP)]
ServiceTimeout = Annotated[str, typer.Option("--service-timeout", metavar="DURATION", help=SERVICE_HELP)]


def parse_timeouts(connect: str, login: str, channel: str, whole: str, service: str = SERVICE) -> "Timeouts":
    """Parse the values of three options (`10s`, `1m30s`): to connect, per channel, and for the pass of a host.

    Ends the process if one is not a duration.
    """
    from transom.hosts.ssh.ssh_client import Timeouts

    return Timeouts(
        parse_duration_option("--connect-timeout", connect),
        parse_duration_option("--channel-timeout", channel),
        parse_duration_option("--pass-timeout", whole),
        parse_duration_option("--login-timeout", login),
        parse_duration_option("--service-timeout", service),
    )
