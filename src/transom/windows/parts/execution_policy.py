"""The execution policies of Windows PowerShell that a host has in its registry, and whether they load a profile."""

from typing import Final

from transom.windows.registry.registry import Registry
from transom.windows.registry.values import ValueType

POLICY: Final = r"HKEY_LOCAL_MACHINE\SOFTWARE\Policies\Microsoft\Windows\PowerShell"
"""Where group policy has the execution policy, which overrides others: PowerShellExecutionPolicy.admx, EnableScripts."""
MACHINE: Final = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\PowerShell\1\ShellIds\Microsoft.PowerShell"
"""Where Set-ExecutionPolicy has that of the machine (Microsoft Learn, about_Execution_Policies). RemoteSigned, the default of
Windows Server, runs what was written on the host."""
KEYS: Final = (POLICY, MACHINE)
_UNLOADED: Final = ("restricted", "allsigned")


def find_group_policy(registry: Registry) -> str:
    """Return the execution policy of the scope MachinePolicy; empty: none, or it was not read."""
    enabled = registry.find_value(POLICY, "EnableScripts")
    if enabled is None or enabled.type != ValueType.DWORD:
        return ""
    return _find_text(registry, POLICY) if enabled.to_number() else "Restricted"


def find_machine_policy(registry: Registry) -> str:
    """Return the execution policy of the scope LocalMachine; empty: none, or it was not read."""
    return _find_text(registry, MACHINE)


def find_unloading_policy(registry: Registry) -> str:
    """Return the execution policy by which no unsigned profile is loaded; empty: none, or it was not read."""
    policy = find_group_policy(registry) or find_machine_policy(registry)
    return policy if is_unloading(policy) else ""


def is_unloading(policy: str) -> bool:
    """Return True if Windows PowerShell loads no unsigned profile by this policy."""
    return policy.casefold() in _UNLOADED


def _find_text(registry: Registry, path: str) -> str:
    value = registry.find_value(path, "ExecutionPolicy")
    return value.decode_text() if value is not None and value.type == ValueType.SZ else ""
