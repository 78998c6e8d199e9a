"""The programs of `C:\\Windows\\System32`, each with the exit codes and the output of Windows'."""

from collections.abc import Awaitable, Callable

from winsim.computer import Invocation
from winsim.programs import registry, search, security, services, setup, system

Program = Callable[[Invocation], Awaitable[int]]

PROGRAMS: dict[str, Program] = {
    r"certutil.exe": setup.run_certutil,
    r"cmd.exe": system.run_cmd,
    r"curl.exe": system.run_curl,
    r"dism.exe": setup.run_dism,
    r"find.exe": search.run_find,
    r"findstr.exe": search.run_findstr,
    r"hostname.exe": system.run_hostname,
    r"icacls.exe": security.run_icacls,
    r"net.exe": services.run_net,
    r"netsh.exe": setup.run_netsh,
    r"ping.exe": system.run_ping,
    r"reg.exe": registry.run_reg,
    r"regini.exe": security.run_regini,
    r"sc.exe": services.run_sc,
    r"schtasks.exe": system.run_schtasks,
    r"shutdown.exe": setup.run_shutdown,
    r"whoami.exe": system.run_whoami,
    r"WindowsPowerShell\v1.0\powershell.exe": system.run_powershell,
}
