"""Files that a command writes where its user says: what the user made or edited there is never lost.

A file that exists is replaced only if it is still as Transom wrote it, or if the user said `--force`. What Transom wrote is in
`.transom-written` of the directory: a hash of each file, and of a private file its time and size alone, since the hash of
a file with a password in it would let others guess the password.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from transom.cli.output import ExitCode, add_path_to_errors, fail
from transom.common.counting import format_first
from transom.common.regular_files import read_regular_file

RECORD: Final = ".transom-written"
"""JSON under a name that kubectl, Flux and Argo CD do not take for a manifest."""
_NAMED: Final = 3
"""Files that a message names, of many."""
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that you or another program created or changed.")]


def write_files(option: str, directory: Path, files: Mapping[str, bytes], *, force: bool, private: bool = False) -> None:
    """Write files below a directory, by their relative paths: all of them, or none.

    Files that are `private` are readable by their owner alone. The command ends with 2 if a file exists that Transom did not
    write in its present form, and with 1 if one cannot be written; `option` is what the user named the directory by.
    """
    try:
        written = _read_record(directory)
        if not force:
            refuse_conflicts(option, [directory / name for name in find_conflicts(directory, files, written)])
        for name, content in files.items():
            replace_file(directory / name, content, private=private)
            written[name] = _format_file_stamp(directory / name) if private else _hash_content(content)
        replace_file(directory / RECORD, (json.dumps(written, indent=1, sort_keys=True) + "\n").encode(), private=private)
    except OSError as error:
        where = f"{option} " if option else ""
        fail(f"{where}{error.filename or directory}: {error.strerror or error}", ExitCode.NOT_DONE)


def find_conflicts(directory: Path, files: Mapping[str, bytes], written: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of files that exist below a directory and differ from these and from what Transom wrote there."""
    known = _read_record(directory) if written is None else written
    return [name for name, content in files.items() if not _is_replaceable(directory / name, content, known.get(name))]


def refuse_conflicts(option: str, paths: list[Path]) -> None:
    """End the command with 2 if there are files that it must not replace."""
    if paths:
        named = format_first(map(str, paths), _NAMED)
        verb, it = ("exist and differ", "them") if len(paths) > 1 else ("exists and differs", "it")
        where = f"{option}: " if option else ""
        fail(
            f"{where}{named} {verb} from what would be written; nothing was written. Name another place, or replace {it} "
            "with --force",
            ExitCode.INVALID,
        )


def replace_file(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file at once: a reader sees the old content or the new one. A private file is so from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with add_path_to_errors(path):
        try:
            mode = 0o600 if private else 0o666
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _is_replaceable(path: Path, content: bytes, written: str | None) -> bool:
    try:
        existing = read_regular_file(path)
    except (FileNotFoundError, NotADirectoryError):
        # to write it says what is wrong
        return True
    except OSError:
        # a directory, or a file of another user
        return False
    return existing == content or (written is not None and written in (_hash_content(existing), _format_file_stamp(path)))


def _read_record(directory: Path) -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
        record = json.loads(read_regular_file(directory / RECORD))
        if isinstance(record, dict):
            return {str(name): str(text) for name, text in record.items()}
    return {}


def _hash_content(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _format_file_stamp(path: Path) -> str:
    status = path.stat()
    return f"mtime:{status.st_mtime_ns},size:{status.st_size}"
