"""What has a name on a drive: files, directories and junctions, each with its owner and access list."""

from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache
from re import IGNORECASE, Pattern
from re import compile as compile_pattern

from winsim import access
from winsim.access import ADMINISTRATORS, Acl

READ, WRITE = 1, 2
"""What an open file is opened for, and what it lets others do meanwhile. No client here lets others remove or rename it."""
_TEXTS = {
    2: "The system cannot find the file specified.",
    3: "The system cannot find the path specified.",
    5: "Access is denied.",
    32: "The process cannot access the file because it is being used by another process.",
    80: "The file exists.",
    112: "There is not enough space on the disk.",
    123: "The filename, directory name, or volume label syntax is incorrect.",
    145: "The directory is not empty.",
    183: "Cannot create a file when that file already exists.",
    267: "The directory name is invalid.",
}


class FileError(Exception):
    """A file operation that failed, with the number that Windows gives it (Microsoft: "System Error Codes")."""

    def __init__(self, code: int) -> None:
        super().__init__(_TEXTS[code])
        self.code = code


class Entry:
    """What has a name in a directory: whose it is, and its access list; a protected one inherits nothing."""

    __slots__ = ("acl", "holds", "modified", "name", "owner", "parent", "protected")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: SimulatedDirectory | None = None
        self.owner = ADMINISTRATORS
        self.acl: Acl = ()
        self.protected = False
        self.holds = self.modified = 0


class SimulatedFile(Entry):
    """A file's content; `holds` counts what has it open, `opens` is what each of these does and lets others do.

    `version` counts the changes.
    """

    __slots__ = ("data", "opens", "version")

    def __init__(self, name: str, data: bytes = b"") -> None:
        super().__init__(name)
        self.data = bytearray(data)
        self.opens: list[tuple[int, int]] = []
        self.version = 0


class SimulatedDirectory(Entry):
    """A directory's entries; `holds` counts processes that have it as their current directory."""

    __slots__ = ("entries",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.entries: dict[str, Entry] = {}


class Junction(Entry):
    """A directory's name that stands for another directory."""

    __slots__ = ("target",)

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name)
        self.target = target


Node = SimulatedFile | SimulatedDirectory
"""What is there once junctions were followed."""


def require_shared(file: SimulatedFile, opened: int, share: int) -> None:
    """Raise FileError(32) if an open handle of the file does not allow this access."""
    if any(opened & ~theirs or others & ~share for others, theirs in file.opens):
        raise FileError(32)


def list_entries(directory: SimulatedDirectory) -> list[Entry]:
    """Return the entries in the order of NTFS: by name, without case."""
    return [directory.entries[name] for name in sorted(directory.entries)]


def iter_files(directory: SimulatedDirectory, path: str = "C:") -> Iterator[tuple[str, SimulatedFile]]:
    """Yield every file below a directory, with its path."""
    for node in list_entries(directory):
        place = f"{path}\\{node.name}"
        if isinstance(node, SimulatedDirectory):
            yield from iter_files(node, place)
        elif isinstance(node, SimulatedFile):
            yield place, node


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str, ...]:
    r"""Split a path below C:\ into names. Raises FileError(3) for another drive.

    Resolves `.` and `..` and drops spaces and dots at the end of a name, as Win32 does.
    """
    plain = path.replace("/", "\\")
    if plain[1:2] == ":":
        if plain[0] not in "cC":
            raise FileError(3)
        plain = plain[2:]
    names: list[str] = []
    for part in plain.split("\\"):
        if part == "..":
            del names[-1:]
        elif part != "." and (kept := part.rstrip(". ")):
            names.append(kept)
    return tuple(names)


@lru_cache(maxsize=256)
def build_pattern(wildcard: str) -> Pattern[str]:
    """Build a regular expression from a file name with `*` and `?`."""
    return compile_pattern(translate("*" if wildcard == "*.*" else wildcard.replace("[", "[[]")), IGNORECASE)


def is_in_use(directory: SimulatedDirectory) -> bool:
    """Return True if the directory, or anything below it, is open."""
    return bool(directory.holds) or any(
        is_in_use(node) if isinstance(node, SimulatedDirectory) else node.holds for node in directory.entries.values()
    )


def propagate_acl(entry: Entry) -> None:
    """Update the inherited entries of everything below an entry."""
    for below in entry.entries.values() if isinstance(entry, SimulatedDirectory) else ():
        if not below.protected:
            inherited = access.compute_inherited(entry.acl, below.owner, directory=not isinstance(below, SimulatedFile))
            below.acl = (*access.select_explicit(below.acl), *inherited)
            propagate_acl(below)
