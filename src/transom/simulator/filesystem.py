"""Drive C: of a host: names without case, open files that cannot be replaced, owners, and a disk that can be full."""

from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache
from re import IGNORECASE, Pattern
from re import compile as compile_pattern
from time import time

ADMINISTRATORS = "S-1-5-32-544"
_ENTRY = 1  # bytes of a file without content

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


class File:
    """A file's content; `holds` counts what has it open, `writers` those that write."""

    __slots__ = ("acl", "data", "holds", "modified", "name", "owner", "parent", "writers")

    def __init__(self, name: str, data: bytes = b"") -> None:
        self.name, self.data = name, bytearray(data)
        self.parent: Directory | None = None
        self.owner = ADMINISTRATORS
        self.acl: tuple[str, ...] = ()
        self.holds = self.writers = self.modified = 0


class Directory:
    """A directory's entries; `holds` counts processes that have it as their current directory."""

    __slots__ = ("acl", "entries", "holds", "modified", "name", "owner", "parent")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: Directory | None = None
        self.entries: dict[str, Node] = {}
        self.owner = ADMINISTRATORS
        self.acl: tuple[str, ...] = ()
        self.holds = self.modified = 0


Node = File | Directory


class Handle:
    """An open file. Closing twice is harmless."""

    __slots__ = ("_filesystem", "_open", "_writes", "file")

    def __init__(self, filesystem: "FileSystem", file: File, *, writes: bool) -> None:
        self._filesystem, self.file, self._open, self._writes = filesystem, file, True, writes
        file.holds += 1
        file.writers += writes

    def write(self, data: bytes, offset: int | None = None) -> None:
        """Writes at `offset`, at the end without one. Raises FileError(112) when the disk is full."""
        held = self.file.data
        start = len(held) if offset is None else offset
        self._filesystem.claim(max(0, start + len(data) - len(held)))
        if start > len(held):
            held.extend(bytes(start - len(held)))
        held[start : start + len(data)] = data
        self.file.modified = int(time())

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; nothing at the end."""
        return bytes(self.file.data[offset : offset + size])

    def close(self) -> None:
        """Lets go of the file."""
        if self._open:
            self._open = False
            self.file.holds -= 1
            self.file.writers -= self._writes


class FileSystem:
    """Paths are `C:\\…` or `C:/…`, in full; `\\…` is on C: too. Everything is in memory."""

    def __init__(self) -> None:
        self.root = Directory("C:")
        self.free: int | None = None
        """Bytes that are left; None: as many as one wants."""

    def claim(self, size: int) -> None:
        """Takes space on the disk. Raises FileError(112)."""
        if self.free is not None and size:
            if size > self.free:
                raise FileError(112)
            self.free -= size

    def find(self, path: str) -> Node | None:
        """What is at `path`, or None."""
        node: Node = self.root
        for part in parts(path):
            if not isinstance(node, Directory):
                return None
            found = node.entries.get(part.upper())
            if found is None:
                return None
            node = found
        return node

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        return self.find(path) is not None

    def directory(self, path: str) -> Directory:
        """The directory at `path`. Raises FileError(3) or (267)."""
        node = self.find(path)
        if node is None:
            raise FileError(3)
        if isinstance(node, File):
            raise FileError(267)
        return node

    def file(self, path: str) -> File:
        """The file at `path`. Raises FileError(2), (3), or (5) for a directory."""
        parent, name = self._place(path)
        node = parent.entries.get(name.upper())
        if node is None:
            raise FileError(2)
        if isinstance(node, Directory):
            raise FileError(5)
        return node

    def read(self, path: str) -> bytes:
        """A file's content."""
        return bytes(self.file(path).data)

    def write(self, path: str, data: bytes) -> File:
        """Makes or replaces a file, its directories too; for setting a host up."""
        self.make_directories(path.rpartition("\\")[0])
        handle = self.open(path, truncate=True)
        handle.write(data)
        handle.close()
        return handle.file

    def open(
        self,
        path: str,
        *,
        write: bool = True,
        create: bool = True,
        truncate: bool = False,
        new: bool = False,
        share: bool = True,
    ) -> Handle:
        """Opens a file. `new`: it must not be there (80); without `share` nobody else may write it (32)."""
        parent, name = self._place(path)
        node = parent.entries.get(name.upper())
        if isinstance(node, Directory):
            raise FileError(5)
        if node is not None and new:
            raise FileError(80)
        if node is not None and not share and write and node.writers:
            raise FileError(32)
        if node is None:
            if not create:
                raise FileError(2)
            self.claim(_ENTRY)
            node = File(name)
            node.modified = int(time())
            self._link(parent, node)
        elif truncate:
            self._give_back(node)
            node.data = bytearray()
        return Handle(self, node, writes=write)

    def make_directory(self, path: str) -> Directory:
        """Makes a directory, its parent being there. Raises FileError(183) when something is there, (3) without a parent."""
        parent, name = self._place(path)
        if name.upper() in parent.entries:
            raise FileError(183)
        made = Directory(name)
        made.owner = parent.owner
        made.modified = int(time())
        self._link(parent, made)
        return made

    def make_directories(self, path: str) -> None:
        """Makes a directory and those above it, where they are not there."""
        known = parts(path)
        for depth in range(1, len(known) + 1):
            place = "C:\\" + "\\".join(known[:depth])
            if not self.exists(place):
                self.make_directory(place)

    def remove(self, node: Node) -> None:
        """Removes a file, or a directory that is empty. Raises FileError(32) when it is in use, (145)."""
        if node.holds:
            raise FileError(32)
        if isinstance(node, Directory) and node.entries:
            raise FileError(145)
        if isinstance(node, File):
            self._give_back(node, _ENTRY)
        self._unlink(node)

    def remove_tree(self, directory: Directory) -> None:
        """Removes a directory with all in it; what is in use stays, and is a FileError(32) at the end."""
        failed: FileError | None = None
        for node in list(directory.entries.values()):
            try:
                self.remove_tree(node) if isinstance(node, Directory) else self.remove(node)
            except FileError as error:
                failed = error
        if failed:
            raise failed
        self.remove(directory)

    def rename(self, node: Node, path: str, *, replace: bool = False) -> None:
        """Moves a file or a directory. Raises FileError(183) when the target is there and is not to be (or cannot be)
        replaced, (32) for a file in use, (5) for a directory in which something is in use.
        """
        parent, name = self._place(path)
        there = parent.entries.get(name.upper())
        if there is not None and there is not node:
            if not replace or isinstance(there, Directory):
                raise FileError(183)
            if there.holds:
                raise FileError(5)
        if isinstance(node, File) and node.holds:
            raise FileError(32)
        if isinstance(node, Directory) and _in_use(node):
            raise FileError(5)
        if isinstance(there, File) and there is not node:
            self.remove(there)
        self._unlink(node)
        node.name = name
        self._link(parent, node)

    def matching(self, path: str) -> list[tuple[str, Node]]:
        """What a path whose last part may have `*` and `?` names, as (path, node), in the order of names."""
        head, _, last = path.replace("/", "\\").rpartition("\\")
        if "*" not in last and "?" not in last:
            node = self.find(path)
            return [(path, node)] if node else []
        directory = self.find(head + "\\")
        if not isinstance(directory, Directory):
            return []
        fits = _pattern("*" if last == "*.*" else last)
        return [(f"{head}\\{node.name}", node) for node in listed(directory) if fits.match(node.name)]

    def _place(self, path: str) -> tuple[Directory, str]:
        known = parts(path)
        if not known:
            raise FileError(5)
        node: Node = self.root
        for part in known[:-1]:
            found = node.entries.get(part.upper()) if isinstance(node, Directory) else None
            if found is None:
                raise FileError(3)
            node = found
        if isinstance(node, File):
            raise FileError(3)
        if any(letter in '<>:"|?*' or letter < " " for letter in known[-1]):
            raise FileError(123)
        return node, known[-1]

    def _link(self, parent: Directory, node: Node) -> None:
        parent.entries[node.name.upper()] = node
        node.parent = parent

    def _unlink(self, node: Node) -> None:
        if node.parent is None:
            raise FileError(5)
        del node.parent.entries[node.name.upper()]
        node.parent = None

    def _give_back(self, file: File, entry: int = 0) -> None:
        if self.free is not None:
            self.free += len(file.data) + entry


def listed(directory: Directory) -> list[Node]:
    """The entries in the order of NTFS: by name, without case."""
    return [directory.entries[name] for name in sorted(directory.entries)]


def files(directory: Directory, path: str = "C:") -> Iterator[tuple[str, File]]:
    """Every file below, with its path."""
    for node in listed(directory):
        place = f"{path}\\{node.name}"
        if isinstance(node, Directory):
            yield from files(node, place)
        else:
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


def _in_use(directory: Directory) -> bool:
    return bool(directory.holds) or any(
        _in_use(node) if isinstance(node, Directory) else node.holds for node in directory.entries.values()
    )


@lru_cache(maxsize=256)
def _pattern(wildcard: str) -> Pattern[str]:
    return compile_pattern(translate(wildcard.replace("[", "[[]")), IGNORECASE)
