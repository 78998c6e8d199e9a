"""Logs as lines of JSON or for a terminal, on stderr; those of libraries in the same form."""

import logging
import os
import sys
from collections.abc import MutableMapping
from io import StringIO
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import ExcInfo

from transom.shown import shown

LogFormat = Literal["json", "console"]
LEVELS: Final = ("debug", "info", "warning", "error")


def configure(form: LogFormat, level: str, *, lasting: bool = True) -> None:
    """Set up logging for this process. `level` is one of LEVELS; `lasting`: who has logged keeps it, whatever comes later."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any
    if form == "json":
        # no local variables in it: they may be secrets
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        shared.append(_for_people)
        renderer = structlog.dev.ConsoleRenderer(colors=colours(), exception_formatter=_traceback)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=lasting,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # libraries tell every connection at INFO
    root.setLevel(max(number, logging.WARNING))


def _for_people(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Texts as they are shown on a terminal; what is no text is written by its repr, which has no control characters."""
    return {shown(name): shown(value) if isinstance(value, str) else value for name, value in event.items()}


def _traceback(out: TextIO, error: ExcInfo) -> None:
    lines = StringIO()
    structlog.dev.plain_traceback(lines, error)
    out.write(shown(lines.getvalue(), keep="\n"))


def colours() -> bool:
    """On a terminal, and never with NO_COLOR (no-color.org: present and not empty)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
