"""The line by which a command prompt shows the state of services and files of a host, without a script file.

What it prints is compared with what it printed before, byte for byte, and is not understood.
"""

from collections.abc import Iterator, Sequence

from transom.hosts.scripts.install_script import NAME, PATH
from transom.windows.host.queries import SERVICES

_LONGEST = 8000
"""Characters of a line; a command prompt takes 8,191 (Microsoft: "Command prompt line string limitation")."""
BEGIN, END = "transom-look", "transom-looked"
_SYSTEM = r"C:\Windows\System32"


def build_check_command(services: Sequence[str], files: Sequence[str]) -> str | None:
    """Build the line, or None if it would be too long. Times are to the minute, in the host's own format."""
    if not all(map(NAME.fullmatch, services)) or not all(map(PATH.fullmatch, files)):
        return None
    # read whole before anything is carried out, and without an echo of itself
    text = f"@({'&'.join(_iter_commands(services, files))})"
    return text if len(text) <= _LONGEST else None


def _iter_commands(services: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    # what the prompt itself prints ends with no line
    yield f"echo.&echo {BEGIN}"
    for name in services:
        yield rf'{_SYSTEM}\sc.exe query "{name}" 2>&1'
        yield rf'{_SYSTEM}\reg.exe query "{SERVICES}\{name}" /s /reg:64 2>&1'
    if files:
        named = " ".join(f'"{path}"' for path in files)
        yield f"(for %f in ({named}) do @echo %~tf %~zf %~ff)"
    yield f"echo {END}"


def parse_check_output(printed: bytes) -> bytes | None:
    """Return the output between the begin and end marks; None if the line did not run to its end."""
    lines = [item.rstrip() for item in printed.splitlines()]
    try:
        begin = lines.index(BEGIN.encode())
        end = lines.index(END.encode(), begin)
    except ValueError:
        return None
    return b"\n".join(lines[begin + 1 : end])
