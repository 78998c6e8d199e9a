"""How commands speak: data to stdout as text, JSON or YAML; progress and errors to stderr.

Nothing else in this package writes to either, but `transom.cli.messages`, and `transom.cli.terminal` for tables: what a host
or a server said reaches a terminal without its control characters.
"""

import enum
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, TypeVar

import msgspec

from transom.cli.messages import print_to_stderr
from transom.cli.stopping import get_signal_name, mark_stop_reported, protect_output
from transom.common.escaping import escape_unprintable, escape_unprintable_with

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_T = TypeVar("_T", bound=msgspec.Struct)


class Format(enum.StrEnum):
    """The value of `-o`."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class ExitCode(enum.IntEnum):
    """How every command ends."""

    DONE = 0
    NOT_DONE = 1
    INVALID = 2
    NOT_READ = 3
    INTERRUPTED = 130
    """By Ctrl-C. `transom.cli.stopping` makes 143 of it where the signal was SIGTERM, and 129 where it was SIGHUP."""


class _LossyStream(io.FileIO):
    """A stream that may be a full disk, or a pipe whose reader is gone: what cannot be written there is lost."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """Make stdout and stderr writable, however the program was started.

    One that is closed (`>&-`) leads nowhere. A failed write to stderr must not leave hosts half configured, nor keep the
    report back. With PYTHONUNBUFFERED, what a signal interrupts would be lost from there on: Python does not write the rest of
    what it has given to a raw file.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the process
    elif isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdout.buffer, io.RawIOBase):
        whole = io.BufferedWriter(sys.stdout.buffer)
        sys.stdout = io.TextIOWrapper(whole, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        raw = io.BufferedWriter(_LossyStream(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)


def print_data(data: Any, output: Format) -> None:
    """Write `data` (structs, dicts, lists) to stdout as JSON or YAML, with their escapes only."""
    plain = msgspec.to_builtins(data)
    with protect_output():
        if output is Format.YAML:
            import yaml

            # YAML has no way to write half a character
            whole = _map_strings(plain, lambda text: _SURROGATE.sub(lambda half: escape_unprintable(half[0]), text))
            yaml.dump(whole, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=110)
        else:
            encoded = json.dumps(plain, indent=2, ensure_ascii=False)
            sys.stdout.write(escape_unprintable_with(encoded, lambda item: json.dumps(item)[1:-1], keep="\n") + "\n")
        sys.stdout.flush()


def print_document(text: str) -> None:
    """Write a document to stdout unchanged: YAML, a script."""
    with protect_output():
        sys.stdout.write(text)


def print_lines(*lines: str) -> None:
    """Write lines for people to stdout; line breaks in values are replaced."""
    sys.stdout.write("".join(escape_unprintable(line, keep="\t") + "\n" for line in lines))


def wrap_line(line: str, columns: int | None) -> list[str]:
    """Break the line between words; without `columns`, return it unchanged. Words wider than a line stay whole."""
    if columns is None or len(line) < columns:
        return [line]
    return textwrap.wrap(line, max(columns - 1, 20), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def get_columns(out: TextIO) -> int | None:
    """Return the width of a terminal; None for a file or a pipe, where lines are not broken."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def fail(message: str, code: ExitCode = ExitCode.INVALID) -> NoReturn:
    """Write `transom: message` to stderr and end with `code`."""
    print_to_stderr(f"transom: {message}")
    raise SystemExit(code)


@contextmanager
def exit_when_stopped(when: str) -> Iterator[None]:
    """End the program with a sentence where a signal stops the block: `stopped by Ctrl-C`, and `when`."""
    try:
        yield
    except KeyboardInterrupt:
        mark_stop_reported()
        fail(f"stopped by {get_signal_name()} {when}", ExitCode.INTERRUPTED)


def sanitize(data: Any) -> Any:
    """Escape each string of data for display as `print_data` does: the input of a table."""
    return _map_strings(msgspec.to_builtins(data), escape_unprintable)


def sanitize_struct(data: _T) -> _T:
    """Sanitize the strings of a struct of plain values."""
    return msgspec.convert(sanitize(data), type(data))


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_map_strings(key, change): _map_strings(present, change) for key, present in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(present, change) for present in value]
    return value


def to_yaml_stream(items: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as YAML documents; strings of several lines are blocks."""
    import yaml

    class ManifestDumper(yaml.CSafeDumper):
        pass

    def represent_string(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    ManifestDumper.add_representer(str, represent_string)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1 << 20}
    return "".join("---\n" + yaml.dump(item, Dumper=ManifestDumper, **options) for item in items)


@contextmanager
def add_path_to_errors(path: Path) -> Iterator[None]:
    """Add `path` to an OSError of the block that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
