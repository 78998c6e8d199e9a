"""What PowerShell is asked for about local users: one is made with a task that runs as him, and both are removed.

Sources: Microsoft Learn, "New-LocalUser", "Add-LocalGroupMember", "Register-ScheduledTask", "Remove-LocalUser"; a user who logs
in gets a profile, `C:\\Users\\NAME` (Microsoft Learn, "Win32_UserProfile").
"""

import re

from winsim import access
from winsim.filesystem import SimulatedDirectory
from winsim.processes import Invocation
from winsim.tasks import Task

_MAKE = re.compile(
    r"\$ErrorActionPreference = 'Stop'; \$password = \[guid\]::NewGuid\(\)\.ToString\(\) \+ '\w+'; "
    r"\$user = New-LocalUser -Name '(\w+)' -Password \(ConvertTo-SecureString -String \$password -AsPlainText -Force\); "
    r"Add-LocalGroupMember -SID 'S-1-5-32-545' -Member \$user; Add-LocalGroupMember -SID 'S-1-5-32-559' -Member \$user; "
    r"\$action = New-ScheduledTaskAction -Execute '([^']+)' -Argument '([^']+)'; "
    r"Register-ScheduledTask -TaskName '(\w+)' -Action \$action -User \(\$env:COMPUTERNAME \+ '\\(\w+)'\) "
    r"-Password \$password \| Out-Null"
)
_REMOVE = re.compile(
    r"\$ErrorActionPreference = 'Stop'; \$user = Get-LocalUser -Name '(\w+)' -ErrorAction SilentlyContinue; "
    r"if \(\$user\) \{ Get-CimInstance -ClassName Win32_UserProfile \| Where-Object \{ \$_\.SID -eq \$user\.SID\.Value \} "
    r"\| Remove-CimInstance; Remove-LocalUser -SID \$user\.SID \}"
)
_FIRST_RID = 1002


def local_users(call: Invocation, text: str) -> int | None:
    """What one of these commands comes to; None where it is another command."""
    host = call.host
    if made := _MAKE.fullmatch(text):
        name, program, arguments, task, user = made.groups()
        if host.constrained or not host.makes_users or name != user or name in host.users:
            return 1
        sid = host.users[name] = f"S-1-5-21-1004336348-1177238915-682003330-{_FIRST_RID + len(host.users)}"
        host.tasks.enter(Task(task, program, arguments, sid))
        profile = host.files.make_directory(rf"C:\Users\{name}")
        host.files.set_access(profile, acl=(*access.PERSONAL, access.grant(f"*{sid}:(OI)(CI)F")), protected=True)
        return 0
    if gone := _REMOVE.fullmatch(text):
        found = host.files.find(rf"C:\Users\{gone[1]}")
        if host.users.pop(gone[1], None) is not None and isinstance(found, SimulatedDirectory):
            host.files.remove_tree(found)
        return 0
    return None
