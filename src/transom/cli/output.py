"""How commands speak: data to stdout as text, JSON or YAML; progress and errors to stderr; files that may hold secrets.

Nothing else in this package writes to either, but `transom.cli.terminal` for tables: what a host or a server said reaches a
terminal without its control characters.
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

from transom.shown import shown, spelled

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


class _Unread(io.FileIO):
    """A stream that may be a full disk, or a pipe whose reader is gone: what cannot be written there is lost."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """Make stdout and stderr fit to be written to, whoever started the program and however.

    One that is closed (`>&-`) leads nowhere. What stderr does not take is no reason to leave hosts half way, nor to keep the
    report back.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        raw = io.BufferedWriter(_Unread(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)


def print_data(data: Any, output: Format) -> None:
    """Write `data` (structs, dicts, lists) to stdout as JSON or YAML: each text as it is, escaped as they do."""
    plain = msgspec.to_builtins(data)
    if output is Format.YAML:
        import yaml

        # YAML has no way to write half a character
        whole = _mapped(plain, lambda text: _SURROGATE.sub(lambda half: shown(half[0]), text))
        yaml.dump(whole, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=110)
    else:
        encoded = json.dumps(plain, indent=2, ensure_ascii=False)
        sys.stdout.write(spelled(encoded, lambda one: json.dumps(one)[1:-1], keep="\n") + "\n")


def print_document(text: str) -> None:
    """Write a document to stdout as it is: YAML, a script."""
    sys.stdout.write(text)


def print_lines(*lines: str) -> None:
    """Write lines for people to stdout: no text of others makes two of one."""
    sys.stdout.write("".join(shown(line, keep="\t") + "\n" for line in lines))


def tell(line: str) -> None:
    """Write one line for people to stderr."""
    sys.stderr.write(shown(line, keep="\t") + "\n")


def broken(line: str, columns: int | None) -> list[str]:
    """The line as lines that break between words; as it is without `columns`. A word that is wider than a line stays whole."""
    if columns is None or len(line) < columns:
        return [line]
    return textwrap.wrap(line, max(columns - 1, 20), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def columns_of(out: TextIO) -> int | None:
    """The width of a terminal; None of a file or a pipe, where a line is as long as it is."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def fail(message: str, code: ExitCode = ExitCode.INVALID) -> NoReturn:
    """Write `transom: message` to stderr and end with `code`."""
    tell(f"transom: {message}")
    raise SystemExit(code)


@contextmanager
def saying_on_ctrl_c(sentence: str) -> Iterator[None]:
    """A Ctrl-C in the block ends the program with a sentence."""
    try:
        yield
    except KeyboardInterrupt:
        fail(sentence, ExitCode.INTERRUPTED)


def for_people(data: Any) -> Any:
    """Data as `print_data` takes it, each text in it as it is shown: what a table is made of."""
    return _mapped(msgspec.to_builtins(data), shown)


def struct_for_people(data: _T) -> _T:
    """The same for a struct of plain values."""
    return msgspec.convert(for_people(data), type(data))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(present, change) for key, present in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(present, change) for present in value]
    return value


def yaml_stream(items: Iterable[Mapping[str, Any]]) -> str:
    """Objects as YAML documents; a text of several lines stands in a block."""
    import yaml

    class ManifestDumper(yaml.CSafeDumper):
        pass

    def text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    ManifestDumper.add_representer(str, text)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1 << 20}
    return "".join("---\n" + yaml.dump(item, Dumper=ManifestDumper, **options) for item in items)


def write_private(path: Path, data: bytes) -> None:
    """Readable by the owner alone, from the first byte on; a file that was there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with naming(path), os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    part.replace(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block names `path` where it names nothing, as that of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
