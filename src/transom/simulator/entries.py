"""What has a name on a drive: files, directories and junctions, each with its owner and access list."""

from transom.simulator.access import ADMINISTRATORS, Acl

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
