"""Logs as lines of JSON or for a terminal, on stderr; those of libraries in the same form."""

import logging
import os
import sys
from typing import Any, Final, Literal

import structlog

LogFormat = Literal["json", "console"]
LEVELS: Final = ("debug", "info", "warning", "error")


def configure(form: LogFormat, level: str) -> None:
    """Set up logging for this process. `level` is one of LEVELS."""
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
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=colours(), exception_formatter=plain)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # libraries tell every connection at INFO
    root.setLevel(max(number, logging.WARNING))


def colours() -> bool:
    """On a terminal, and never with NO_COLOR (no-color.org: present and not empty)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
