"""How long short commands take, whole processes: `python -m benchmarks.commands`.

`--version` and `validate` are beside `python -c pass`; `diff` of one simulated host beside a script of asyncssh alone, which
runs the same script there and fetches the same file.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncssh
from benchmarks.hosts import served, transom
from benchmarks.pairs import TRANSOM, Pair, alternating, cpu_of_child
from tests.support.bundles import certificate, config_map, egress_proxy, write

from transom.hosts.ssh.ssh_client import Access
from transom.proxy.secret import Secret

RUNS = 15
PASS = (sys.executable, "-c", "pass")
GATHER = """
import asyncio, sys, asyncssh

async def main(port, key, script):
    there = asyncssh.connect("127.0.0.1", int(port), username="Administrator", client_keys=[key], known_hosts=None)
    async with there as connection:
        ended = await connection.run(f"cmd.exe /d /c {script}", check=True)
        directory = "C:/Windows/Transom/" + ended.stdout.split("transom-gather: ")[1].split()[0]
        async with connection.start_sftp_client() as sftp:
            async with sftp.open(f"{directory}/gathered", "rb") as file:
                await file.read()
            await sftp.remove(f"{directory}/gathered")
            await sftp.rmdir(directory)

asyncio.run(main(*sys.argv[1:]))
"""


class Commands:
    """Each as it is called, and what it is beside."""

    def __init__(self, place: Path, port: int, pem: str) -> None:
        (place / "one").mkdir()
        spec = {"httpProxy": "http://p.x:1", "noProxy": "a.x", "trustedCA": {"name": "ca"}}
        settings = write(place / "one", egress_proxy(spec), config_map("ca", {"ca-bundle.crt": certificate("CA")}))
        self.version = (*TRANSOM, "--version")
        self.validate = (*TRANSOM, "validate", "-f", settings)
        self.diff = (*TRANSOM, "diff", "-f", _manifests(place, port, pem))
        (place / "key").write_text(pem)
        self._key, self._port = place / "key", port
        self._state = {"XDG_STATE_HOME": str(place)}
        # other settings: what reads the host is kept there since
        asyncio.run(transom(Access("127.0.0.1", port, keys=(Secret(pem),)), "proxy"))

    def cpu(self, command: Sequence[object], times: int = 1) -> float:
        """Seconds of CPU of one run; `diff` ends with 1, since its host differs."""
        words = [str(word) for word in command]
        return cpu_of_child(words, times=times, codes=(1,) if command is self.diff else (0,), **self._state) / times

    def wall(self, command: Sequence[object]) -> float:
        """Seconds on the clock of one run."""
        begun = time.perf_counter()
        self.cpu(command)
        return time.perf_counter() - begun

    def gather(self) -> tuple[object, ...]:
        """The bare script, with what it runs there."""
        return (sys.executable, "-c", GATHER, self._port, self._key, asyncio.run(self._script()))

    async def _script(self) -> str:
        there = asyncssh.connect(
            "127.0.0.1", self._port, username="Administrator", client_keys=[str(self._key)], known_hosts=None
        )
        async with there as connection, connection.start_sftp_client() as sftp:
            names = [str(name) for name in await sftp.listdir("C:/Windows/Transom")]
        return "C:\\Windows\\Transom\\" + next(name for name in names if name.startswith("gather-"))


def _manifests(place: Path, port: int, pem: str) -> str:
    spec = {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128", "networks": {"internalAPIHost": "api.x"}}
    host = {"address": "127.0.0.1", "port": port, "username": "Administrator"}
    objects = [("EgressProxy", "cluster", {"spec": spec}), ("WindowsInstance", "win", {"spec": host})]
    listed = [
        {"apiVersion": "transom.dev/v1alpha1", "kind": kind, "metadata": {"name": n}, **more} for kind, n, more in objects
    ]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-private-key"}}
    listed.append(secret | {"stringData": {"private-key.pem": pem}})
    manifests = place / "all.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    return str(manifests)


@contextlib.contextmanager
def commands() -> Iterator[Commands]:
    with served("hosts", "--hosts", "1") as (ports, pem), tempfile.TemporaryDirectory() as place:
        yield Commands(Path(place), ports[0], pem)


def pairs() -> Iterator[Pair]:
    with commands() as given:
        for command in (given.version, given.validate, given.diff):
            given.cpu(command)
        gather = given.gather()
        for row, command in (("`transom --version`", given.version), ("`transom validate` of a directory", given.validate)):
            yield from alternating(row, lambda: given.cpu(command, 5), lambda: given.cpu(PASS, 5), rounds=7)  # noqa: B023
        yield from alternating("`transom diff` of one host", lambda: given.cpu(given.diff), lambda: given.cpu(gather), rounds=7)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with commands() as given:
        given.cpu(given.diff)
        gather = given.gather()
        for row, command, bare in (
            ("`transom --version`", given.version, PASS),
            ("`transom validate` of a directory", given.validate, PASS),
            ("`transom diff` of one host", given.diff, gather),
        ):
            ours = min(given.wall(command) for _ in range(RUNS)), min(given.cpu(command) for _ in range(RUNS))
            theirs = min(given.wall(bare) for _ in range(RUNS)), min(given.cpu(bare) for _ in range(RUNS))
            told = (f"{wall * 1000:.0f} ms ({cpu * 1000:.0f} ms of CPU)" for wall, cpu in (ours, theirs))
            print(f"{row}, least of {RUNS}: {'; bare '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
