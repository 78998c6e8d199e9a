"""Options that several commands have: each group is spelled once, and a command gets it as one frozen value."""

import functools
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from transom.cli.output import Format, fail

NAMESPACE = "transom-system"
"""Transom's own, unless a command says another one."""
Output = Annotated[Format, typer.Option("--output", "-o", help="The output format.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log requests, SSH channels and steps to stderr, with secrets masked.")
]
"""Of servers and hosts; no body of a request and no value is in it."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
Username = Annotated[str, typer.Option("--username", "-u", metavar="NAME", help="SSH user. [default: from ~/.ssh/config]")]
Port = Annotated[
    int | None, typer.Option("--port", "-p", min=1, max=65535, help="SSH port. [default: from ~/.ssh/config, else 22]")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key", "-i", metavar="FILE", help="SSH private key. [default: the agent and ~/.ssh]")
]
REQUIRE_HOST_KEYS_HELP = "Refuse hosts whose key is neither in spec.hostKey nor known from an earlier connection."
RequireHostKeys = Annotated[
    bool, typer.Option("--require-host-keys", envvar="TRANSOM_REQUIRE_HOST_KEYS", help=REQUIRE_HOST_KEYS_HELP)
]


def refuse_empty_selector(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Return the value of `--selector`. Raises BadParameter if it is given and empty, which would select every host."""
    source = context.get_parameter_source(parameter.name or "")
    is_given = source is not None and source.name == "COMMANDLINE"
    if is_given and not value.strip():
        raise typer.BadParameter("it is empty, perhaps because a variable is unset; omit it to select every host")
    return value


HostSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Select hosts by labels of the WindowsInstance: env=prod.",
        callback=refuse_empty_selector,
    ),
]


class OptionGroup(msgspec.Struct, frozen=True):
    """A group of options: each field is one, annotated as a parameter of a command would be."""


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command for typer: a parameter that is a group of options becomes one parameter for each of its fields."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and issubclass(hint, OptionGroup):
            groups[parameter.name] = hint
            parameters += _list_parameters(hint)
        else:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=parameter.default)
            )

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        made = {
            name: group(**{field: arguments.pop(field) for field in group.__struct_fields__}) for name, group in groups.items()
        }
        command(**arguments, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _list_parameters(group: type[OptionGroup]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in msgspec.structs.fields(group)
    ]


def log_to_stderr(*, verbose: bool) -> None:
    """Set up logging for a command of a person."""
    import logging

    from transom.operations import logs

    logs.configure("console", "debug" if verbose else "warning", lasting=False)
    # of SSH: who was connected to, what was run, and nothing that was sent
    logging.getLogger("asyncssh").setLevel(logging.INFO if verbose else logging.WARNING)


def parse_duration_option(flag: str, text: str) -> float:
    """Return the seconds of an option. Ends the process if it is not a duration."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        fail(f"{flag}: {error}")


def parse_seconds(text: str) -> float:
    """Parse a duration in Go's notation. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: use for example 30m or 1h30m")
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if total < 1:
        raise ValueError(f"{text!r} is less than a second")
    return total


def create_server_option(flag: str, text: str, *, short: str | None = None, **more: Any) -> Any:
    """Create an option of a server, with its help `text` and a `short` form.

    `TRANSOM_<FLAG>` of the environment also sets it.
    """
    name = flag.partition("/")[0].strip("-").replace("-", "_").upper()
    return typer.Option(flag, *([short] if short else []), envvar=f"TRANSOM_{name}", help=text, **more)


LocalMetrics = Annotated[
    bool, create_server_option("--local-metrics", "Serve /metrics only on the loopback address, for a proxy in the same pod.")
]


def configure_logs(form: str, level: str) -> None:
    """Set up logging as `--log-format` and `--log-level` say; ends the process where they say nothing that is known."""
    from transom.operations import logs

    if form not in ("json", "console"):
        fail(f"--log-format: {form!r} is neither json nor console")
    if level not in logs.LEVELS:
        fail(f"--log-level: {level!r} is none of {', '.join(logs.LEVELS)}")
    logs.configure("json" if form == "json" else "console", level)
    logs.log_start()
