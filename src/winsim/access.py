"""Access lists as NTFS and the registry keep them: entries with rights and inheritance, and what they let a user do.

Sources: [MS-DTYP] 2.4.4.1 (flags of an entry), 2.5.3.2 (access check), 2.5.3.4 (what a new object inherits); Microsoft Learn,
"icacls" and "File Security and Access Rights". The lists of a fresh Windows Server are those that the Windows Server 2022 STIG
calls its defaults: WN22-00-000140 for the root of the system drive, WN22-00-000160 for the Windows directory. Entries that deny
are not simulated.
"""

import re
from typing import Final

import msgspec

from transom.windows.registry.names import FoldedDict
from transom.windows.registry.registry import Registry

SYSTEM, ADMINISTRATORS, USERS = "S-1-5-18", "S-1-5-32-544", "S-1-5-32-545"
CREATOR_OWNER, AUTHENTICATED, EVERYONE = "S-1-3-0", "S-1-5-11", "S-1-1-0"
TRUSTED_INSTALLER = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

READ_DATA = LIST = 0x1
WRITE_DATA = ADD_FILE = 0x2
APPEND_DATA = ADD_SUBDIRECTORY = 0x4
DELETE_CHILD = 0x40
DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER = 0x10000, 0x20000, 0x40000, 0x80000
FULL, MODIFY, READ_EXECUTE = 0x1F01FF, 0x1301BF, 0x1200A9

OBJECT_INHERIT, CONTAINER_INHERIT, NO_PROPAGATE, INHERIT_ONLY, INHERITED = 1, 2, 4, 8, 16
_BELOW = OBJECT_INHERIT | CONTAINER_INHERIT

# the letters of the simple rights that icacls takes without parentheses, and of those that are listed in them
_SIMPLE = {"F": FULL, "M": MODIFY, "RX": READ_EXECUTE, "R": 0x120089, "W": 0x100116, "D": DELETE}
_SPECIFIC = {"DE": DELETE, "RC": READ_CONTROL, "WDAC": WRITE_DAC, "WO": WRITE_OWNER, "RD": READ_DATA, "WD": WRITE_DATA}
_SPECIFIC |= {"AD": APPEND_DATA, "DC": DELETE_CHILD, "GA": FULL, "GR": 0x120089, "GE": 0x1200A0, "S": 0x100000}
_FLAGS = {"OI": OBJECT_INHERIT, "CI": CONTAINER_INHERIT, "NP": NO_PROPAGATE, "IO": INHERIT_ONLY}
_SDDL_FLAGS = _FLAGS | {"ID": INHERITED}
_SDDL_SIDS = {"SY": SYSTEM, "BA": ADMINISTRATORS, "BU": USERS, "CO": CREATOR_OWNER, "AU": AUTHENTICATED, "WD": EVERYONE}
_SDDL_RIGHTS = {"FA": FULL, "KA": 0xF003F, "KR": 0x20019}

_GRANT = re.compile(r"\*(S-1(?:-\d+)+):((?:\((?:OI|CI|NP|IO)\))*)(?:([A-Z]+)|\(([A-Z,]+)\))", re.IGNORECASE)
_ACE = re.compile(r"\(A;([A-Z]*);([A-Z]+|0x[0-9a-f]+);;;([^;()]+)\)")
_SDDL = re.compile(r"(?:O:(?P<owner>[^:()]+?)(?=G:|D:|$))?(?:G:[^:()]+?(?=D:|$))?D:(?P<flags>[A-Z]*)(?P<aces>(?:\([^()]*\))*)")


class Ace(msgspec.Struct, frozen=True):
    """An access-allowed entry: its account, its access mask, and where below it applies (the flags of its header)."""

    sid: str
    rights: int
    flags: int = 0


Acl = tuple[Ace, ...]


def allows(acl: Acl, owner: str, sids: frozenset[str], rights: int) -> bool:
    """Return True if a user with all of `sids` gets all of `rights`.

    An owner can always read and write the list itself.
    """
    granted = READ_CONTROL | WRITE_DAC if owner in sids else 0
    for ace in acl:
        if ace.sid in sids and not ace.flags & INHERIT_ONLY:
            granted |= ace.rights
    return granted & rights == rights


def compute_inherited(parent: Acl, owner: str, *, directory: bool) -> Acl:
    """Return the access list that a new file or directory of `owner` inherits from its parent directory."""
    entries: list[Ace] = []
    for ace in parent:
        below = ace.flags & _BELOW if not ace.flags & NO_PROPAGATE else 0
        if not directory:
            effective, kept = bool(ace.flags & OBJECT_INHERIT), 0
        else:
            effective, kept = bool(ace.flags & CONTAINER_INHERIT), below
        creator = ace.sid == CREATOR_OWNER
        if effective:
            entries.append(Ace(owner if creator else ace.sid, ace.rights, INHERITED | (0 if creator else kept)))
        if kept and (creator or not effective):
            entries.append(Ace(ace.sid, ace.rights, INHERITED | INHERIT_ONLY | kept))
    return tuple(entries)


def select_explicit(acl: Acl) -> Acl:
    """Return the entries that were not inherited."""
    return tuple(ace for ace in acl if not ace.flags & INHERITED)


def parse_grant(text: str) -> Ace:
    """Parse an argument of icacls `/grant`: `*SID:(OI)(CI)F`, `*SID:(CI)(IO)(AD,WD)`. Raises ValueError."""
    match = _GRANT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    flags = sum({_FLAGS[flag] for flag in re.findall("[A-Z]+", match[2].upper())})
    if match[3] is not None:
        return Ace(match[1], _get_mask(_SIMPLE, match[3]), flags)
    rights = 0
    for name in match[4].split(","):
        rights |= _get_mask(_SIMPLE | _SPECIFIC, name)
    return Ace(match[1], rights, flags)


def _get_mask(names: dict[str, int], name: str) -> int:
    if name.upper() not in names:
        raise ValueError(name)
    return names[name.upper()]


def merge_entry(acl: Acl, granted: Ace, *, replace: bool) -> Acl:
    """Return the list with one more entry, explicit entries first.

    With `replace`, the entry replaces all explicit entries of its SID.
    """
    own = [ace for ace in select_explicit(acl) if ace != granted and not (replace and ace.sid == granted.sid)]
    return (*own, granted, *(ace for ace in acl if ace.flags & INHERITED))


def render_sddl(owner: str, acl: Acl, *, protected: bool, registry: bool = False) -> str:
    """Render an owner and an access list in SDDL, as Windows does ([MS-DTYP] 2.5.1)."""
    names = {sid: short for short, sid in _SDDL_SIDS.items()}
    rights = {0xF003F: "KA", 0x20019: "KR"} if registry else {FULL: "FA"}
    aces = "".join(
        f"(A;{''.join(name for name, flag in _SDDL_FLAGS.items() if ace.flags & flag)};"
        f"{rights.get(ace.rights, hex(ace.rights))};;;{names.get(ace.sid, ace.sid)})"
        for ace in acl
    )
    return f"O:{names.get(owner, owner)}G:SYD:{'P' if protected else ''}AI{aces}"


def parse_sddl(text: str) -> tuple[str | None, Acl, bool]:
    """Parse the output of `render_sddl`. Raises ValueError.

    Returns the owner (or None), the access list, and True if the list is protected.
    """
    match = _SDDL.fullmatch(text)
    aces = re.findall(r"\([^()]*\)", match["aces"]) if match else []
    entries = [_ACE.fullmatch(ace) for ace in aces]
    if match is None or not all(entries):
        raise ValueError(text)
    acl = tuple(
        Ace(
            _SDDL_SIDS.get(entry[3], entry[3]),
            int(entry[2], 16) if entry[2].startswith("0x") else _get_mask(_SDDL_RIGHTS, entry[2]),
            sum({_SDDL_FLAGS[flag] for flag in re.findall("..", entry[1])}),
        )
        for entry in entries
        if entry
    )
    owner = match["owner"]
    return (_SDDL_SIDS.get(owner, owner) if owner else None), acl, "P" in match["flags"]


def format_acl(path: str, acl: Acl) -> str:
    """Format an access list as icacls prints it, with the account names of an English Windows."""
    names = {
        SYSTEM: r"NT AUTHORITY\SYSTEM",
        ADMINISTRATORS: r"BUILTIN\Administrators",
        USERS: r"BUILTIN\Users",
        CREATOR_OWNER: "CREATOR OWNER",
    }
    letters = {mask: name for name, mask in _SIMPLE.items()}
    lines = []
    for ace in acl:
        flags = "(I)" if ace.flags & INHERITED else ""
        flags += "".join(f"({name})" for name, flag in _FLAGS.items() if ace.flags & flag)
        specific = ",".join(name for name, mask in _SPECIFIC.items() if ace.rights & mask == mask)
        lines.append(f"{names.get(ace.sid, ace.sid)}:{flags}({letters.get(ace.rights, specific)})")
    return path + " " + f"\n{' ' * (len(path) + 1)}".join(lines) + "\n\n"


def _list(*entries: tuple[str, int, int]) -> Acl:
    return tuple(Ace(*entry) for entry in entries)


ROOT: Final = _list(
    (SYSTEM, FULL, _BELOW),
    (ADMINISTRATORS, FULL, _BELOW),
    (USERS, READ_EXECUTE, _BELOW),
    (USERS, ADD_SUBDIRECTORY, CONTAINER_INHERIT),
    (USERS, ADD_FILE, CONTAINER_INHERIT | INHERIT_ONLY),
    (CREATOR_OWNER, FULL, _BELOW | INHERIT_ONLY),
)
"""Of C:\\ (WN22-00-000140)."""
PROTECTED: Final = _list(
    (TRUSTED_INSTALLER, FULL, 0),
    (TRUSTED_INSTALLER, FULL, CONTAINER_INHERIT | INHERIT_ONLY),
    (SYSTEM, MODIFY, 0),
    (SYSTEM, FULL, _BELOW | INHERIT_ONLY),
    (ADMINISTRATORS, MODIFY, 0),
    (ADMINISTRATORS, FULL, _BELOW | INHERIT_ONLY),
    (USERS, READ_EXECUTE, _BELOW),
    (CREATOR_OWNER, FULL, _BELOW | INHERIT_ONLY),
)
"""Of C:\\Windows and C:\\Program Files (WN22-00-000160, WN22-00-000150), without the packages of applications."""
PROGRAM_DATA: Final = _list(
    (SYSTEM, FULL, _BELOW),
    (ADMINISTRATORS, FULL, _BELOW),
    (CREATOR_OWNER, FULL, _BELOW | INHERIT_ONLY),
    (USERS, READ_EXECUTE, _BELOW),
    (USERS, ADD_FILE | ADD_SUBDIRECTORY, CONTAINER_INHERIT),
)
"""Of C:\\ProgramData, as icacls prints it on a fresh server: everybody may make files and directories there."""
PERSONAL: Final = _list((SYSTEM, FULL, _BELOW), (ADMINISTRATORS, FULL, _BELOW))
"""Of a user's home directory, but for the user; of C:\\ProgramData\\ssh."""


KEY_ALL, KEY_READ = 0xF003F, 0x20019
_OPEN: Final[Acl] = (
    Ace(USERS, KEY_READ, CONTAINER_INHERIT),
    Ace(ADMINISTRATORS, KEY_ALL, CONTAINER_INHERIT),
    Ace(SYSTEM, KEY_ALL, CONTAINER_INHERIT),
)


class KeyAccess:
    """Who may read which registry key. A key without a list of its own has what it inherits from the nearest one above it.

    A fresh Windows lets Users read below HKLM\\SOFTWARE and HKLM\\SYSTEM (`Get-Acl HKLM:\\SOFTWARE`).
    """

    __slots__ = ("_acls",)

    def __init__(self) -> None:
        self._acls = FoldedDict[Acl]()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyAccess) and self._acls == other._acls

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "KeyAccess":
        """Return a copy of the access lists, to restore a host later."""
        made = KeyAccess()
        made._acls = FoldedDict(self._acls)
        return made

    def get_acl(self, path: str) -> Acl:
        """Return the access list of a key, with inherited entries marked."""
        if path in self._acls:
            return self._acls[path]
        parent = path.rpartition("\\")[0]
        return compute_inherited(self.get_acl(parent) if parent else _OPEN, ADMINISTRATORS, directory=True)

    def allows(self, path: str, sids: frozenset[str]) -> bool:
        """Return True if a user with these SIDs can read a key."""
        return allows(self.get_acl(path), ADMINISTRATORS, sids, KEY_READ)

    def render_sddl(self, path: str) -> str:
        """Render the owner and the access list of a key in SDDL."""
        return render_sddl(ADMINISTRATORS, self.get_acl(path), protected=path in self._acls, registry=True)

    def protect(self, path: str, acl: Acl) -> None:
        """Set an access list that inherits nothing; keys below without their own list inherit it."""
        self._acls[path] = acl

    def replace(self, path: str, acl: Acl, registry: Registry) -> None:
        """Set an access list for this key alone; existing keys below keep their effective lists."""
        for child in registry.list_children(path):
            below = f"{path}\\{child}"
            self._acls.setdefault(below, self.get_acl(below))
        self._acls[path] = acl

    def forget(self, registry: Registry) -> None:
        """Keys that are gone have no list any more."""
        for path in [path for path in self._acls if registry.find_key(path) is None]:
            del self._acls[path]
