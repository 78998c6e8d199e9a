"""The inputs of `transom capi` from flags and files; an invalid input ends the command."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from transom.cli.output import Format, fail, print_data, print_lines
from transom.common.regular_files import open_regular_file, read_regular_file
from transom.sources.decoding import format_choices

T = TypeVar("T", bound=msgspec.Struct)


def read_inputs(values: Mapping[str, Any], type_: type[T], sources: Mapping[str, str], remedy: str = "") -> T:
    """Read the values into a struct.

    `sources` maps a field's name to where a person wrote it: `--cni`, or `inputs.yaml: cni`; the key "" to where all fields
    are.
    `remedy` ends messages about other fields.
    """
    from transom.capi.check.worker_inputs import NO_WINS

    for field in msgspec.structs.fields(type_):
        name = field.encode_name
        if name not in values:
            if field.required:
                fail(f"--{name} is missing")
        elif get_origin(field.type) is Literal and values[name] not in get_args(field.type):
            if name == "daemons" and values[name] == "wins":
                fail(f"{sources[name]}: {NO_WINS}")
            fail(f"{sources[name]}: must be {format_choices(tuple(filter(None, get_args(field.type))))}, not {values[name]!r}")
    try:
        return msgspec.convert(values, type_)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        name = re.split(r"\W", path, maxsplit=1)[0]
        where = sources[name] + path[len(name) :].rstrip("`") if name else sources[""]
        fail(f"{where}: {message}{remedy}")


def read_mapping(path: str) -> dict[str, Any]:
    """Read an inputs file as plain values; end the command if it is not a mapping."""
    from transom.sources.yaml_text import InvalidText, read_documents

    try:
        documents = list(read_documents(read_regular_file(path)))
    except OSError as error:
        fail(f"{path}: cannot be read: {error.strerror}")
    except InvalidText as error:
        where = f", line {error.line}, column {error.column}" if error.line else ""
        fail(f"{path}{where}: {error.reason}")
    read = documents[0].value if len(documents) == 1 else None
    if not isinstance(read, dict):
        fail(f"{path}: a mapping of inputs is expected; transom capi worker --schema prints what it may hold")
    return read


def parse_variable(text: str) -> tuple[str, str]:
    """Parse a variable of a build, `NAME=VALUE`; end the command if it is not one."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        fail(f"--var {name!r}: NAME=VALUE is expected")
    return name, value


def compute_hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a directory by its name; end the command if it cannot be read."""
    import hashlib

    try:
        files = [file for file in sorted(directory.iterdir()) if file.is_file()]
        hash_by_name = {}
        for file in files:
            with open_regular_file(file) as opened:
                hash_by_name[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        fail(f"--downloads {directory}: {error.strerror}")
    return hash_by_name


def list_downloads(downloads: Iterable[Any], output: Format) -> None:
    """Print what a build downloads."""
    import msgspec

    if output is Format.TEXT:
        for item in downloads:
            print_lines(f"{item.file}\t{item.url}")
    else:
        print_data([msgspec.to_builtins(item) for item in downloads], output)


def refuse_downloads(source: Path, target: Path) -> None:
    """End the command if files of a directory would replace others next to a template."""
    import filecmp

    from transom.cli.output_files import refuse_conflicts

    existing = [target / file.name for file in source.iterdir() if file.is_file() and (target / file.name).exists()]
    refuse_conflicts("--downloads", [path for path in existing if not filecmp.cmp(source / path.name, path, shallow=False)])


def copy_downloads(source: Path, target: Path) -> None:
    """Copy the files of a directory next to a template."""
    import shutil

    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        # a file that is its own copy is left alone
        if file.is_file() and not ((target / file.name).exists() and file.samefile(target / file.name)):
            shutil.copy2(file, target / file.name)
