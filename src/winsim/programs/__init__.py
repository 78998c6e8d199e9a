"""The programs of `C:\\Windows\\System32`, each with the exit codes and the output of Windows'."""

from collections.abc import Awaitable, Callable

from winsim.processes import Invocation
from winsim.programs import registry, search, security, services, setup, system

Program = Callable[[Invocation], Awaitable[int]]

PROGRAMS: dict[str, Program] = {
    r"certutil.exe": setup.certutil,
    r"cmd.exe": system.cmd,
    r"curl.exe": system.curl,
    r"dism.exe": setup.dism,
    r"find.exe": search.find,
    r"findstr.exe": search.findstr,
    r"hostname.exe": system.hostname,
    r"icacls.exe": security.icacls,
    r"net.exe": services.net,
    r"netsh.exe": setup.netsh,
    r"ping.exe": system.ping,
    r"reg.exe": registry.reg,
    r"regini.exe": security.regini,
    r"sc.exe": services.sc,
    r"schtasks.exe": system.schtasks,
    r"shutdown.exe": setup.shutdown,
    r"whoami.exe": system.whoami,
    r"WindowsPowerShell\v1.0\powershell.exe": system.powershell,
}
