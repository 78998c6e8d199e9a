"""What an image's build downloads, and files of it that are there already, for `transom capi image`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transom.cli.output import Format, fail, print_data, print_lines


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
