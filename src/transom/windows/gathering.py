"""What is to be read from a host: the questions of a gather, asked with as few processes as the answer needs."""

import msgspec

SYSTEM = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet"
SERVICES = SYSTEM + r"\Services"
ENVIRONMENT = SYSTEM + r"\Control\Session Manager\Environment"
BOOT = SYSTEM + r"\Control\Session Manager\Memory Management\PrefetchParameters"
STORES = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates"
LEDGER = r"HKEY_LOCAL_MACHINE\SOFTWARE\Transom"
RESTARTS = LEDGER + r"\Restarts"


class Questions(msgspec.Struct, frozen=True):
    """What one gather reads. The ledger is always read, whole.

    Processes on the host: one for the ledger, one each for `environment`, `boot`, `dependants`, each of `stores` and of
    `keys`, and two for each service that exists (one for one that does not).
    """

    services: tuple[str, ...] = ()
    """Names of services whose key is exported and whose state is queried: letters, digits, `_`, `-`, `.` alone."""
    environment: bool = False
    """Whether the machine environment's key is exported."""
    boot: bool = False
    """Whether BootId is read (HostState.boot)."""
    stores: tuple[str, ...] = ()
    """Full paths of keys (`…\\ROOT\\Certificates`) whose subkeys are listed by name, their content not read."""
    keys: tuple[str, ...] = ()
    """Full paths of further keys that are exported with all below them; one that is missing is no error."""
    dependants: bool = False
    """Whether the DependOnService of every service is read (HostState.dependencies)."""
