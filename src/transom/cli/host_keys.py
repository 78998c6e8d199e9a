"""Whether hosts are trusted on first use, as an option."""

from typing import Annotated

import typer

HELP = "Connect to no host whose key is not known: by spec.hostKey, or from an earlier connection."
RequireHostKeys = Annotated[bool, typer.Option("--require-host-keys", envvar="TRANSOM_REQUIRE_HOST_KEYS", help=HELP)]
