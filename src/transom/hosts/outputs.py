"""Run a payload's scripts on a host, and take the first line that each prints."""

from collections.abc import Mapping

from transom.hosts.directory import Directory, local, remote
from transom.hosts.template import Script, render

_LIMIT = 4096


async def outputs(directory: Directory, scripts: Mapping[str, tuple[str, bytes]]) -> dict[str, str]:
    """What each script, given by variable as file name and content, printed; without those that failed or printed nothing.

    Raises HostError.
    """
    transport, name = directory.transport, directory.new_name()
    calls = [
        f"call :{'powershell' if file.endswith('.ps1') else 'batch'} {variable}" for variable, (file, _) in scripts.items()
    ]
    frame = Script("outputs.cmd", render("outputs.cmd", {"DIRECTORY": local(name), "CALLS": "\n".join(calls)}))
    await directory.put(name, [frame, *(Script(f"{v}.{file.rpartition('.')[2]}", text) for v, (file, text) in scripts.items())])
    await transport.run(local(name, "outputs.cmd"))
    found = {variable: _first(await transport.read(remote(name, f"{variable}.txt"), _LIMIT)) for variable in scripts}
    await directory.remove(name)
    return {variable: text for variable, text in found.items() if text}


def _first(data: bytes | None) -> str:
    lines = (data or b"").decode("ascii", "replace").split()
    return lines[0] if lines else ""
