"""Somebody with an ordinary account on a host, who tries to have his scripts run, his files read, and our values shown."""

import random
from collections.abc import Callable, Iterator

from transom.windows.host.queries import LEDGER
from winsim import Host
from winsim.filesystem import FileError, Junction, SimulatedDirectory, SimulatedFile, list_entries
from winsim.users import OrdinaryUser

FORMER, BASE = r"C:\ProgramData\Transom", r"C:\Windows\Transom"
MARK = "OWNED"
SECRETS = ("hunter2", "hunter3")
PRECIOUS = r"C:\Users\Administrator\precious"
_MINE = r"C:\ProgramData\mine"
_AREAS = (FORMER, BASE, r"C:\k", r"C:\var", r"C:\tools")
_SCRIPT = b"@C:\\Windows\\System32\\hostname.exe OWNED\r\n" * 400
_CONTENTS = (_SCRIPT, b"99999999\r\n", b"transom-gather: g-00000000-1 3\r\n", b"")
_NAMES = ("generation", "lock", "gathered", "result.txt", "change.cmd", "change.reg", "install.reg", "acl", "state.txt")
_ENCODED = tuple(secret.encode(form) for secret in SECRETS for form in ("ascii", "utf-16-le"))


class Attacker:
    """He knows every name on the drive, and acts before any step of anybody else: at random, as his seed says."""

    def __init__(self, host: Host, seed: int) -> None:
        self.host, self.user = host, OrdinaryUser(host)
        self.random = random.Random(seed)
        self._reached: set[str] = set()
        # who breaks everything at once is noticed before he has anything
        self._haste = self.random.choice((0.02, 0.1, 0.6))
        self._moves: tuple[Callable[[str], None], ...] = (
            self._rewrite,
            self._replace,
            self._swap,
            self._link,
            self._plant,
            self._open,
            self._look,
            self._look,
        )
        host.files.make_directories(_MINE)
        host.files.set_access(host.files.get_directory(_MINE), owner=self.user.sid)
        host.files.make_directories(PRECIOUS)
        host.files.write(rf"{PRECIOUS}\thesis.txt", b"years of work")

    def act(self) -> None:
        """Do something, or nothing."""
        if self.random.random() < self._haste:
            self._try(self.random.choice(self._moves), self.random.choice(self._places()))

    def squat(self, place: str) -> None:
        """Make a directory before somebody else does, open to everybody, or a link."""
        if self.random.random() < 0.3:
            self._try(lambda path: self.user.make_junction(path, PRECIOUS), place)
        else:
            self._try(self.user.make_directory, place)
            self._try(self.user.open_to_all, place)

    def fooled(self) -> None:
        """A file of his was read as Transom's."""
        self._reached.add("had a file read as Transom's")

    def won(self) -> set[str]:
        """What he has reached by now."""
        run = {f"had {line!r} run" for line in self.host.processes if MARK in line}
        lost = set() if self.host.files.exists(rf"{PRECIOUS}\thesis.txt") else {"had somebody's files deleted"}
        return run | self._reached | lost

    def _try(self, move: Callable[[str], None], place: str) -> None:
        try:
            move(place)
        except FileError as denied:
            # 5 is the rule that is looked at; the others are what happens to honest programs, too
            assert denied.code in (2, 3, 5, 32, 80, 145, 183, 267)

    def _places(self) -> list[str]:
        found = [place for area in _AREAS for place in (area, *self._below(area))]
        return found + [f"{place}\\{name}" for place in (FORMER, BASE) for name in _NAMES]

    def _below(self, path: str) -> Iterator[str]:
        node = self.host.files.find_entry(path)
        for entry in list_entries(node) if isinstance(node, SimulatedDirectory) else ():
            yield f"{path}\\{entry.name}"
            yield from self._below(f"{path}\\{entry.name}")

    def _rewrite(self, path: str) -> None:
        if isinstance(self.host.files.find_entry(path), SimulatedDirectory | Junction):
            return
        self.user.write(path, self.random.choice(_CONTENTS))

    def _replace(self, path: str) -> None:
        if isinstance(self.host.files.find_entry(path), SimulatedFile):
            self.user.remove(path)
            self.user.write(path, _SCRIPT)

    def _swap(self, path: str) -> None:
        """A directory of his own in the place of another, with files of the same names."""
        directory = self.host.files.find_entry(path)
        if not isinstance(directory, SimulatedDirectory):
            return
        names = [entry.name for entry in list_entries(directory) if isinstance(entry, SimulatedFile)]
        self.user.rename(path, f"{_MINE}\\{self.random.randrange(10**9)}")
        self.user.make_directory(path)
        for name in names:
            self.user.write(f"{path}\\{name}", _SCRIPT)

    def _link(self, path: str) -> None:
        if self.host.files.find_entry(path) is not None:
            self.user.rename(path, f"{_MINE}\\{self.random.randrange(10**9)}")
        self.user.make_junction(path, PRECIOUS if self.random.random() < 0.5 else _MINE)

    def _plant(self, path: str) -> None:
        if self.random.random() < 0.3:
            self.user.make_directory(path)
        elif isinstance(self.host.files.find_entry(path), SimulatedDirectory):
            self.user.write(f"{path}\\{self.random.choice(_NAMES)}", self.random.choice(_CONTENTS))

    def _open(self, path: str) -> None:
        self.user.open_to_all(path)

    def _look(self, path: str) -> None:
        """For secrets, in a file and in the ledger."""
        keys = (LEDGER, *(key.path for key in self.host.registry.list_keys_below(LEDGER)))
        self._try(self._look_at_key, self.random.choice(keys))
        if isinstance(self.host.files.find_entry(path), SimulatedFile):
            data = self.user.read(path)
            self._reached |= {f"read {path}" for secret in _ENCODED if secret in data}

    def _look_at_key(self, path: str) -> None:
        key = self.user.read_key(path)
        for named in (key.values or {}).values() if key is not None else ():
            text = named.value.data.decode("utf-16-le", "replace")
            # what stood there before is kept as hex
            if any(secret in text or secret.encode("utf-16-le").hex() in text for secret in SECRETS):
                self._reached.add(f"read {path}")
