"""Small programs: another cmd.exe, the host's name, a sleep, tasks, and the few commands that PowerShell is asked for.

Sources: Microsoft Learn, "schtasks create", "schtasks run", "schtasks query", "schtasks delete"; for local users
"New-LocalUser", "Add-LocalGroupMember", "Register-ScheduledTask", "Remove-LocalUser"; a user who logs in gets a profile,
`C:\\Users\\NAME` ("Win32_UserProfile").
"""

import hashlib
import re

from winsim import access
from winsim.computer import Invocation
from winsim.filesystem import FileError, SimulatedDirectory
from winsim.interpreter import Shell
from winsim.programs.powershell_sessions import run_session_command
from winsim.programs.security import run_acl_command
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


async def run_cmd(call: Invocation) -> int:
    """Run `cmd /d /c LINE`, or a line from standard input, in a process of its own."""
    if not call.rest.strip():
        return await _prompt(call)
    match = re.match(r"(?:\s*/(?:[dqsau]|[evf]:(?:on|off)))*\s*/c\s*(.*)", call.rest, re.IGNORECASE | re.DOTALL)
    if match is None:
        call.write_error("cmd.exe without /c is not simulated.\n")
        return 1
    shell = Shell(call.host, call.variables.copy(), call.cwd, call.streams, call.job)
    line = match[1].strip()
    return await shell.run(line if _is_quoted_program(shell, line) else _strip_outer_quotes(line))


async def _prompt(call: Invocation) -> int:
    """Run a line from standard input, with the banner and the prompt that cmd.exe prints without a console."""
    line, _, more = call.streams.input.decode("cp437").partition("\r\n")
    if more:
        call.write_error("More than one line is not simulated: Wine 8 reads one.\n")
        return 1
    shell = Shell(call.host, call.variables.copy(), call.cwd, call.streams, call.job)
    call.write_output(f"Microsoft Windows [Version 10.0.{call.host.edition.build}]\n\n{call.cwd}>")
    if not line.lstrip().startswith("@"):
        shell.write(f"{line}\r\n")
    code = await shell.run(line)
    call.write_output(f"\n{call.cwd}>")
    return code


def _is_quoted_program(shell: Shell, line: str) -> bool:
    # cmd /?: quotes stay where there are just two, with a blank and nothing special between them, that name a program
    _, _, rest = line.partition('"')
    inside, _, behind = rest.partition('"')
    plain = '"' not in behind and not re.search(r"[&<>()@^|]", line)
    return plain and line.startswith('"') and " " in inside and shell.find_program(inside)[0] is not None


def _strip_outer_quotes(line: str) -> str:
    if not line.startswith('"'):
        return line
    last = line.rfind('"')
    return line[1:last] + line[last + 1 :]


async def run_hostname(call: Invocation) -> int:
    """Print the host's name."""
    call.write_output(f"{call.host.name}\n")
    return 0


async def run_whoami(call: Invocation) -> int:
    """Print the host (or domain) and the user."""
    call.write_output(f"{(call.host.edition.domain or call.host.name).casefold()}\\{call.host.username.casefold()}\n")
    return 0


async def run_ping(call: Invocation) -> int:
    """Run `ping -n COUNT HOST`, with one second between replies."""
    words = [word.casefold() for word in call.arguments]
    place = next((words.index(switch) + 1 for switch in ("-n", "/n") if switch in words), 0)
    count = int(words[place]) if 0 < place < len(words) and words[place].isdigit() else 4
    await call.host.sleep(count - 1)
    call.write_output(
        f"\nPinging {words[-1]} with 32 bytes of data:\n" + f"Reply from {words[-1]}: bytes=32 time<1ms TTL=128\n" * count
    )
    return 0


async def run_powershell(call: Invocation) -> int:
    """Run a complete PowerShell command that Transom's scripts use; pass anything else to `host.powershell`.

    A misspelled command has no effect; tests compare these texts with what Windows has.
    """
    command = _TEXT.fullmatch(call.rest)
    if command is None and call.host.powershell is not None:
        return call.host.powershell(call)
    text = command[1] if command else ""
    if any(re.search(rf"\b{re.escape(name)}\b", text) for name in call.host.blocked):
        call.write_error(f"{text}: blocked by group policy.\n")
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
            call.write_error("Get-FileHash : The file cannot be read\n")
            return 0
        call.write_output(f"{hashlib.sha256(call.host.files.read(hashed[1])).hexdigest().upper()}\n")
        return 0
    for answering in (run_acl_command, run_local_user_command, run_session_command):
        if (answer := answering(call, text)) is not None:
            return answer
    call.host.unknown.append("powershell.exe")
    call.write_error("powershell.exe: this command is not simulated.\n")
    return 1


async def run_curl(call: Invocation) -> int:
    """Call the host's `fetch`; without it, fail as if no name can be resolved."""
    if call.host.fetch is None:
        call.write_error("curl: (6) Could not resolve host\n")
        return 6
    return call.host.fetch(call)


def run_local_user_command(call: Invocation, text: str) -> int | None:
    """Run a PowerShell command that creates or removes a local user; return None for any other command."""
    host = call.host
    if made := _MAKE.fullmatch(text):
        name, program, arguments, task, user = made.groups()
        if host.constrained or not host.makes_users or name != user or name in host.users:
            return 1
        sid = host.users[name] = f"S-1-5-21-1004336348-1177238915-682003330-{_FIRST_RID + len(host.users)}"
        host.tasks.register(Task(task, program, arguments, sid))
        profile = host.files.make_directory(rf"C:\Users\{name}")
        host.files.set_access(profile, acl=(*access.PERSONAL, access.parse_grant(f"*{sid}:(OI)(CI)F")), protected=True)
        return 0
    if removal := _REMOVE.fullmatch(text):
        directory = host.files.find(rf"C:\Users\{removal[1]}")
        if host.users.pop(removal[1], None) is not None and isinstance(directory, SimulatedDirectory):
            host.files.remove_tree(directory)
        return 0
    return None


async def run_schtasks(call: Invocation) -> int:
    """Run `schtasks` and return 0 or 1.

    `/create /tn NAME /xml FILE /f`, `/query /tn NAME`, `/run /tn NAME`, `/delete /tn NAME /f`.
    """
    words = [word.casefold() for word in call.arguments]
    tasks, name = call.host.tasks, _get_option(call, "/tn")
    if not tasks.runs:
        call.write_error(_REFUSED)
        return 1
    if not words or name is None:
        call.write_error("ERROR: Invalid syntax.\n")
        return 1
    if words[0] == "/create" and (file := _get_option(call, "/xml")) is not None and "/f" in words:
        try:
            tasks.create(name, call.host.files.read(call.resolve_path(file)))
        except (FileError, TaskError) as refused:
            call.write_error(f"ERROR: {refused}\n")
            return 1
        call.write_output(f'SUCCESS: The scheduled task "{name}" has successfully been created.\n')
        return 0
    task = tasks.find(name)
    if task is None:
        call.write_error(_MISSING)
        return 1
    match words[0]:
        case "/query":
            call.write_output(f"\nFolder: \\\nTaskName    Next Run Time    Status\n{task.name}    N/A    Ready\n")
        case "/run":
            tasks.run(task)
            call.write_output(f'SUCCESS: Attempted to run the scheduled task "{task.name}".\n')
        case "/delete" if "/f" in words:
            tasks.delete(name)
            call.write_output(f'SUCCESS: The scheduled task "{task.name}" was successfully deleted.\n')
        case _:
            call.write_error("ERROR: Invalid syntax.\n")
            return 1
    return 0


def _get_option(call: Invocation, option: str) -> str | None:
    words = call.arguments
    places = [place for place, word in enumerate(words[:-1]) if word.casefold() == option]
    return words[places[0] + 1] if places else None
