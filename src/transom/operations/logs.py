"""Logs as lines of JSON or for a terminal, on stderr; those of libraries in the same form."""

import logging
import os
import sys
import warnings
from collections.abc import MutableMapping
from io import StringIO
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import ExcInfo

from transom import __version__
from transom.common.escaping import escape_unprintable
from transom.common.revision import read_revision

LogFormat = Literal["json", "console"]
MAX_TEXT: Final = 16 << 10
"""Characters of each field of a line, a traceback included: what others send may be part of it."""
LEVELS: Final = ("debug", "info", "warning", "error")


def configure(form: LogFormat, level: str, *, lasting: bool = True) -> None:
    """Set up logging for this process. `level` is one of LEVELS; `lasting`: who has logged keeps it, whatever comes later."""
    number = logging.getLevelNamesMapping()[level.upper()]
    if not sys.warnoptions:
        # libraries warn of what others sent, with figures of it: each would be a line in no format, and is remembered for ever
        warnings.simplefilter("ignore")
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
        shared.append(_shorten_fields)
    else:
        shared += [_shorten_fields, _sanitize]
        renderer = structlog.dev.ConsoleRenderer(colors=should_use_colours(), exception_formatter=_write_traceback)
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


def log_start() -> None:
    """Log which version of the program has started."""
    structlog.get_logger("transom").info("process started", version=__version__, revision=read_revision() or "unknown")


def shorten(text: str) -> str:
    """Shorten a string above MAX_TEXT to its beginning and its end."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 2]} … {text[-MAX_TEXT // 2 :]}"


def _shorten_fields(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {shorten(name): _shorten_value(value) for name, value in event.items()}


def _shorten_value(value: Any) -> Any:
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list | tuple | dict | set | frozenset | bytes):
        text = repr(value)
        return value if len(text) <= MAX_TEXT else shorten(text)
    return value


def _sanitize(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the strings of an event for a terminal; other values are written by their repr, without control characters."""
    return {
        escape_unprintable(name): escape_unprintable(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(out: TextIO, error: ExcInfo) -> None:
    lines = StringIO()
    structlog.dev.plain_traceback(lines, error)
    out.write(shorten(escape_unprintable(lines.getvalue(), keep="\n")))


def should_use_colours() -> bool:
    """On a terminal, and never with NO_COLOR (no-color.org: present and not empty)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
