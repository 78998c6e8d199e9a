"""Small programs: another cmd.exe, the host's name, a sleep, access lists, and the one question asked of PowerShell."""

import re

from transom.simulator.filesystem import ADMINISTRATORS, Directory, File, Node
from transom.simulator.interpreter import Shell
from transom.simulator.processes import Invocation

_SYSTEM = "S-1-5-18"
_RENAME = re.compile(r"Rename-Computer -NewName '([^']+)' -Force")
_PROCESSES = re.compile(r"Get-Process \| Where-Object \{ \$_\.Path -like '[^']+' \} \| Stop-Process -Force")
_NETWORK = re.compile(r"Get-HnsNetwork \| Where-Object \{ \$_\.Name -eq '([^']+)' \} \| Remove-HnsNetwork")
_OWNER = re.compile(r"Get-Acl -LiteralPath '([^']+)'\)\.GetOwner\(", re.IGNORECASE)


async def cmd(call: Invocation) -> int:
    """`cmd /d /c LINE`: a command line carried out in a process of its own."""
    found = re.match(r"(?:\s*/(?:[dqsau]|[evf]:(?:on|off)))*\s*/c\s*(.*)", call.rest, re.IGNORECASE | re.DOTALL)
    if found is None:
        call.error("cmd.exe without /c is not simulated.\n")
        return 1
    shell = Shell(call.host, call.variables.copy(), call.cwd, call.streams, call.job)
    line = found[1].strip()
    return await shell.run(line if _names_program(shell, line) else _unquoted(line))


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
    call.out(f"{call.host.name.casefold()}\\{call.host.username.casefold()}\n")
    return 0


async def ping(call: Invocation) -> int:
    """`ping -n COUNT HOST`: a second between one and the next."""
    words = [word.casefold() for word in call.arguments]
    place = next((words.index(switch) + 1 for switch in ("-n", "/n") if switch in words), 0)
    count = int(words[place]) if 0 < place < len(words) and words[place].isdigit() else 4
    await call.host.sleep(count - 1)
    call.out(f"\nPinging {words[-1]} with 32 bytes of data:\n" + f"Reply from {words[-1]}: bytes=32 time<1ms TTL=128\n" * count)
    return 0


async def icacls(call: Invocation) -> int:
    """`icacls PATH /setowner SID`, `/inheritance:r`, `/grant:r SID:rights`, `/save FILE`, `/restore FILE`.

    What they say is in `owner` and `acl` of the file or directory.
    """
    words = call.arguments
    node = call.host.files.find(call.absolute(words[0])) if words else None
    if node is None:
        call.error("The system cannot find the file specified.\n")
        return 2
    if len(words) > 2 and words[1].casefold() in ("/save", "/restore"):
        return _saved(call, node, call.absolute(words[2]), restore=words[1].casefold() == "/restore")
    owner, acl, granting, at = node.owner, node.acl, False, 1
    while at < len(words):
        word = words[at].casefold()
        if word == "/setowner" and at + 1 < len(words):
            at += 1
            owner = words[at].removeprefix("*")
        elif word == "/inheritance:r":
            acl = ()
        elif word in ("/grant", "/grant:r"):
            granting = True
            acl = acl if word == "/grant" else ()
        elif granting and not word.startswith("/"):
            acl = (*acl, words[at])
        elif word not in ("/q", "/c", "/t"):
            call.error(f'Invalid parameter "{words[at]}"\n')
            return 87
        at += 1
    if not call.host.administrator and "/setowner" in (word.casefold() for word in words):
        call.error("This security ID may not be assigned as the owner of this object.\n")
        return 1307
    node.owner, node.acl = owner, acl
    call.out("Successfully processed 1 files; Failed processing 0 files\n")
    return 0


def _saved(call: Invocation, node: Node, file: str, *, restore: bool) -> int:
    """The saved list names a file without its directory; it is restored to the file of that name in the one given."""
    files = call.host.files
    if not restore:
        files.write(file, f"{node.name}\n{' '.join(node.acl)}\n".encode("utf-16"))
        return 0
    saved = files.find(file)
    name, *rest = bytes(saved.data).decode("utf-16").splitlines() if isinstance(saved, File) else ("",)
    found = node.entries.get(name.upper()) if isinstance(node, Directory) else None
    if found is None:
        call.error("The system cannot find the file specified.\n")
        return 2
    found.acl = tuple(rest[0].split())
    return 0


async def powershell(call: Invocation) -> int:
    """Whether a directory's owner is SYSTEM or Administrators, another name for the host, or what the host's own says."""
    asked = _OWNER.search(call.rest)
    if renamed := _RENAME.search(call.rest):
        call.host.name_at_boot = renamed[1]
        return 0
    if _PROCESSES.search(call.rest):
        # what runs there holds no file here
        return 0
    if network := _NETWORK.search(call.rest):
        call.host.networks.discard(network[1])
        return 0
    if asked is None and call.host.powershell is not None:
        return call.host.powershell(call)
    if asked is None:
        call.host.unknown.append("powershell.exe")
        call.error("powershell.exe: this command is not simulated.\n")
        return 1
    node = call.host.files.find(asked[1])
    return int(node is None or node.owner not in (_SYSTEM, ADMINISTRATORS))


async def curl(call: Invocation) -> int:
    """Fails as where no name can be resolved, unless the host's `fetch` says what a request brings."""
    if call.host.fetch is None:
        call.error("curl: (6) Could not resolve host\n")
        return 6
    return call.host.fetch(call)
