"""A user with an ordinary account on a host, at its console, with the rights that Windows gives."""

from transom.windows.registry.registry import Key
from winsim import access
from winsim.entries import FileError
from winsim.filesystem import SimulatedDirectory
from winsim.host import Host
from winsim.machine import ORDINARY


class OrdinaryUser:
    """A member of Users. Everything raises FileError(5) where Windows says that access is denied."""

    def __init__(self, host: Host, sid: str = ORDINARY) -> None:
        self._host, self._files, self.sid = host, host.files, sid

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self._files.act_as(self.sid):
            return self._files.read(path)

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        with self._files.act_as(self.sid):
            return self._files.list_names(path)

    def write(self, path: str, data: bytes) -> None:
        """Create a file or replace its content."""
        with self._files.act_as(self.sid):
            handle = self._files.open(path, truncate=True)
            handle.write(data)
            handle.close()

    def make_directory(self, path: str) -> None:
        """Create a directory; its creator gets the access of CREATOR OWNER in the parent's list."""
        with self._files.act_as(self.sid):
            self._files.make_directory(path)

    def make_junction(self, path: str, target: str) -> None:
        """`mklink /j`."""
        with self._files.act_as(self.sid):
            self._files.make_junction(path, target)

    def remove(self, path: str) -> None:
        """Remove a file, a junction, or a directory with its content."""
        with self._files.act_as(self.sid):
            entry = self._files.find_entry(path)
            if entry is None:
                raise FileError(2)
            if isinstance(entry, SimulatedDirectory):
                self._files.remove_tree(entry)
            else:
                self._files.remove(entry)

    def rename(self, path: str, new: str) -> None:
        """Move a file or a directory."""
        with self._files.act_as(self.sid):
            entry = self._files.find_entry(path)
            if entry is None:
                raise FileError(2)
            self._files.rename(entry, new)

    def open_to_all(self, path: str) -> None:
        """Give every user full control of an entry and everything below it, as its owner can."""
        with self._files.act_as(self.sid):
            entry = self._files.find_entry(path)
            if entry is None:
                raise FileError(2)
            everybody = access.parse_grant("*S-1-1-0:(OI)(CI)F")
            self._files.set_access(entry, acl=(*entry.acl, everybody))

    def read_key(self, path: str) -> Key | None:
        """Return a registry key with its values, or None."""
        with self._files.act_as(self.sid):
            if self._files.enforced and not self._host.keys.allows(path, self._files.sids):
                raise FileError(5)
        return self._host.registry.find_key(path)
