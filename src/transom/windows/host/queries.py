"""The queries of a gather on a host, answered with as few processes as possible."""

from collections.abc import Iterable

import msgspec

from transom.windows.registry.names import remove_duplicates

SYSTEM = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet"
SERVICES = SYSTEM + r"\Services"
ENVIRONMENT = SYSTEM + r"\Control\Session Manager\Environment"
BOOT = SYSTEM + r"\Control\Session Manager\Memory Management\PrefetchParameters"
"""Where Windows counts boots, in BootId. Known from forensic literature; no page of Microsoft promises it."""
BOOT_MARK = r"HKEY_LOCAL_MACHINE\HARDWARE\DESCRIPTION\System"
"""The key of Transom's value TransomBoot, which a reboot deletes: Windows creates HARDWARE at each start, and keeps it
in memory alone (Microsoft Learn, "Registry Hives"). It exists even if BootId does not."""
STORES = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates"
LEDGER = r"HKEY_LOCAL_MACHINE\SOFTWARE\Transom"
RESTARTS = LEDGER + r"\Restarts"
FILE_LIMIT = 2**20
"""Bytes of a file of `Queries.files`; a larger one is not read."""
_CERTIFICATES = r"\Certificates"


class Queries(msgspec.Struct, frozen=True):
    """What one gather reads. The ledger is always read, whole.

    Processes on the host: `processes`, and two for each service that exists (one for one that does not).
    """

    services: tuple[str, ...] = ()
    """Names of services whose key is exported and whose state is queried: letters, digits, `_`, `-`, `.` alone."""
    environment: bool = False
    """Whether the machine environment's key is exported."""
    boot: bool = False
    """Whether it is asked which boot this is (ObservedState.boot)."""
    stores: tuple[str, ...] = ()
    """Full paths of keys (`…\\ROOT\\Certificates`) whose subkeys are listed by name, their content not read."""
    keys: tuple[str, ...] = ()
    """Full paths of further keys that are exported with all below them; a missing one is not an error."""
    files: tuple[str, ...] = ()
    """Full paths of files whose bytes are read, without a process of their own; a missing one is not an error."""
    walk: bool = False
    """Whether stores that lie below one key are read by one process, which walks all that is below it (`walks`)."""
    dependants: bool = False
    """Whether the DependOnService of every service is read (ObservedState.dependencies); a change makes it no other."""

    @classmethod
    def merge(cls, queries: Iterable["Queries"]) -> "Queries":
        """Merge several queries and remove duplicates; their `walk` is ignored."""
        every = tuple(queries)
        return cls(
            services=remove_duplicates(name for item in every for name in item.services),
            environment=any(item.environment for item in every),
            boot=any(item.boot for item in every),
            stores=remove_duplicates(path for item in every for path in item.stores),
            keys=remove_duplicates(path for item in every for path in item.keys),
            files=remove_duplicates(path for item in every for path in item.files),
            dependants=any(item.dependants for item in every),
        )

    @property
    def walks(self) -> dict[str, tuple[str, ...]]:
        """The keys that are walked, each with those of `stores` that are read so. Certificates alone are found so."""
        result: dict[str, tuple[str, ...]] = {}
        for store in self.stores if self.walk else ():
            place, _, name = store.removesuffix(_CERTIFICATES).rpartition("\\")
            if store.endswith(_CERTIFICATES) and name and " " not in name:
                result[place] = (*result.get(place, ()), store)
        return {place: stores for place, stores in result.items() if len(stores) > 1}

    @property
    def processes(self) -> int:
        """The number of processes of a gather in addition to those for services."""
        walks = self.walks
        listed = len(self.stores) - sum(map(len, walks.values())) + len(walks)
        return 1 + self.environment + self.boot + self.dependants + listed + len(self.keys)
