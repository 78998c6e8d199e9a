"""Programs for access lists: icacls, regini, and what is asked of PowerShell's Get-Acl and Set-Acl.

An option that is not known here is an error, as it is where Windows does not know it. The one that works on whole trees (`/t`)
is not simulated: what it does with links is not documented.
"""

import re

from winsim import access
from winsim.access import ADMINISTRATORS, KEY_ALL, Ace
from winsim.filesystem import Entry, FileError, Junction, SimulatedDirectory, SimulatedFile
from winsim.processes import Invocation

_INVALID_PARAMETER = 87
_SDDL = re.compile(
    r"\$me = \(& \(\$env:SystemRoot \+ '\\System32\\whoami\.exe'\) /user /fo csv /nh\)\.Split\(','\)\[1\]\.Trim\(\[char\]34\); "
    r"if \(\(Get-Item -LiteralPath '([^']+)' -Force\)\.Attributes -match 'ReparsePoint' -or "
    r"\(Get-Acl -LiteralPath '\1'\)\.Sddl -notmatch \('([^']+)' \+ \$me \+ '([^']+)'\)\) \{ exit 1 \}"
)
_FILE_SDDL = re.compile(r"if \(\(Get-Acl -LiteralPath '([A-Z]:\\[^']+)'\)\.Sddl -notmatch '([^']+)'\) \{ exit 1 \}")
_KEY_SDDL = re.compile(r"if \(\(Get-Acl -LiteralPath 'HKLM:(\\[^']+)'\)\.Sddl -notmatch '([^']+)'\) \{ exit 1 \}")
_PROTECT = re.compile(
    r"\$ErrorActionPreference = 'Stop'; \$acl = New-Object -TypeName Security\.AccessControl\.RegistrySecurity; "
    r"\$acl\.SetSecurityDescriptorSddlForm\('(D:[^']+)', 'Access'\); Set-Acl -LiteralPath 'HKLM:(\\[^']+)' -AclObject \$acl"
)
_INI = re.compile(r"\\Registry\\Machine(\\[^\[\]]+?) \[([0-9 ]+)\]")
_REGINI = {
    "1": Ace(ADMINISTRATORS, KEY_ALL, access.CONTAINER_INHERIT),
    "17": Ace(access.SYSTEM, KEY_ALL, access.CONTAINER_INHERIT),
}
_LOCAL, _OF_DOMAIN = "S-1-5-21-1004336348-1177238915-682003330-500", "S-1-5-21-2127521184-1604012920-1887927527-1105"
"""The user who logs in: the built-in administrator, or one of a domain."""


async def icacls(call: Invocation) -> int:
    """`icacls PATH` alone, with `/save FILE`, `/restore FILE`, `/setowner SID`, `/reset`, or `/inheritance:r` and `/grant`."""
    words = [word for word in call.arguments if word.casefold() not in ("/q", "/c", "/l")]
    entry = _entry(call, words[0]) if words else None
    if entry is None:
        call.error("The system cannot find the file specified.\n")
        return 2
    options = [word.casefold() for word in words[1:]]
    try:
        match options:
            case []:
                call.out(access.listed(words[0], entry.acl))
            case ["/save", _]:
                present = access.sddl(entry.owner, entry.acl, protected=entry.protected).partition("D:")
                call.host.files.write(call.absolute(words[2]), f"{entry.name}\r\nD:{present[2]}\r\n".encode("utf-16-le"))
            case ["/restore", _]:
                _restore(call, entry, call.absolute(words[2]))
            case ["/setowner", owner]:
                call.host.files.set_access(entry, owner=_sid(owner))
            case ["/reset"]:
                call.host.files.set_access(entry, acl=(), protected=False)
            case _:
                _edit(call, entry, words[1:])
    except FileError as failure:
        call.error(f"{words[0]}: {failure}\n")
        return failure.code
    except ValueError as invalid:
        call.error(f'Invalid parameter "{invalid}"\n')
        return _INVALID_PARAMETER
    call.out("Successfully processed 1 files; Failed processing 0 files\n")
    return 0


def _edit(call: Invocation, entry: Entry, words: list[str]) -> None:
    acl, protected, mode = entry.acl, entry.protected, ""
    for word in words:
        option = word.casefold()
        if option == "/inheritance:r":
            acl, protected, mode = access.explicit(acl), True, ""
        elif option in ("/grant", "/grant:r"):
            mode = option
        elif mode and not word.startswith("/"):
            # that of two entries for one SID behind one /grant:r the second replaces the first is the worse reading
            acl = access.merged(acl, access.grant(word), replace=mode == "/grant:r")
        else:
            raise ValueError(word)
    call.host.files.set_access(entry, acl=acl, protected=protected)


def _entry(call: Invocation, path: str) -> Entry | None:
    return call.host.files.find(call.absolute(path))


def _sid(text: str) -> str:
    if not re.fullmatch(r"\*S-1(?:-\d+)+", text, re.IGNORECASE):
        raise ValueError(text)
    return text[1:].upper()


def _restore(call: Invocation, entry: Entry, file: str) -> None:
    """The saved list names a file without its directory; it is restored to the file of that name in the one given."""
    saved = call.host.files.read(file).decode("utf-16-le").splitlines()
    found = entry.entries.get(saved[0].upper()) if isinstance(entry, SimulatedDirectory) and saved else None
    if found is None:
        raise FileError(2)
    _, acl, protected = access.parsed(saved[1])
    call.host.files.set_access(found, acl=acl, protected=protected)


async def regini(call: Invocation) -> int:
    """`regini FILE` with lines `\\Registry\\Machine\\SOFTWARE\\x [1 17]`: each key alone gets that list."""
    file = call.host.files.find(call.absolute(call.arguments[0])) if len(call.arguments) == 1 else None
    if not isinstance(file, SimulatedFile):
        call.error("REGINI: unable to open the file\n")
        return 1
    for line in bytes(file.data).decode("utf-16").splitlines():
        found = _INI.fullmatch(line)
        if found is None or not set(found[2].split()) <= _REGINI.keys():
            call.error(f"REGINI: syntax error: {line}\n")
            return 1
        path = f"HKEY_LOCAL_MACHINE{found[1]}"
        call.host.keys.replace(path, tuple(_REGINI[number] for number in found[2].split()), call.host.registry)
    return 0


def get_acl(call: Invocation, text: str) -> int | None:
    """What a command of PowerShell with Get-Acl or Set-Acl answers; None where it is another command.

    Constrained Language Mode lets no method of .NET's other types be called (Microsoft: "about_Language_Modes").
    """
    constrained = call.host.constrained
    if asked := _SDDL.fullmatch(text):
        entry = call.host.files.entry(asked[1])
        if entry is None or isinstance(entry, Junction):
            return 1
        present = access.sddl(entry.owner, entry.acl, protected=entry.protected)
        return int(
            re.search(
                asked[2] + re.escape(_OF_DOMAIN if call.host.edition.domain else _LOCAL) + asked[3], present, re.IGNORECASE
            )
            is None
        )
    if asked := _FILE_SDDL.fullmatch(text):
        entry = call.host.files.entry(asked[1])
        present = access.sddl(entry.owner, entry.acl, protected=entry.protected) if entry else ""
        return int(re.search(asked[2], present, re.IGNORECASE) is None)
    if asked := _KEY_SDDL.fullmatch(text):
        path = f"HKEY_LOCAL_MACHINE{asked[1]}"
        return int(re.search(asked[2], call.host.keys.sddl(path), re.IGNORECASE) is None)
    if asked := _PROTECT.fullmatch(text):
        if constrained or call.host.registry.key(f"HKEY_LOCAL_MACHINE{asked[2]}") is None:
            return 1
        call.host.keys.protect(f"HKEY_LOCAL_MACHINE{asked[2]}", access.parsed(asked[1])[1])
        return 0
    return None
