"""Programs for access lists: icacls, regini, and what is asked of PowerShell's Get-Acl and Set-Acl.

An option that is not known here is an error, as it is where Windows does not know it. The one that works on whole trees (`/t`)
is not simulated: what it does with links is not documented.
"""

import re

from winsim import access
from winsim.access import ADMINISTRATORS, KEY_ALL, Ace
from winsim.computer import Invocation
from winsim.filesystem import Entry, FileError, Junction, SimulatedDirectory, SimulatedFile

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


async def run_icacls(call: Invocation) -> int:
    """Run `icacls PATH [OPTION …]`.

    Options: `/save FILE`, `/restore FILE`, `/setowner SID`, `/reset`, or `/inheritance:r` and `/grant`.
    """
    words = [word for word in call.arguments if word.casefold() not in ("/q", "/c", "/l")]
    entry = _find_entry(call, words[0]) if words else None
    if entry is None:
        call.write_error("The system cannot find the file specified.\n")
        return 2
    options = [word.casefold() for word in words[1:]]
    try:
        match options:
            case []:
                call.write_output(access.format_acl(words[0], entry.acl))
            case ["/save", _]:
                present = access.render_sddl(entry.owner, entry.acl, protected=entry.protected).partition("D:")
                call.host.files.write(call.resolve_path(words[2]), f"{entry.name}\r\nD:{present[2]}\r\n".encode("utf-16-le"))
            case ["/restore", _]:
                _restore(call, entry, call.resolve_path(words[2]))
            case ["/setowner", owner]:
                call.host.files.set_access(entry, owner=_parse_sid(owner))
            case ["/reset"]:
                call.host.files.set_access(entry, acl=(), protected=False)
            case _:
                _edit(call, entry, words[1:])
    except FileError as failure:
        call.write_error(f"{words[0]}: {failure}\n")
        return failure.code
    except ValueError as invalid:
        call.write_error(f'Invalid parameter "{invalid}"\n')
        return _INVALID_PARAMETER
    call.write_output("Successfully processed 1 files; Failed processing 0 files\n")
    return 0


def _edit(call: Invocation, entry: Entry, words: list[str]) -> None:
    acl, protected, mode = entry.acl, entry.protected, ""
    for word in words:
        option = word.casefold()
        if option == "/inheritance:r":
            acl, protected, mode = access.select_explicit(acl), True, ""
        elif option in ("/grant", "/grant:r"):
            mode = option
        elif mode and not word.startswith("/"):
            # that of two entries for one SID behind one /grant:r the second replaces the first is the worse reading
            acl = access.merge_entry(acl, access.parse_grant(word), replace=mode == "/grant:r")
        else:
            raise ValueError(word)
    call.host.files.set_access(entry, acl=acl, protected=protected)


def _find_entry(call: Invocation, path: str) -> Entry | None:
    return call.host.files.find(call.resolve_path(path))


def _parse_sid(text: str) -> str:
    if not re.fullmatch(r"\*S-1(?:-\d+)+", text, re.IGNORECASE):
        raise ValueError(text)
    return text[1:].upper()


def _restore(call: Invocation, entry: Entry, file: str) -> None:
    """Restore a saved access list to the file that it names in the given directory."""
    saved = call.host.files.read(file).decode("utf-16-le").splitlines()
    target = entry.entries.get(saved[0].upper()) if isinstance(entry, SimulatedDirectory) and saved else None
    if target is None:
        raise FileError(2)
    _, acl, protected = access.parse_sddl(saved[1])
    call.host.files.set_access(target, acl=acl, protected=protected)


async def run_regini(call: Invocation) -> int:
    r"""Run `regini FILE` with lines `\Registry\Machine\SOFTWARE\x [1 17]`: each key alone gets that list."""
    file = call.host.files.find(call.resolve_path(call.arguments[0])) if len(call.arguments) == 1 else None
    if not isinstance(file, SimulatedFile):
        call.write_error("REGINI: unable to open the file\n")
        return 1
    for line in bytes(file.data).decode("utf-16").splitlines():
        match = _INI.fullmatch(line)
        if match is None or not set(match[2].split()) <= _REGINI.keys():
            call.write_error(f"REGINI: syntax error: {line}\n")
            return 1
        path = f"HKEY_LOCAL_MACHINE{match[1]}"
        call.host.keys.replace(path, tuple(_REGINI[number] for number in match[2].split()), call.host.registry)
    return 0


def run_acl_command(call: Invocation, text: str) -> int | None:
    """Run a PowerShell command with Get-Acl or Set-Acl; return None for any other command.

    Constrained Language Mode does not allow method calls on most .NET types (Microsoft: "about_Language_Modes").
    """
    constrained = call.host.constrained
    if match := _SDDL.fullmatch(text):
        entry = call.host.files.find_entry(match[1])
        if entry is None or isinstance(entry, Junction):
            return 1
        present = access.render_sddl(entry.owner, entry.acl, protected=entry.protected)
        return int(
            re.search(
                match[2] + re.escape(_OF_DOMAIN if call.host.edition.domain else _LOCAL) + match[3], present, re.IGNORECASE
            )
            is None
        )
    if match := _FILE_SDDL.fullmatch(text):
        entry = call.host.files.find_entry(match[1])
        present = access.render_sddl(entry.owner, entry.acl, protected=entry.protected) if entry else ""
        return int(re.search(match[2], present, re.IGNORECASE) is None)
    if match := _KEY_SDDL.fullmatch(text):
        path = f"HKEY_LOCAL_MACHINE{match[1]}"
        return int(re.search(match[2], call.host.keys.render_sddl(path), re.IGNORECASE) is None)
    if match := _PROTECT.fullmatch(text):
        if constrained or call.host.registry.find_key(f"HKEY_LOCAL_MACHINE{match[2]}") is None:
            return 1
        call.host.keys.protect(f"HKEY_LOCAL_MACHINE{match[2]}", access.parse_sddl(match[1])[1])
        return 0
    return None
