"""Another SSH key in the manifests: hosts that the key before it opens are moved, with the rest, and never locked out."""

from pathlib import Path

import asyncssh
from tests.apply.windows import SERVICES, SETTINGS, Desk, Simulated

from transom.hosts.ssh.ssh_client import format_public_key
from transom.proxy.secret import Secret
from winsim import Simulator
from winsim.host import KEYS


def new_key(kind: str = "ssh-ed25519") -> str:
    return asyncssh.generate_private_key(kind).export_private_key().decode()


def line(key: str) -> bytes:
    return format_public_key(Secret(key)).encode()


async def test_hosts_follow_another_key(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    async with Simulator() as simulator:
        hosts = [Simulated(simulator, await simulator.add_host(f"win-{number}", services=SERVICES)) for number in range(3)]
        desk = Desk(tmp_path / "desk", *hosts)
        for host in hosts:
            host.key = old
            host.host.put_keys(line(old) + b" transom\r\n")
        desk.write(SETTINGS)
        assert (await desk.apply()).code == 0

        for host in hosts:
            host.key = new
        desk.write(SETTINGS)
        # without the key before it there is nothing to be done
        refused = await desk.apply()
        assert [host["result"] for host in refused.hosts] == ["failed"] * 3

        desk.more_keys = {"private-key.previous.pem": old}
        desk.write({**SETTINGS, "noProxy": "other.example"})
        said = await desk.transom("diff", "-f", str(desk.manifests), "-o", "json")
        assert (said.code, [host["error"] for host in said.hosts]) == (1, [None] * 3)
        assert {host["changes"][0]["target"] for host in said.hosts} == {KEYS}
        assert all(host.host.files.read(KEYS) == line(old) + b" transom\r\n" for host in hosts)
        done = await desk.apply()
        assert (done.code, [host["result"] for host in done.hosts]) == (0, ["changed"] * 3)
        assert {host["changes"][0]["target"] for host in done.hosts} == {KEYS}
        assert all(host.host.files.read(KEYS) == line(new) + b" transom\r\n" for host in hosts)
        again = await desk.apply()
        assert (again.code, [host["changes"] for host in again.hosts]) == (0, [[]] * 3)

        # what was kept for it under the key before is known
        back = await desk.transom("rollback", "-f", str(desk.manifests), "-o", "json")
        assert (back.code, [host["result"] for host in back.hosts]) == (0, ["changed"] * 3)
        assert "PRIVATE KEY" not in said.out + done.out + done.err + back.out


async def test_a_key_that_hosts_refuse_reaches_two(tmp_path: Path) -> None:
    """The key before it still opens all of them."""
    old, new = new_key(), new_key("ecdsa-sha2-nistp256")
    async with Simulator() as simulator:
        hosts = [Simulated(simulator, await simulator.add_host(f"win-{number}", services=SERVICES)) for number in range(4)]
        desk = Desk(tmp_path / "desk", *hosts)
        desk.more_keys = {"private-key.previous.pem": old}
        for host in hosts:
            host.key = new
            host.host.key_types = ("ssh-ed25519",)
            host.host.put_keys(line(old) + b" transom\r\n")
        desk.write(SETTINGS)
        answer = await desk.apply()
        assert answer.code == 1
        assert [line(new) in host.host.files.read(KEYS) for host in hosts] == [True, True, False, False]
        assert all(line(old) in host.host.files.read(KEYS) for host in hosts)
        errors = [host["error"] for host in answer.hosts]
        assert all("does not take the key" in error for error in errors[:2])
        assert errors[2:] == ["not changed: the rollout stopped after 2 failures (win-1, win-2)"] * 2
