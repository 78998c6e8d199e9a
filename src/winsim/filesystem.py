"""Drive C: of a host: names without case, open files and their sharing, access lists, and a disk that can be full."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import time

from winsim import access
from winsim.access import ADMINISTRATORS, Acl
from winsim.entries import (
    READ,
    WRITE,
    Entry,
    FileError,
    Junction,
    Node,
    SimulatedDirectory,
    SimulatedFile,
    build_pattern,
    is_in_use,
    iter_files,
    list_entries,
    propagate_acl,
    require_shared,
    split_path,
)

__all__ = [
    "READ",
    "WRITE",
    "Entry",
    "FileError",
    "FileSystem",
    "Handle",
    "Junction",
    "Node",
    "SimulatedDirectory",
    "SimulatedFile",
    "iter_files",
    "list_entries",
    "require_shared",
    "split_path",
]

_JUNCTIONS = 63  # that one path may go through (Microsoft: "Symbolic Link Effects on File Systems Functions")
_ENTRY = 1  # bytes of a file without content


class Handle:
    """An open file. Closing twice is harmless.

    Raises FileError(32) when one that is open does not let others do what this one is `opened` for, or does what this one
    does not `share` (Microsoft Learn, "CreateFileW", dwShareMode).

    When a handle closes that has written, NTFS sets the time of the file, whatever another handle has set meanwhile: [MS-FSA]
    2.1.4.17, Open.UserSetModificationTime; Microsoft Learn, "File Times".
    """

    __slots__ = ("_filesystem", "_open", "_rights", "_wrote", "file")

    def __init__(self, filesystem: "FileSystem", file: SimulatedFile, opened: int, share: int = READ | WRITE) -> None:
        require_shared(file, opened, share)
        self._filesystem, self.file, self._open, self._rights = filesystem, file, True, (opened, share)
        self._wrote = False
        file.holds += 1
        file.opens.append(self._rights)

    def write(self, data: bytes, offset: int | None = None) -> None:
        """Write at `offset`, at the end without one. Raises FileError(112) when the disk is full."""
        content = self.file.data
        start = len(content) if offset is None else offset
        self._filesystem.claim(max(0, start + len(data) - len(content)))
        if start > len(content):
            content.extend(bytes(start - len(content)))
        content[start : start + len(data)] = data
        self.mark_changed()

    def mark_changed(self) -> None:
        """Record that the content changed."""
        self._wrote = True
        self.file.version += 1
        self.file.modified = int(time())

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; nothing at the end."""
        return bytes(self.file.data[offset : offset + size])

    def close(self) -> None:
        """Let go of the file."""
        if self._open:
            self._open = False
            self.file.holds -= 1
            self.file.opens.remove(self._rights)
            if self._wrote:
                self.file.modified = int(time())
                self._filesystem.scanner(self.file)


_ACTOR: ContextVar[str | None] = ContextVar("actor", default=None)


class FileSystem:
    r"""A drive in memory. Paths are absolute, `C:\…` or `C:/…`; `\…` is on C: too.

    An administrator can do everything. The access lists define what an ordinary user (`act_as`) can do while `enforced` is
    True; anything else raises FileError(5). A user can pass through a directory without a right to it, as on Windows, where
    every user has the privilege to bypass traverse checking.
    """

    def __init__(self) -> None:
        self.root = SimulatedDirectory("C:")
        self.root.acl = access.ROOT
        self.free: int | None = None
        """Bytes that are left; None: as many as one wants."""
        self.enforced = True
        """Whether access lists are heeded."""
        self.user = ADMINISTRATORS
        """The SID that acts, and owns what is created, unless another one acts (`acting`)."""
        self.scanner: Callable[[SimulatedFile], object] = lambda _: None
        """Called for each file that was written, as soon as it is closed."""

    @contextmanager
    def act_as(self, sid: str) -> Iterator[None]:
        """Act as an ordinary user until the block ends; other tasks keep their own user."""
        before = _ACTOR.set(sid)
        try:
            yield
        finally:
            _ACTOR.reset(before)

    @property
    def actor(self) -> str:
        """Who acts now."""
        return _ACTOR.get() or self.user

    @property
    def sids(self) -> frozenset[str]:
        """The SIDs of the acting user, if that is not an administrator."""
        return frozenset((self.actor, access.USERS, access.AUTHENTICATED, access.EVERYONE))

    def has_access(self, entry: Entry, rights: int) -> bool:
        """Return True if the acting user has these rights."""
        if self.actor == ADMINISTRATORS or not self.enforced:
            return True
        return access.allows(entry.acl, entry.owner, self.sids, rights)

    def claim(self, size: int) -> None:
        """Reserve space on the disk. Raises FileError(112)."""
        if self.free is not None and size:
            if size > self.free:
                raise FileError(112)
            self.free -= size

    def find(self, path: str) -> Node | None:
        """Return the file or directory at `path`, or None; junctions are followed."""
        entry = self.find_entry(path)
        for _ in range(_JUNCTIONS):
            if not isinstance(entry, Junction):
                break
            entry = self.find_entry(entry.target)
        return entry if isinstance(entry, Node) else None

    def find_entry(self, path: str) -> Entry | None:
        """Return the entry at `path`, or None; a junction is not followed."""
        entry: Entry = self.root
        for part in split_path(path):
            if isinstance(entry, Junction):
                entry = self.find(entry.target) or entry
            child = entry.entries.get(part.upper()) if isinstance(entry, SimulatedDirectory) else None
            if child is None:
                return None
            entry = child
        return entry

    def exists(self, path: str) -> bool:
        """Return True if a file or directory exists at `path`."""
        return self.find(path) is not None

    def get_directory(self, path: str) -> SimulatedDirectory:
        """Return the directory at `path`. Raises FileError(3) or (267)."""
        node = self.find(path)
        if node is None:
            raise FileError(3)
        if isinstance(node, SimulatedFile):
            raise FileError(267)
        return node

    def get_file(self, path: str) -> SimulatedFile:
        """Return the file at `path`. Raises FileError(2), (3), or (5) for a directory."""
        parent, name = self._place(path)
        node = parent.entries.get(name.upper())
        if node is None:
            raise FileError(2)
        if not isinstance(node, SimulatedFile):
            raise FileError(5)
        return node

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises FileError(5) if the acting user cannot read it, (32) while it is open and not shared.
        """
        file = self.get_file(path)
        self._require(file, access.READ_DATA)
        require_shared(file, READ, READ | WRITE)
        return bytes(file.data)

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory. Raises FileError(5) if the acting user cannot list it."""
        directory = self.get_directory(path)
        self._require(directory, access.LIST)
        return [entry.name for entry in list_entries(directory)]

    def write(self, path: str, data: bytes) -> SimulatedFile:
        """Create or replace a file and its parent directories, to set up a host."""
        self.make_directories(path.rpartition("\\")[0])
        handle = self.open(path, truncate=True, share=READ | WRITE)
        handle.write(data)
        handle.close()
        return handle.file

    def open(
        self,
        path: str,
        *,
        opened: int = WRITE,
        create: bool = True,
        truncate: bool = False,
        new: bool = False,
        share: int = READ,
    ) -> Handle:
        """Open a file. `new`: it must not exist (80); `share`: see `Handle` (32)."""
        parent, name = self._place(path)
        node = parent.entries.get(name.upper())
        if node is not None and not isinstance(node, SimulatedFile):
            raise FileError(5)
        if node is not None and new:
            raise FileError(80)
        if node is not None:
            self._require(node, access.WRITE_DATA if opened & WRITE else access.READ_DATA)
        if node is None:
            if not create:
                raise FileError(2)
            self._require(parent, access.ADD_FILE)
            self.claim(_ENTRY)
            node = SimulatedFile(name)
            self._make(parent, node)
            return Handle(self, node, opened, share)
        handle = Handle(self, node, opened, share)
        if truncate:
            self._give_back(node)
            node.data = bytearray()
            handle.mark_changed()
        return handle

    def make_directory(self, path: str) -> SimulatedDirectory:
        """Create a directory. Raises FileError(183) if the name exists, (3) if the parent does not."""
        parent, name = self._place(path)
        if name.upper() in parent.entries:
            raise FileError(183)
        self._require(parent, access.ADD_SUBDIRECTORY)
        made = SimulatedDirectory(name)
        self._make(parent, made)
        return made

    def make_junction(self, path: str, target: str) -> Junction:
        """Create a junction to a directory, as `mklink /j` does; it needs the right to create directories."""
        parent, name = self._place(path)
        if name.upper() in parent.entries:
            raise FileError(183)
        self._require(parent, access.ADD_SUBDIRECTORY)
        made = Junction(name, target)
        self._make(parent, made)
        return made

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents, if they do not exist."""
        known = split_path(path)
        for depth in range(1, len(known) + 1):
            place = "C:\\" + "\\".join(known[:depth])
            if not self.exists(place):
                self.make_directory(place)

    def remove(self, node: Entry) -> None:
        """Remove a file, a junction or an empty directory.

        Raises FileError(32) if it is in use, (145) for a directory that is not empty, (5).
        """
        self._require_removable(node)
        if node.holds:
            raise FileError(32)
        if isinstance(node, SimulatedDirectory) and node.entries:
            raise FileError(145)
        if isinstance(node, SimulatedFile):
            self._give_back(node, _ENTRY)
        self._unlink(node)

    def remove_tree(self, directory: SimulatedDirectory) -> None:
        """Remove a directory and its content; junctions are not followed. Raises FileError(32) if something in use remains."""
        failed: FileError | None = None
        for node in list(directory.entries.values()):
            try:
                self.remove_tree(node) if isinstance(node, SimulatedDirectory) else self.remove(node)
            except FileError as error:
                failed = error
        if failed:
            raise failed
        self.remove(directory)

    def rename(self, node: Entry, path: str, *, replace: bool = False) -> None:
        """Move a file or a directory, with its access list.

        Raises FileError: 183 if the target exists and must not (or cannot) be replaced, 32 for a file in use, 5 for a
        directory in which something is in use.
        """
        parent, name = self._place(path)
        existing = parent.entries.get(name.upper())
        self._require_removable(node)
        self._require(parent, access.ADD_FILE if isinstance(node, SimulatedFile) else access.ADD_SUBDIRECTORY)
        if existing is not None and existing is not node:
            if not replace or not isinstance(existing, SimulatedFile):
                raise FileError(183)
            if existing.holds:
                raise FileError(5)
        if isinstance(node, SimulatedFile) and node.holds:
            raise FileError(32)
        if isinstance(node, SimulatedDirectory) and is_in_use(node):
            raise FileError(5)
        if isinstance(existing, SimulatedFile) and existing is not node:
            self.remove(existing)
        self._unlink(node)
        node.name = name
        self._link(parent, node)

    def set_access(
        self, entry: Entry, *, owner: str | None = None, acl: Acl | None = None, protected: bool | None = None
    ) -> None:
        """Set the owner, the explicit entries or the protection of an entry; everything below inherits again.

        Only the explicit entries of `acl` are used. Raises FileError(5).
        """
        self._require(entry, access.WRITE_DAC if owner is None else access.WRITE_OWNER)
        entry.owner = owner if owner is not None else entry.owner
        entry.protected = protected if protected is not None else entry.protected
        own = access.select_explicit(entry.acl if acl is None else acl)
        entry.acl = own if entry.protected else (*own, *self._compute_inherited(entry))
        propagate_acl(entry)

    def list_matching(self, path: str) -> list[tuple[str, Entry]]:
        """Return (path, node) of each entry that matches a path with `*` and `?` in its last part, sorted by name."""
        head, _, last = path.replace("/", "\\").rpartition("\\")
        if "*" not in last and "?" not in last:
            node = self.find_entry(path)
            return [(path, node)] if node else []
        directory = self.find(head + "\\")
        if not isinstance(directory, SimulatedDirectory):
            return []
        fits = build_pattern(last)
        return [(f"{head}\\{node.name}", node) for node in list_entries(directory) if fits.match(node.name)]

    def _place(self, path: str) -> tuple[SimulatedDirectory, str]:
        known = split_path(path)
        if not known:
            raise FileError(5)
        node = self.find("C:\\" + "\\".join(known[:-1]))
        if not isinstance(node, SimulatedDirectory):
            raise FileError(3)
        if any(letter in '<>:"|?*' or letter < " " for letter in known[-1]):
            raise FileError(123)
        return node, known[-1]

    def _require(self, entry: Entry, rights: int) -> None:
        if not self.has_access(entry, rights):
            raise FileError(5)

    def _require_removable(self, entry: Entry) -> None:
        if entry.parent is None or not (
            self.has_access(entry, access.DELETE) or self.has_access(entry.parent, access.DELETE_CHILD)
        ):
            raise FileError(5)

    def _compute_inherited(self, entry: Entry) -> Acl:
        above = entry.parent.acl if entry.parent is not None else ()
        return access.compute_inherited(above, entry.owner, directory=not isinstance(entry, SimulatedFile))

    def _make(self, parent: SimulatedDirectory, made: Entry) -> None:
        made.owner, made.modified = self.actor, int(time())
        self._link(parent, made)
        made.acl = self._compute_inherited(made)

    def _link(self, parent: SimulatedDirectory, node: Entry) -> None:
        parent.entries[node.name.upper()] = node
        node.parent = parent

    def _unlink(self, node: Entry) -> None:
        if node.parent is None:
            raise FileError(5)
        del node.parent.entries[node.name.upper()]
        node.parent = None

    def _give_back(self, file: SimulatedFile, entry: int = 0) -> None:
        if self.free is not None:
            self.free += len(file.data) + entry
