"""Access lists of registry keys. A key without a list of its own has what it inherits from the nearest one above it.

Source: [MS-DTYP] 2.5.3.4; a fresh Windows lets Users read below HKLM\\SOFTWARE and HKLM\\SYSTEM (`Get-Acl HKLM:\\SOFTWARE`).
"""

from typing import Final

from transom.windows.registry.registry import Registry
from winsim import access
from winsim.access import ADMINISTRATORS, CONTAINER_INHERIT, SYSTEM, USERS, Ace, Acl

ALL, READ = 0xF003F, 0x20019
_OPEN: Final[Acl] = (
    Ace(USERS, READ, CONTAINER_INHERIT),
    Ace(ADMINISTRATORS, ALL, CONTAINER_INHERIT),
    Ace(SYSTEM, ALL, CONTAINER_INHERIT),
)


class KeyAccess:
    """Who may read which key."""

    __slots__ = ("_acls",)

    def __init__(self) -> None:
        self._acls: dict[str, Acl] = {}

    def acl(self, path: str) -> Acl:
        """The list of a key, inherited entries marked."""
        folded = path.casefold()
        if folded in self._acls:
            return self._acls[folded]
        parent = folded.rpartition("\\")[0]
        return access.inherited(self.acl(parent) if parent else _OPEN, ADMINISTRATORS, directory=True)

    def allows(self, path: str, sids: frozenset[str]) -> bool:
        """Whether somebody may read a key."""
        return access.allows(self.acl(path), ADMINISTRATORS, sids, READ)

    def sddl(self, path: str) -> str:
        """The owner and the list in the language of security descriptors."""
        return access.sddl(ADMINISTRATORS, self.acl(path), protected=path.casefold() in self._acls, registry=True)

    def protect(self, path: str, acl: Acl) -> None:
        """Gives a key a list that inherits nothing; what lies below without a list of its own inherits it."""
        self._acls[path.casefold()] = acl

    def replace(self, path: str, acl: Acl, registry: Registry) -> None:
        """The same for this key alone: the keys that are below it already keep what they have."""
        for child in registry.children(path):
            below = f"{path}\\{child}"
            self._acls.setdefault(below.casefold(), self.acl(below))
        self._acls[path.casefold()] = acl

    def forget(self, registry: Registry) -> None:
        """Keys that are gone have no list any more."""
        for path in [path for path in self._acls if registry.key(path) is None]:
            del self._acls[path]
