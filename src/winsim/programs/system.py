"""Small programs: another cmd.exe, the host's name, a sleep, tasks, and the few commands that PowerShell is asked for.

Sources: Microsoft Learn, "schtasks create", "schtasks run", "schtasks query", "schtasks delete"; for local users
"New-LocalUser", "Add-LocalGroupMember", "Register-ScheduledTask", "Remove-LocalUser"; a user who logs in gets a profile,
`C:\\Users\\NAME` ("Win32_UserProfile").
"""

import hashlib
import re

from winsim import access
from winsim.filesystem import FileError, SimulatedDirectory
from winsim.interpreter import Shell
from winsim.processes import Invocation
from winsim.programs.security import get_acl
from winsim.tasks import Task, TaskError

_RENAME = re.compile(r"Rename-Computer -NewName '([^']+)' -Force")
_PROCESSES = re.compile(r"Get-Process \| Where-Object \{ \$_\.Path -like '[^']+' \} \| Stop-Process -Force")
_NETWORK = re.compile(
    r"\$ErrorActionPreference = 'Stop'; if \(Get-Command -Name Get-HnsNetwork -ErrorAction SilentlyContinue\) "
    r"\{ Get-HnsNetwork \| Where-Object \{ \$_\.Name -eq '([^']+)' \} \| Remove-HnsNetwork \}"
)
_EXCLUSION = re.compile(
    r"if \(Get-Process -Name 'MsMpEng' -ErrorAction SilentlyContinue\) "
    r"\{ (Add|Remove)-MpPreference -ExclusionProcess '([^']+)' \}"
)
_HASH = re.compile(r"\(Get-FileHash -LiteralPath '([^']+)' -Algorithm SHA256\)\.Hash")
_TEXT = re.compile(r'(?:\s*-(?:NoProfile|NonInteractive))*\s+-Command\s+"(.*)"\s*')
"""What is handed to PowerShell itself, and not in a file."""
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
_REFUSED = "ERROR: The Task Scheduler service is not running.\n"
_MISSING = "ERROR: The system cannot find the file specified.\n"


async def cmd(call: Invocation) -> int:
    """`cmd /d /c LINE`, or a line on standard input: a command line carried out in a process of its own."""
    if not call.rest.strip():
        return await _prompt(call)
    found = re.match(r"(?:\s*/(?:[dqsau]|[evf]:(?:on|off)))*\s*/c\s*(.*)", call.rest, re.IGNORECASE | re.DOTALL)
    if found is None:
        call.error("cmd.exe without /c is not simulated.\n")
        return 1
    shell = Shell(call.host, call.variables.copy(), call.cwd, call.streams, call.job)
    line = found[1].strip()
    return await shell.run(line if _names_program(shell, line) else _unquoted(line))


async def _prompt(call: Invocation) -> int:
    """A prompt whose input is no console: it says who it is and where, before it reads."""
    line, _, more = call.streams.input.decode("cp437").partition("\r\n")
    if more:
        call.error("More than one line is not simulated: Wine 8 reads one.\n")
        return 1
    shell = Shell(call.host, call.variables.copy(), call.cwd, call.streams, call.job)
    call.out(f"Microsoft Windows [Version 10.0.{call.host.edition.build}]\n\n{call.cwd}>")
    if not line.lstrip().startswith("@"):
        shell.write(f"{line}\r\n")
    code = await shell.run(line)
    call.out(f"\n{call.cwd}>")
    return code


def _names_program(shell: Shell, line: str) -> bool:
    # cmd /?: quotes stay where there are just two, with a blank and nothing special between them, that name a program
    _, _, rest = line.partition('"')
    inside, _, behind = rest.partition('"')
    plain = '"' not in behind and not re.search(r"[&<>()@^|]", line)
    return plain and line.startswith('"') and " " in inside and shell.program(inside)[0] is not None


def _unquoted(line: str) -> str:
    if not line.startswith('"'):
        return line
    last = line.rfind('"')
    return line[1:last] + line[last + 1 :]


async def hostname(call: Invocation) -> int:
    """The host's name."""
    call.out(f"{call.host.name}\n")
    return 0


async def whoami(call: Invocation) -> int:
    """Host and user."""
    call.out(f"{(call.host.edition.domain or call.host.name).casefold()}\\{call.host.username.casefold()}\n")
    return 0


async def ping(call: Invocation) -> int:
    """`ping -n COUNT HOST`: a second between one and the next."""
    words = [word.casefold() for word in call.arguments]
    place = next((words.index(switch) + 1 for switch in ("-n", "/n") if switch in words), 0)
    count = int(words[place]) if 0 < place < len(words) and words[place].isdigit() else 4
    await call.host.sleep(count - 1)
    call.out(f"\nPinging {words[-1]} with 32 bytes of data:\n" + f"Reply from {words[-1]}: bytes=32 time<1ms TTL=128\n" * count)
    return 0


async def powershell(call: Invocation) -> int:
    """The commands of our scripts, each as a whole, and what the host's own says to a script.

    One that is misspelt has no effect: what Windows has is compared with the texts by tests.
    """
    command = _TEXT.fullmatch(call.rest)
    if command is None and call.host.powershell is not None:
        return call.host.powershell(call)
    text = command[1] if command else ""
    if any(re.search(rf"\b{re.escape(name)}\b", text) for name in call.host.blocked):
        call.error(f"{text}: blocked by group policy.\n")
        return 1
    if renamed := _RENAME.fullmatch(text):
        call.host.name_at_boot = renamed[1]
        return 0
    if _PROCESSES.fullmatch(text):
        # what runs there holds no file here
        return 0
    if network := _NETWORK.fullmatch(text):
        call.host.networks.discard(network[1])
        return 0
    if excluded := _EXCLUSION.fullmatch(text):
        if call.host.exclusions is not None:
            (call.host.exclusions.add if excluded[1] == "Add" else call.host.exclusions.discard)(excluded[2])
        return 0
    if hashed := _HASH.fullmatch(text):
        if call.host.unhashed:
            call.error("Get-FileHash : The file cannot be read\n")
            return 0
        call.out(f"{hashlib.sha256(call.host.files.read(hashed[1])).hexdigest().upper()}\n")
        return 0
    for answering in (get_acl, local_users):
        if (answer := answering(call, text)) is not None:
            return answer
    call.host.unknown.append("powershell.exe")
    call.error("powershell.exe: this command is not simulated.\n")
    return 1


async def curl(call: Invocation) -> int:
    """Fails as where no name can be resolved, unless the host's `fetch` says what a request brings."""
    if call.host.fetch is None:
        call.error("curl: (6) Could not resolve host\n")
        return 6
    return call.host.fetch(call)


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


async def schtasks(call: Invocation) -> int:
    """`schtasks /create /tn NAME /xml FILE /f`, `/query /tn NAME`, `/run /tn NAME`, `/delete /tn NAME /f`: 0 or 1."""
    words = [word.casefold() for word in call.arguments]
    tasks, name = call.host.tasks, _after(call, "/tn")
    if not tasks.runs:
        call.error(_REFUSED)
        return 1
    if not words or name is None:
        call.error("ERROR: Invalid syntax.\n")
        return 1
    if words[0] == "/create" and (file := _after(call, "/xml")) is not None and "/f" in words:
        try:
            tasks.create(name, call.host.files.read(call.absolute(file)))
        except (FileError, TaskError) as refused:
            call.error(f"ERROR: {refused}\n")
            return 1
        call.out(f'SUCCESS: The scheduled task "{name}" has successfully been created.\n')
        return 0
    task = tasks.find(name)
    if task is None:
        call.error(_MISSING)
        return 1
    match words[0]:
        case "/query":
            call.out(f"\nFolder: \\\nTaskName    Next Run Time    Status\n{task.name}    N/A    Ready\n")
        case "/run":
            tasks.run(task)
            call.out(f'SUCCESS: Attempted to run the scheduled task "{task.name}".\n')
        case "/delete" if "/f" in words:
            tasks.delete(name)
            call.out(f'SUCCESS: The scheduled task "{task.name}" was successfully deleted.\n')
        case _:
            call.error("ERROR: Invalid syntax.\n")
            return 1
    return 0


def _after(call: Invocation, option: str) -> str | None:
    words = call.arguments
    places = [place for place, word in enumerate(words[:-1]) if word.casefold() == option]
    return words[places[0] + 1] if places else None
