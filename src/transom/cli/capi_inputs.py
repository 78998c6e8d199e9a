"""What `transom capi` is told by flags and in files; what does not fit ends the command."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from transom.cli.output import Format, fail, print_data, print_lines
from transom.sources.decoding import either

T = TypeVar("T", bound=msgspec.Struct)


def read_inputs(values: Mapping[str, Any], type_: type[T], told: Mapping[str, str], remedy: str = "") -> T:
    """The values as a struct.

    `told` is what a person wrote, by the field's name: `--cni`, or `inputs.yaml: cni`; by "" where it all stands.
    `remedy` ends what is said of others.
    """
    from transom.capi.inputs import NO_WINS

    for field in msgspec.structs.fields(type_):
        name = field.encode_name
        if name not in values:
            if field.required:
                fail(f"--{name} is missing")
        elif get_origin(field.type) is Literal and values[name] not in get_args(field.type):
            if name == "daemons" and values[name] == "wins":
                fail(f"{told[name]}: {NO_WINS}")
            fail(f"{told[name]}: must be {either(tuple(filter(None, get_args(field.type))))}, not {values[name]!r}")
    try:
        return msgspec.convert(values, type_)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$.")
        name = re.split(r"\W", path, maxsplit=1)[0]
        where = told[name] + path[len(name) :].rstrip("`") if name else told[""]
        fail(f"{where}: {said}{remedy}")


def read_mapping(path: str) -> dict[str, Any]:
    """An inputs file as plain values; ends the command where it is none."""
    import yaml

    try:
        read = yaml.load(Path(path).read_bytes(), yaml.CSafeLoader)
    except OSError as error:
        fail(f"{path}: cannot be read: {error.strerror}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        fail(f"{path}{where}: this is no YAML")
    if not isinstance(read, dict):
        fail(f"{path}: a mapping of inputs is expected; transom capi worker --schema prints what it may hold")
    return read


def variable_of(text: str) -> tuple[str, str]:
    """A variable of a build as `NAME=VALUE`; ends the command where it is none."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        fail(f"--var {name!r}: NAME=VALUE is expected")
    return name, value


def hashes(directory: Path) -> dict[str, str]:
    """The SHA-256 of each file of a directory, by its name; ends the command where it cannot be read."""
    import hashlib

    try:
        files = [file for file in sorted(directory.iterdir()) if file.is_file()]
        found = {}
        for file in files:
            with file.open("rb") as opened:
                found[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        fail(f"--downloads {directory}: {error.strerror}")
    return found


def list_downloads(downloads: Iterable[Any], output: Format) -> None:
    """Print what a build downloads."""
    import msgspec

    if output is Format.TEXT:
        for item in downloads:
            print_lines(f"{item.file}\t{item.url}")
    else:
        print_data([msgspec.to_builtins(item) for item in downloads], output)


def copy_downloads(source: Path, target: Path) -> None:
    """Put the files of a directory beside a template."""
    import shutil

    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file():
            shutil.copy2(file, target / file.name)
