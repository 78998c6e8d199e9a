"""Hosts that commands meet for the first time: trusted and kept before anything is sent, or, where a person says so, never."""

from pathlib import Path

import yaml
from tests.apply.windows import SETTINGS, Answer, Desk, Simulated
from tests.support.waiting import until

from winsim import Fault

KNOWN = Path("state", "transom", "known_hosts")


def pin(desk: Desk, *keys: str) -> None:
    """Write host keys into the WindowsInstances, in order."""
    file = desk.manifests / "all.yaml"
    objects = list(yaml.safe_load_all(file.read_text("utf-8")))
    for item, key in zip((obj for obj in objects if obj["kind"] == "WindowsInstance"), keys, strict=False):
        item["spec"]["hostKey"] = key
    file.write_text(yaml.safe_dump_all(objects, allow_unicode=True), "utf-8")


def refused(answer: Answer, host: Simulated) -> bool:
    """Whether the host was not connected to, and it is said what to do."""
    told = answer.out + answer.err
    scan = f"ssh-keyscan -t ed25519 -p {host.port} {host.address}"
    return answer.code in (1, 3) and "--require-host-keys is set" in told and scan in told and "known_hosts" in told


async def test_commands_connect_to_no_host_whose_key_is_not_known(simulated: Simulated, tmp_path: Path) -> None:
    host, desk = simulated.host, Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    key = tmp_path / "key.pem"
    key.write_text(simulated.key)
    files = ("-f", str(desk.manifests), "--require-host-keys")
    facts = ("facts", host.address, "-p", str(host.port), "-u", host.username, "-i", str(key), "--require-host-keys")
    for command in (("apply", *files), ("diff", *files), facts):
        assert refused(await desk.transom(*command), simulated), command
        assert host.traffic.connections == 0
    assert not (desk.directory / KNOWN).exists()
    # met before, without that
    assert (await desk.apply()).code == 0
    assert (await desk.apply("--require-host-keys")).code == 0
    assert (await desk.transom(*facts)).code == 0
    desk.write({**SETTINGS, "noProxy": "other.example"})
    assert (await desk.apply()).code == 0
    (desk.directory / KNOWN).unlink()
    host.traffic.clear()
    assert refused(await desk.transom("rollback", *files), simulated)
    assert host.traffic.connections == 0


async def test_one_host_without_a_key_keeps_no_other(tmp_path: Path, simulated: Simulated) -> None:
    other = Simulated(simulated.simulator, await simulated.simulator.add_host("other", services={}))
    desk = Desk(tmp_path / "desk", simulated, other)
    desk.write(SETTINGS)
    pin(desk, simulated.simulator.format_host_key(simulated.host))
    answer = await desk.apply("--require-host-keys", "--all-at-once")
    assert answer.code == 1
    assert [host["result"] for host in answer.hosts] == ["changed", "failed"]
    assert other.host.traffic.connections == 0


async def test_the_key_is_kept_before_the_first_request(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    simulated.host.faults.schedule_fault(Fault(1, action="hang"))
    process = await desk.start("apply", "-f", str(desk.manifests), "--channel-timeout", "10m")
    try:
        await until(lambda: simulated.host.faults.ordered is None)
    finally:
        process.kill()
        await process.communicate()
    text = (desk.directory / KNOWN).read_text()
    assert text.split(" ", 1)[0] == f"[{simulated.address}]:{simulated.port}"
