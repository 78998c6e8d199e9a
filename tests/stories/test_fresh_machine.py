"""The first commands of README on a bare Debian, in a network whose gateway decrypts all TLS; its CA is in the system's store.

The machine has no variable set but PATH and HOME, an empty home, and no other way out.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from lab.bare_debian import HOME, PATH, BareDebian
from lab.egress import Egress
from lab.gateway import run_gateway
from lab.network import Network
from lab.template import build_template
from tests.support.pages import blocks
from tests.support.repository import ROOT

from lab import build, cache

pytestmark = pytest.mark.lab

SCREEN = 40
"""Lines."""
CLONE = "file:///srv/transom.git"
TOOLS = f"{HOME}/.cache/transom-lab/tools"
FAST = "scripts/test fast tests/reasons tests/support/test_failures.py"
"""Style, types, import contracts, and some tests: all of them take minutes."""


class Bench(NamedTuple):
    """The machine, and the proxy through which it goes out."""

    machine: BareDebian
    egress: Egress


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    log = tmp_path_factory.mktemp("gateway") / "gateway.log"
    with ExitStack() as stack:
        # squid writes there
        stack.enter_context(cache.hold_lock("downloads", waiting="waiting for another bare Debian"))
        # its own lab has 10.203.0.0/16
        network = stack.enter_context(Network(isolated=True, prefix="10.204"))
        egress = stack.enter_context(Egress(network, downloads=cache.get_directory() / "downloads"))
        stack.enter_context(run_gateway(network.address, egress.port, log))
        machine = stack.enter_context(BareDebian(network.add_place(), network.address, egress.certificate))
        publish(machine.get_host_path("/srv/transom.git"), tmp_path_factory.mktemp("published"))
        lend_parts(machine)
        yield Bench(machine, egress)


def publish(repository: Path, directory: Path) -> None:
    """Write a repository with the working tree as its only commit."""
    files = subprocess.check_output(("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), cwd=ROOT)
    present = b"\0".join(name for name in files.split(b"\0") if name and (ROOT / name.decode()).is_file())
    packed = subprocess.run(("tar", "--null", "-c", "-T", "-"), cwd=ROOT, input=present, stdout=subprocess.PIPE, check=True)
    subprocess.run(("tar", "-C", directory, "-x"), input=packed.stdout, check=True)
    author = ("-c", "user.name=test", "-c", "user.email=test@corp.example")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), (*author, "commit", "-q", "-m", "the working tree")):
        subprocess.run(("git", *command), cwd=directory, check=True)
    # git would follow the path into this machine's own root
    subprocess.run(("cp", "-r", directory / ".git", repository), check=True)


def lend_parts(machine: BareDebian) -> None:
    """Give the machine what the demo would compile for minutes, and what mypy knows."""
    programs = (build.RECORDER, build.CURL, *build.CONTAINERD_PROGRAMS)
    parts = [
        build_template(),
        build_template(containerd=True),
        build.build_native(),
        *(build.build_program(program).parent for program in programs),
    ]
    target = machine.get_host_path(f"{HOME}/.cache/transom-lab")
    target.mkdir(parents=True)
    subprocess.run(("cp", "--archive", *parts, target), check=True)
    if (cache.get_directory() / "mypy").exists():
        subprocess.run(("cp", "--archive", cache.get_directory() / "mypy", target), check=True)


def run(machine: BareDebian, script: str, **environment: str) -> tuple[int, str]:
    """Return the exit code of lines of a shell in the clone, and what a person sees."""
    done = machine.run(("/bin/bash", "-c", f"cd {HOME}/transom 2>/dev/null || cd {HOME}; {script}"), environment or None)
    return done.returncode, done.stdout


def test_the_commands_of_readme_on_a_bare_debian(bench: Bench) -> None:
    machine, egress = bench
    clone, demo, test = next(blocks(ROOT / "README.md")).lines
    assert test == FAST.partition(" fast")[0]
    code, output = run(machine, f"{clone.replace('URL', CLONE)} && {demo}")
    assert code == 0, output
    assert len(output.splitlines()) <= SCREEN, output
    code, output = run(machine, FAST)
    assert (code, " passed" in output) == (0, True), output
    assert len(output.splitlines()) <= SCREEN, output
    code, output = run(machine, f"cd lab/go/recorder && {TOOLS}/bin/go mod download")
    assert code == 0, output
    # all of it went through the proxy, and in plain text for it
    requests = egress.list_requests()
    decrypted = {urlsplit(request.url).hostname for request in requests if request.url.startswith("https:")}
    tunnels = {request.url.partition(":")[0] for request in requests if request.method == "CONNECT"}
    assert decrypted == tunnels
    assert len(tunnels) >= 3
    # and nothing is on the machine but packages of Debian, the clone, and what lies in root's home
    assert not list(machine.get_host_path("/usr/local/bin").iterdir())
    assert not list(machine.get_host_path("/usr/local/lib").rglob("*.py"))
    assert run(machine, demo.replace("demo", "install demo")) == (0, "")


def test_a_clone_that_cannot_be_written_in_an_empty_environment(bench: Bench) -> None:
    """As a service or a container starts the scripts: no PATH, no HOME, files for root alone, a read-only mount."""
    mount = f"mkdir -p /mnt/clone && mount --bind {HOME}/transom /mnt/clone && mount -o remount,bind,ro /mnt/clone"
    script = f"unset PATH HOME PWD; umask 077; cd /mnt/clone && {FAST}"
    odd = {"LANG": "de_DE.ISO-8859-1", "TMPDIR": "/nowhere", "PYTHONPATH": "/nowhere"}
    code, output = run(bench.machine, f"unshare --mount bash -c '{mount} && {script}'", **odd)
    assert code == 0, output


def test_a_proxy_that_clients_have_to_name(bench: Bench) -> None:
    machine, egress = bench
    home = {"PATH": PATH, "HOME": f"{HOME}/behind-a-proxy"}
    resolver = machine.get_host_path("/etc/resolv.conf").read_text()
    address = resolver.split()[1]
    machine.put("/etc/resolv.conf", "")
    machine.put("/etc/hosts", f"127.0.0.1 localhost\n{address} proxy.corp.example\n")
    machine.get_host_path(f"{HOME}/behind-a-proxy").mkdir()
    try:
        variables = {"HTTP_PROXY": egress.url, "HTTPS_PROXY": egress.url}
        fetch = (
            'export PATH="$HOME/.cache/transom-lab/tools/bin:$PATH" UV_SYSTEM_CERTS=true; uv run --no-project --with idna true'
        )
        code, output = run(machine, f"dpkg --remove python3-pip && scripts/install uv && {fetch}", **home, **variables)
        assert code == 0, output
    finally:
        machine.put("/etc/resolv.conf", resolver)


HOLD = """
import fcntl, time
held = [open(path, "w") for path in ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock")]
for file in held:
    fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(6)
"""
"""As the unattended upgrades of a new machine hold both."""


def test_another_installation_is_waited_for(bench: Bench) -> None:
    bench.machine.put(f"{HOME}/waits/hold.py", HOLD)
    first = f"dpkg --remove python3-pip; coproc python3 {HOME}/waits/hold.py; read -r -u ${{COPROC[0]}}"
    code, output = run(bench.machine, f"{first}; scripts/install uv", PATH=PATH, HOME=f"{HOME}/waits")
    assert code == 0, output
    assert "held by process" in output


def test_an_installation_that_was_ended_in_the_middle_is_completed(bench: Bench) -> None:
    # a package is unpacked, what it depends on is not there, and all files that are looked for are
    first = "apt-get -qq download curl; dpkg --unpack curl_*.deb; rm curl_*.deb"
    marked = f"mkdir -p {HOME}/half/.cache/transom-lab && touch {HOME}/half/.cache/transom-lab/packages-unfinished"
    script = f"{first}; {marked}; scripts/install uv && curl --version && [ -z $(dpkg --audit) ]"
    code, output = run(bench.machine, script, PATH=PATH, HOME=f"{HOME}/half")
    assert code == 0, output


def test_a_certificate_that_is_not_trusted_is_named_with_its_remedy(bench: Bench) -> None:
    machine, _ = bench
    home = machine.get_host_path(f"{HOME}/without-the-ca")
    home.mkdir()
    remove = "rm /usr/local/share/ca-certificates/proxy.crt && update-ca-certificates --fresh >/dev/null 2>&1"
    code, output = run(machine, f"{remove}; scripts/install uv", PATH=PATH, HOME=f"{HOME}/without-the-ca")
    assert code != 0
    assert re.search(r"certificate of \w+\.\w+", output), output
    assert "update-ca-certificates" in output
    assert len(output.splitlines()) <= SCREEN
    # nothing that a second run would take for an installed uv
    assert not any(home.rglob("bin/uv"))
