"""What the commands share that run until they are stopped: `transom run` and `transom webhook`."""

from typing import Annotated, Any

import typer

from transom.cli.output import fail


def option(flag: str, text: str, *, short: str | None = None, **more: Any) -> Any:
    """An option of a server, which can be given in the environment too."""
    name = flag.partition("/")[0].strip("-").replace("-", "_").upper()
    return typer.Option(flag, *([short] if short else []), envvar=f"TRANSOM_{name}", help=text, **more)


LocalMetrics = Annotated[
    bool, option("--local-metrics", "Answer /metrics on the loopback address alone: to a proxy in the same pod.")
]


def configure_logs(form: str, level: str) -> None:
    """Set up logging as `--log-format` and `--log-level` say; ends the process where they say nothing that is known."""
    from transom.operations import logs

    if form not in ("json", "console"):
        fail(f"--log-format: {form!r} is neither json nor console")
    if level not in logs.LEVELS:
        fail(f"--log-level: {level!r} is none of {', '.join(logs.LEVELS)}")
    logs.configure("json" if form == "json" else "console", level)
