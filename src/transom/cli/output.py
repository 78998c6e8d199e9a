"""How commands speak: data to stdout as text, JSON or YAML; progress and errors to stderr."""

import enum
import sys
from typing import Any, NoReturn

import msgspec


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


def print_data(data: Any, output: Format) -> None:
    """Write `data` (structs, dicts, lists) to stdout as JSON or YAML."""
    plain = msgspec.to_builtins(data)
    if output is Format.YAML:
        import yaml

        yaml.dump(plain, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=110)
    else:
        encoded = msgspec.json.format(msgspec.json.encode(plain), indent=2)
        sys.stdout.write(encoded.decode() + "\n")


def fail(message: str, code: ExitCode = ExitCode.INVALID) -> NoReturn:
    """Write `transom: message` to stderr and end with `code`."""
    sys.stderr.write(f"transom: {message}\n")
    raise SystemExit(code)
