"""What has a name on a drive: files, directories and junctions, each with its owner and access list."""

from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache
from re import IGNORECASE, Pattern
from re import compile as compile_pattern

from winsim import access
from winsim.access import ADMINISTRATORS, Acl

READ, WRITE = 1, 2
"""What an open file is opened for, and what it lets others do meanwhile. Nobody here lets others remove or rename it."""
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
    """Whether a file can be opened beside those that have it open. Raises FileError(32)."""
    if any(opened & ~theirs or others & ~share for others, theirs in file.opens):
        raise FileError(32)


def listed(directory: SimulatedDirectory) -> list[Entry]:
    """The entries in the order of NTFS: by name, without case."""
    return [directory.entries[name] for name in sorted(directory.entries)]


def files(directory: SimulatedDirectory, path: str = "C:") -> Iterator[tuple[str, SimulatedFile]]:
    """Every file below, with its path."""
    for node in listed(directory):
        place = f"{path}\\{node.name}"
        if isinstance(node, SimulatedDirectory):
            yield from files(node, place)
        elif isinstance(node, SimulatedFile):
            yield place, node


@lru_cache(maxsize=4096)
def parts(path: str) -> tuple[str, ...]:
    """The names of a path below C:\\, `.` and `..` resolved, blanks and dots at the end of a name dropped as Win32 does."""
    plain = path.replace("/", "\\")
    if plain[1:2] == ":":
        if plain[0] not in "cC":
            raise FileError(3)
        plain = plain[2:]
    found: list[str] = []
    for part in plain.split("\\"):
        if part == "..":
            del found[-1:]
        elif part != "." and (kept := part.rstrip(". ")):
            found.append(kept)
    return tuple(found)


@lru_cache(maxsize=256)
def pattern(wildcard: str) -> Pattern[str]:
    """The names that a last part with `*` and `?` fits."""
    return compile_pattern(translate("*" if wildcard == "*.*" else wildcard.replace("[", "[[]")), IGNORECASE)


def in_use(directory: SimulatedDirectory) -> bool:
    """Whether something has the directory, or anything below it, open."""
    return bool(directory.holds) or any(
        in_use(node) if isinstance(node, SimulatedDirectory) else node.holds for node in directory.entries.values()
    )


def inherit(entry: Entry) -> None:
    """Gives what lies below the access list that it inherits from here."""
    for below in entry.entries.values() if isinstance(entry, SimulatedDirectory) else ():
        if not below.protected:
            inherited = access.inherited(entry.acl, below.owner, directory=not isinstance(below, SimulatedFile))
            below.acl = (*access.explicit(below.acl), *inherited)
            inherit(below)
