"""What is to be read from a host: the questions of a gather, asked with as few processes as the answer needs."""

from collections.abc import Iterable

import msgspec

from transom.windows.registry.names import each_once

SYSTEM = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet"
SERVICES = SYSTEM + r"\Services"
ENVIRONMENT = SYSTEM + r"\Control\Session Manager\Environment"
BOOT = SYSTEM + r"\Control\Session Manager\Memory Management\PrefetchParameters"
"""Where Windows counts boots, in BootId. Known from forensic literature; no page of Microsoft promises it."""
BOOT_MARK = r"HKEY_LOCAL_MACHINE\HARDWARE\DESCRIPTION\System"
"""Where a value of ours, TransomBoot, is gone after a boot: Windows makes what is below HARDWARE anew each time, and keeps it
in memory alone (Microsoft Learn, "Registry Hives"). It is there where BootId is not."""
STORES = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates"
LEDGER = r"HKEY_LOCAL_MACHINE\SOFTWARE\Transom"
RESTARTS = LEDGER + r"\Restarts"
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
    """Full paths of further keys that are exported with all below them; one that is missing is no error."""
    walk: bool = False
    """Whether stores that lie below one key are read by one process, which walks all that is below it (`walks`)."""
    dependants: bool = False
    """Whether the DependOnService of every service is read (ObservedState.dependencies); a change makes it no other."""

    @classmethod
    def of(cls, asked: Iterable["Queries"]) -> "Queries":
        """All that several ask, each thing once; their `walk` does not count."""
        every = tuple(asked)
        return cls(
            services=each_once(name for one in every for name in one.services),
            environment=any(one.environment for one in every),
            boot=any(one.boot for one in every),
            stores=each_once(path for one in every for path in one.stores),
            keys=each_once(path for one in every for path in one.keys),
            dependants=any(one.dependants for one in every),
        )

    @property
    def walks(self) -> dict[str, tuple[str, ...]]:
        """The keys that are walked, each with those of `stores` that are read so. Certificates alone are found so."""
        found: dict[str, tuple[str, ...]] = {}
        for store in self.stores if self.walk else ():
            place, _, name = store.removesuffix(_CERTIFICATES).rpartition("\\")
            if store.endswith(_CERTIFICATES) and name and " " not in name:
                found[place] = (*found.get(place, ()), store)
        return {place: stores for place, stores in found.items() if len(stores) > 1}

    @property
    def processes(self) -> int:
        """How many a gather starts beside those for services."""
        walks = self.walks
        listed = len(self.stores) - sum(map(len, walks.values())) + len(walks)
        return 1 + self.environment + self.boot + self.dependants + listed + len(self.keys)
