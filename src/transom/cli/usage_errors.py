"""Errors in a command line: what was probably meant, added to the message of the parser, and no password in it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
import typer.core

from transom.cli.credential_masks import mask_passwords, mask_url

_EXTRA: Final = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
_FILE_FLAGS: Final = ("-f", "--filename")
_PATH_METAVARS: Final = ("FILE", "DIR", "PATH", "D")


class TransomGroup(typer.core.TyperGroup):
    """The program: it explains usage errors of all its commands."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            command_context = getattr(error, "ctx", None)
            if command_context is not None:
                error.message = _explain_error(error, command_context)
            raise


def _explain_error(error: typer.TyperException, context: typer.Context) -> str:
    """Return the message of a usage error with a hint."""
    extra = _EXTRA.fullmatch(error.message)
    if extra is not None:
        arguments = extra[1].split(" ")
        shown = " ".join(map(mask_url, arguments))
        return f"Got unexpected extra argument(s) ({shown}){_suggest_option(arguments, context)}"
    hint = _explain_missing_filename(context) if getattr(error, "option_name", "") in _FILE_FLAGS else ""
    return mask_passwords(error.message) + hint


def _explain_missing_filename(context: typer.Context) -> str:
    """Return why a command has no -f, as the end of a message."""
    if _has_parameter(context, "context"):
        return f": {context.info_name} works on a cluster only, which --context names, and reads no manifests"
    if context.parent is not None and context.parent.info_name == "no-proxy":
        return f": {context.info_name} reads a list. `transom no-proxy merge -f DIR` prints the list of manifests"
    return ""


def _suggest_option(arguments: list[str], context: typer.Context) -> str:
    """Return the option that an extra argument is probably the value of, as the end of a message."""
    if _has_parameter(context, "filename") and any(Path(item).exists() for item in arguments):
        if context.params.get("filename"):
            return ": repeat -f for each file, or name the directory"
        return f": did you mean {' '.join(f'-f {item}' for item in arguments)}?"
    if _has_parameter(context, "limit"):
        names = [*(context.params.get("limit") or ()), *arguments]
        return f": did you mean --limit {','.join(names)}?"
    return ""


def _has_parameter(context: typer.Context, name: str) -> bool:
    return any(parameter.name == name for parameter in context.command.params)


def refuse_empty_paths(command: Any) -> None:
    """Make a command and its subcommands refuse empty paths: of an unset variable, and not the working directory."""
    for subcommand in getattr(command, "commands", {}).values():
        refuse_empty_paths(subcommand)
    for parameter in command.params:
        if parameter.metavar in _PATH_METAVARS or parameter.type.name == "path":
            parameter.callback = _with_path_check(parameter.callback)


def _with_path_check(callback: Any) -> Any:
    def check(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and any(not item for item in _iter_values(value)):
            raise typer.BadParameter("it is empty, perhaps because a variable is unset", ctx=context, param=parameter)
        return value if callback is None else callback(context, parameter, value)

    return check


def _iter_values(value: Any) -> Iterator[str]:
    yield from map(str, value) if isinstance(value, list | tuple) else (str(value),)
