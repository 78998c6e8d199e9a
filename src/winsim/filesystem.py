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
    files,
    in_use,
    inherit,
    listed,
    parts,
    pattern,
    require_shared,
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
    "files",
    "listed",
    "parts",
    "require_shared",
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
        """Writes at `offset`, at the end without one. Raises FileError(112) when the disk is full."""
        content = self.file.data
        start = len(content) if offset is None else offset
        self._filesystem.claim(max(0, start + len(data) - len(content)))
        if start > len(content):
            content.extend(bytes(start - len(content)))
        content[start : start + len(data)] = data
        self.changed()

    def changed(self) -> None:
        """Notes that the content is another one."""
        self._wrote = True
        self.file.version += 1
        self.file.modified = int(time())

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; nothing at the end."""
        return bytes(self.file.data[offset : offset + size])

    def close(self) -> None:
        """Lets go of the file."""
        if self._open:
            self._open = False
            self.file.holds -= 1
            self.file.opens.remove(self._rights)
            if self._wrote:
                self.file.modified = int(time())
                self._filesystem.scanner(self.file)


_ACTOR: ContextVar[str | None] = ContextVar("actor", default=None)


class FileSystem:
    """Paths are `C:\\…` or `C:/…`, in full; `\\…` is on C: too. Everything is in memory.

    An administrator may do everything. What an ordinary user may (`acting`) is what the access lists say, as long as they are
    `enforced`: FileError(5) otherwise. That one can go through a directory without a right to it is as on Windows, where
    everybody has the privilege to bypass traverse checking.
    """

    def __init__(self) -> None:
        self.root = SimulatedDirectory("C:")
        self.root.acl = access.ROOT
        self.free: int | None = None
        """Bytes that are left; None: as many as one wants."""
        self.enforced = True
        """Whether access lists are heeded."""
        self.user = ADMINISTRATORS
        """Whose SID acts, and owns what is made, as long as nobody else does (`acting`)."""
        self.scanner: Callable[[SimulatedFile], object] = lambda _: None
        """Who is told of each file that was written, as soon as it is closed."""

    @contextmanager
    def acting(self, sid: str) -> Iterator[None]:
        """Lets somebody else act for a while, who is no administrator; what others do meanwhile, they do as themselves."""
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
        """All that who acts is, as long as he is no administrator."""
        return frozenset((self.actor, access.USERS, access.AUTHENTICATED, access.EVERYONE))

    def may(self, entry: Entry, rights: int) -> bool:
        """Whether who acts has these rights."""
        if self.actor == ADMINISTRATORS or not self.enforced:
            return True
        return access.allows(entry.acl, entry.owner, self.sids, rights)

    def claim(self, size: int) -> None:
        """Takes space on the disk. Raises FileError(112)."""
        if self.free is not None and size:
            if size > self.free:
                raise FileError(112)
            self.free -= size

    def find(self, path: str) -> Node | None:
        """What is at `path`, or None; where a junction is there, what it leads to."""
        entry = self.entry(path)
        for _ in range(_JUNCTIONS):
            if not isinstance(entry, Junction):
                break
            entry = self.entry(entry.target)
        return entry if isinstance(entry, Node) else None

    def entry(self, path: str) -> Entry | None:
        """What has this name, a junction as such, or None."""
        entry: Entry = self.root
        for part in parts(path):
            if isinstance(entry, Junction):
                entry = self.find(entry.target) or entry
            found = entry.entries.get(part.upper()) if isinstance(entry, SimulatedDirectory) else None
            if found is None:
                return None
            entry = found
        return entry

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        return self.find(path) is not None

    def directory(self, path: str) -> SimulatedDirectory:
        """The directory at `path`. Raises FileError(3) or (267)."""
        node = self.find(path)
        if node is None:
            raise FileError(3)
        if isinstance(node, SimulatedFile):
            raise FileError(267)
        return node

    def file(self, path: str) -> SimulatedFile:
        """The file at `path`. Raises FileError(2), (3), or (5) for a directory."""
        parent, name = self._place(path)
        node = parent.entries.get(name.upper())
        if node is None:
            raise FileError(2)
        if not isinstance(node, SimulatedFile):
            raise FileError(5)
        return node

    def read(self, path: str) -> bytes:
        """A file's content. Raises FileError(5) for who may not read it, (32) while it is open and not shared."""
        file = self.file(path)
        self._require(file, access.READ_DATA)
        require_shared(file, READ, READ | WRITE)
        return bytes(file.data)

    def names(self, path: str) -> list[str]:
        """What is in a directory. Raises FileError(5) for who may not list it."""
        directory = self.directory(path)
        self._require(directory, access.LIST)
        return [entry.name for entry in listed(directory)]

    def write(self, path: str, data: bytes) -> SimulatedFile:
        """Makes or replaces a file, its directories too; for setting a host up."""
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
        """Opens a file. `new`: it must not be there (80); `share`: as `Handle` says (32)."""
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
            handle.changed()
        return handle

    def make_directory(self, path: str) -> SimulatedDirectory:
        """Makes a directory, its parent being there. Raises FileError(183) when something is there, (3) without a parent."""
        parent, name = self._place(path)
        if name.upper() in parent.entries:
            raise FileError(183)
        self._require(parent, access.ADD_SUBDIRECTORY)
        made = SimulatedDirectory(name)
        self._make(parent, made)
        return made

    def make_junction(self, path: str, target: str) -> Junction:
        """Makes a directory's name that stands for another directory, as `mklink /j` does: who may make one may make this."""
        parent, name = self._place(path)
        if name.upper() in parent.entries:
            raise FileError(183)
        self._require(parent, access.ADD_SUBDIRECTORY)
        made = Junction(name, target)
        self._make(parent, made)
        return made

    def make_directories(self, path: str) -> None:
        """Makes a directory and those above it, where they are not there."""
        known = parts(path)
        for depth in range(1, len(known) + 1):
            place = "C:\\" + "\\".join(known[:depth])
            if not self.exists(place):
                self.make_directory(place)

    def remove(self, node: Entry) -> None:
        """Removes a file, a junction, or a directory that is empty. Raises FileError(32) when it is in use, (145), (5)."""
        self._require_removable(node)
        if node.holds:
            raise FileError(32)
        if isinstance(node, SimulatedDirectory) and node.entries:
            raise FileError(145)
        if isinstance(node, SimulatedFile):
            self._give_back(node, _ENTRY)
        self._unlink(node)

    def remove_tree(self, directory: SimulatedDirectory) -> None:
        """Removes a directory with all in it, junctions without what they lead to; what is in use stays: FileError(32)."""
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
        """Moves a file or a directory, with its access list.

        Raises FileError: 183 when the target is there and is not to be (or cannot be) replaced. 32 for a file in use, 5 for a
        directory in which something is in use.
        """
        parent, name = self._place(path)
        there = parent.entries.get(name.upper())
        self._require_removable(node)
        self._require(parent, access.ADD_FILE if isinstance(node, SimulatedFile) else access.ADD_SUBDIRECTORY)
        if there is not None and there is not node:
            if not replace or not isinstance(there, SimulatedFile):
                raise FileError(183)
            if there.holds:
                raise FileError(5)
        if isinstance(node, SimulatedFile) and node.holds:
            raise FileError(32)
        if isinstance(node, SimulatedDirectory) and in_use(node):
            raise FileError(5)
        if isinstance(there, SimulatedFile) and there is not node:
            self.remove(there)
        self._unlink(node)
        node.name = name
        self._link(parent, node)

    def set_access(
        self, entry: Entry, *, owner: str | None = None, acl: Acl | None = None, protected: bool | None = None
    ) -> None:
        """Gives something another owner, explicit entries, or another answer to inheritance; what lies below inherits anew.

        Of `acl` the explicit entries count. Raises FileError(5).
        """
        self._require(entry, access.WRITE_DAC if owner is None else access.WRITE_OWNER)
        entry.owner = owner if owner is not None else entry.owner
        entry.protected = protected if protected is not None else entry.protected
        own = access.explicit(entry.acl if acl is None else acl)
        entry.acl = own if entry.protected else (*own, *self._inherited(entry))
        inherit(entry)

    def matching(self, path: str) -> list[tuple[str, Entry]]:
        """What a path whose last part may have `*` and `?` names, as (path, node), in the order of names."""
        head, _, last = path.replace("/", "\\").rpartition("\\")
        if "*" not in last and "?" not in last:
            node = self.entry(path)
            return [(path, node)] if node else []
        directory = self.find(head + "\\")
        if not isinstance(directory, SimulatedDirectory):
            return []
        fits = pattern(last)
        return [(f"{head}\\{node.name}", node) for node in listed(directory) if fits.match(node.name)]

    def _place(self, path: str) -> tuple[SimulatedDirectory, str]:
        known = parts(path)
        if not known:
            raise FileError(5)
        node = self.find("C:\\" + "\\".join(known[:-1]))
        if not isinstance(node, SimulatedDirectory):
            raise FileError(3)
        if any(letter in '<>:"|?*' or letter < " " for letter in known[-1]):
            raise FileError(123)
        return node, known[-1]

    def _require(self, entry: Entry, rights: int) -> None:
        if not self.may(entry, rights):
            raise FileError(5)

    def _require_removable(self, entry: Entry) -> None:
        if entry.parent is None or not (self.may(entry, access.DELETE) or self.may(entry.parent, access.DELETE_CHILD)):
            raise FileError(5)

    def _inherited(self, entry: Entry) -> Acl:
        above = entry.parent.acl if entry.parent is not None else ()
        return access.inherited(above, entry.owner, directory=not isinstance(entry, SimulatedFile))

    def _make(self, parent: SimulatedDirectory, made: Entry) -> None:
        made.owner, made.modified = self.actor, int(time())
        self._link(parent, made)
        made.acl = self._inherited(made)

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
