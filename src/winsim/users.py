"""Somebody with an ordinary account on a host, at its console: what Windows lets him do, and nothing else."""

from transom.windows.registry import Key
from winsim import access
from winsim.entries import FileError
from winsim.filesystem import SimulatedDirectory
from winsim.host import ORDINARY, Host


class OrdinaryUser:
    """A member of Users. Everything raises FileError(5) where Windows says that access is denied."""

    def __init__(self, host: Host, sid: str = ORDINARY) -> None:
        self._host, self._files, self.sid = host, host.files, sid

    def read(self, path: str) -> bytes:
        """A file's content."""
        with self._files.acting(self.sid):
            return self._files.read(path)

    def names(self, path: str) -> list[str]:
        """What is in a directory."""
        with self._files.acting(self.sid):
            return self._files.names(path)

    def write(self, path: str, data: bytes) -> None:
        """Makes a file, or gives it other content."""
        with self._files.acting(self.sid):
            handle = self._files.open(path, truncate=True)
            handle.write(data)
            handle.close()

    def make_directory(self, path: str) -> None:
        """Makes a directory; where it lies, its maker gets the access that CREATOR OWNER has."""
        with self._files.acting(self.sid):
            self._files.make_directory(path)

    def make_junction(self, path: str, target: str) -> None:
        """`mklink /j`."""
        with self._files.acting(self.sid):
            self._files.make_junction(path, target)

    def remove(self, path: str) -> None:
        """Removes a file, a junction, or a directory with all in it."""
        with self._files.acting(self.sid):
            entry = self._files.entry(path)
            if entry is None:
                raise FileError(2)
            if isinstance(entry, SimulatedDirectory):
                self._files.remove_tree(entry)
            else:
                self._files.remove(entry)

    def rename(self, path: str, new: str) -> None:
        """Moves a file or a directory."""
        with self._files.acting(self.sid):
            entry = self._files.entry(path)
            if entry is None:
                raise FileError(2)
            self._files.rename(entry, new)

    def open_to_all(self, path: str) -> None:
        """Gives everybody full control of something and all below it; its owner may."""
        with self._files.acting(self.sid):
            entry = self._files.entry(path)
            if entry is None:
                raise FileError(2)
            everybody = access.grant("*S-1-1-0:(OI)(CI)F")
            self._files.set_access(entry, acl=(*entry.acl, everybody))

    def key(self, path: str) -> Key | None:
        """A registry key with its values, or None."""
        with self._files.acting(self.sid):
            if self._files.enforced and not self._host.keys.allows(path, self._files.sids):
                raise FileError(5)
        return self._host.registry.key(path)
