"""Options that several commands have: each group is spelled once, and a command gets it as one frozen value."""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from transom.cli.output import Format

Output = Annotated[Format, typer.Option("--output", "-o", help="The output format.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell requests, channels and steps on stderr, with secrets masked.")
]
"""Of servers and hosts; no body of a request and no value is in it."""


class Options(msgspec.Struct, frozen=True):
    """A group of options: each field is one, annotated as a parameter of a command would be."""


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: a parameter that is a group of options becomes one parameter for each of its fields."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, type[Options]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and issubclass(hint, Options):
            groups[parameter.name] = hint
            parameters += _parameters(hint)
        else:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=parameter.default)
            )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {name: group(**{field: given.pop(field) for field in group.__struct_fields__}) for name, group in groups.items()}
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameters(group: type[Options]) -> list[inspect.Parameter]:
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
