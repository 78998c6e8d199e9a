"""Tables and progress, by rich: no markup, no emoji, no control characters of others."""

import sys
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from transom.common.escaping import escape_unprintable

_FILE_WIDTH = 160


class Terminal(Console):
    """Stdout or stderr; colours only on a terminal, and never with NO_COLOR; full lines into a file or a pipe."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        if width is None and not stderr and not sys.stdout.isatty():
            width = _FILE_WIDTH
        super().__init__(stderr=stderr, width=width, highlight=False, emoji=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render as rich does, with control characters of texts escaped. Rich's own colours and movements are not escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_unprintable(segment.text, keep="\n"), segment.style)
