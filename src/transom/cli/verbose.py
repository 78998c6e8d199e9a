"""`-v`: what a command asks of servers and hosts, on stderr. No body of a request and no value is in it."""

from typing import Annotated

import typer

Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell requests, channels and steps on stderr, with secrets masked.")
]


def log_to_stderr(*, verbose: bool) -> None:
    """Set up logging for a command of a person."""
    import logging

    from transom.operations import logs

    logs.configure("console", "debug" if verbose else "warning", lasting=False)
    # of SSH: who was connected to, what was run, and nothing that was sent
    logging.getLogger("asyncssh").setLevel(logging.INFO if verbose else logging.WARNING)
