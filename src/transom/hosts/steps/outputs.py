"""Run a payload's scripts on a host, and take the first word that each prints."""

from collections.abc import Mapping

import msgspec

from transom.hosts.scripts.template import Script, render
from transom.hosts.ssh.directory import Directory, local, remote

_LIMIT = 4096
_SAID = 400
"""Characters of what a script said of its failure that are kept: they stand in a condition."""


class Outputs(msgspec.Struct, frozen=True):
    """By variable, what each script printed, and the words of those that failed or printed nothing."""

    texts: dict[str, str] = {}
    complaints: dict[str, str] = {}


async def outputs(directory: Directory, scripts: Mapping[str, tuple[str, bytes]]) -> Outputs:
    """Run scripts, given by variable as file name and content. Raises HostError."""
    transport, name = directory.transport, directory.new_name()
    calls = [
        f"call :{'powershell' if file.endswith('.ps1') else 'batch'} {variable}" for variable, (file, _) in scripts.items()
    ]
    frame = Script("outputs.cmd", render("outputs.cmd", {"DIRECTORY": local(name), "CALLS": "\n".join(calls)}))
    await directory.put(name, [frame, *(Script(f"{v}.{file.rpartition('.')[2]}", text) for v, (file, text) in scripts.items())])
    await transport.run(local(name, "outputs.cmd"))
    texts, complaints = {}, {}
    for variable in scripts:
        if text := _first(await transport.read(remote(name, f"{variable}.txt"), _LIMIT)):
            texts[variable] = text
        elif said := _words(await transport.read(remote(name, f"{variable}.err"), _LIMIT)):
            complaints[variable] = said
    await directory.remove(name)
    return Outputs(texts, complaints)


def _first(data: bytes | None) -> str:
    lines = (data or b"").decode("ascii", "replace").split()
    return lines[0] if lines else ""


def _words(data: bytes | None) -> str:
    """One line of printable ASCII: PowerShell breaks its errors to the width of a console that nobody sees."""
    text = " ".join((data or b"").decode("ascii", "replace").split())
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)[:_SAID]
