"""The options of commands that can wait for the operator."""

from typing import Annotated

import typer

from transom.cli.options import OptionGroup, parse_duration_option


class WaitOptions(OptionGroup, frozen=True):
    """Whether a command waits for the operator, and how long."""

    wait: Annotated[bool, typer.Option("--wait", help="Wait until the operator has finished.")] = False
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Timeout for --wait: 30s, 5m, 1h.")] = "5m"

    @property
    def seconds(self) -> float | None:
        """How long the command waits; None where it does not. Ends it where that is not a duration."""
        seconds = parse_duration_option("--timeout", self.timeout)
        return seconds if self.wait else None
