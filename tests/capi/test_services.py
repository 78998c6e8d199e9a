"""What scripts of workers and images make services of, on a host whose service control manager ends what does not answer it."""

import re
from pathlib import Path

import pytest
import yaml
from tests.winsim.consoles import booted, console

import transom
from transom.windows.host.host_state import ServiceState

CAPI = Path(transom.__file__).parent / "capi"
ANSWERING: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("answering.yaml").read_text("utf-8"))
MADE = re.compile(r"New-Service|\bsc(?:\.exe)?\W.*\bcreate\b", re.IGNORECASE)
PROGRAM = re.compile(r"C:\\k\\([a-z-]+\.exe)")


async def started(command: str) -> int:
    """What the start of a service with that command line ends with; a program is what it is known to be."""
    host = await booted()
    (name,) = PROGRAM.findall(command.partition(" ")[0])
    answers = name in ANSWERING and ANSWERING[name]["option"] in command
    host.files.write(rf"C:\k\{name}", b"MZservice" if answers else b"MZhostname.exe")
    assert (await console(host, f'sc.exe create made binPath= "{command}" start= auto')).code == 0
    code = (await console(host, "sc.exe start made")).code
    if code == 0:
        assert await host.services.wait_for_state("made", ServiceState.RUNNING, 30)
    return code


async def test_every_service_that_a_script_makes_answers() -> None:
    scripts = {file.name: file.read_text("utf-8") for file in CAPI.rglob("*.ps1")}
    making = {name for name, text in scripts.items() if MADE.search(text)}
    assert making == {"kubernetes.ps1", "kube-proxy-service.ps1"}
    for name in making:
        (begun,) = re.findall(r"= '(C:\\k\\kube-log-runner\.exe [^']+)'", scripts[name])
        options = re.findall(r"^ +['\"](--[^'\"]+)", scripts[name], re.MULTILINE)
        assert await started(" ".join((begun.strip(), *options))) == 0, name


@pytest.mark.parametrize("command", [r"C:\k\flanneld.exe --kube-subnet-mgr", r"C:\k\kube-proxy.exe --proxy-mode=kernelspace"])
async def test_what_does_not_answer_is_no_service(command: str) -> None:
    """Microsoft Learn, "System Error Codes": 1053, ERROR_SERVICE_REQUEST_TIMEOUT."""
    assert await started(command) == 1053
