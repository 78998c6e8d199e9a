"""Run a payload's scripts on a host, and take the first line that each prints."""

import secrets
from collections.abc import Mapping

from transom.hosts.directory import Directory, local, remote
from transom.hosts.errors import ScriptFailed
from transom.hosts.template import render

_LIMIT = 4096


async def outputs(directory: Directory, scripts: Mapping[str, tuple[str, bytes]]) -> dict[str, str]:
    """What each script, given by variable as file name and content, printed; without those that failed or printed nothing.

    Raises HostError.
    """
    transport, name = directory.transport, f"p-{directory.owner.tag}-{secrets.token_hex(4)}"
    calls = [
        f"call :{'powershell' if file.endswith('.ps1') else 'batch'} {variable}" for variable, (file, _) in scripts.items()
    ]
    if not await transport.make_directory(remote(name)):
        raise ScriptFailed(f"{local(name)} cannot be made (is the disk full?)")
    for variable, (file, content) in scripts.items():
        await transport.create(remote(name, f"{variable}.{file.rpartition('.')[2]}"), content)
    await transport.create(
        remote(name, "outputs.cmd"), render("outputs.cmd", {"DIRECTORY": local(name), "CALLS": "\n".join(calls)})
    )
    await transport.run(local(name, "outputs.cmd"))
    found = {variable: _first(await transport.read(remote(name, f"{variable}.txt"), _LIMIT)) for variable in scripts}
    await directory.remove(name)
    return {variable: text for variable, text in found.items() if text}


def _first(data: bytes | None) -> str:
    lines = (data or b"").decode("ascii", "replace").split()
    return lines[0] if lines else ""
