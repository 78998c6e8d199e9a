"""What nobody foresaw while a host was worked on: a line in the log, and a HostError for that host alone."""

import logging
import traceback
from collections.abc import Iterator
from pathlib import PurePath

from transom.hosts.errors import HostError

_log = logging.getLogger("transom.faults")


class Fault(HostError):
    """A fault of Transom itself; what came from the host may have led to it."""


def fault(error: Exception) -> Fault:
    """The error of the host that was worked on; where it happened is logged.

    The text of the exception is neither told nor logged: it may quote what was read from the host, or was to be sent to it.
    """
    trace = tuple(frames(error))
    _log.error("a fault of Transom itself; the other hosts go on\n%s", "\n".join(trace))
    return Fault(f"a fault of Transom itself ({place(error)}); its log says where. Please report it; the next pass tries again")


def place(error: BaseException) -> str:
    """The kind of an exception and the line that raised it: `ValueError, plan.py:12`."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f", {PurePath(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}{where}"


def frames(error: BaseException) -> Iterator[str]:
    """A traceback without the texts of its exceptions, the last call first."""
    shown: BaseException | None = error
    while shown is not None:
        yield type(shown).__name__
        for frame in reversed(traceback.extract_tb(shown.__traceback__)):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
