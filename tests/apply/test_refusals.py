"""Input that is wrong never reaches a host; a command that is stopped leaves no host half done."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apply.test_apply import seen
from tests.apply.windows import PEM, SERVICES, SETTINGS, Desk, Simulated, difference

from transom.simulator import Fault
from transom.windows.gathering import LEDGER

Objects = list[dict[str, Any]]


def spoil(desk: Desk, how: Callable[[Objects], object]) -> None:
    file = desk.manifests / "all.yaml"
    objects: Objects = list(yaml.safe_load_all(file.read_text("utf-8")))
    how(objects)
    file.write_text(yaml.safe_dump_all(objects, allow_unicode=True), "utf-8")


def of(objects: Objects, kind: str) -> dict[str, Any]:
    return next(each for each in objects if each["kind"] == kind)


CASES: dict[str, tuple[Callable[[Objects], object], str, str]] = {
    "an unknown field": (lambda o: of(o, "EgressProxy")["spec"].update(htpProxy="x"), "EgressProxy/cluster", "spec.htpProxy"),
    "a missing Secret": (
        lambda o: of(o, "EgressProxy")["spec"].update(credentialsSecret={"name": "nowhere"}),
        "EgressProxy/cluster",
        "spec.credentialsSecret.name",
    ),
    "a missing key": (lambda o: of(o, "Secret")["stringData"].pop("password"), "Secret/transom-system/", "data.password"),
    "a damaged certificate": (
        lambda o: of(o, "ConfigMap")["data"].update({"ca-bundle.crt": PEM[0].replace("MII", "M!!", 1)}),
        "ConfigMap/transom-system/corp-ca",
        "data[ca-bundle.crt]",
    ),
    "an address that is none": (
        lambda o: of(o, "WindowsInstance")["spec"].update(address="no host"),
        "WindowsInstance/transom-system/win-1",
        "spec.address",
    ),
    "a NUL": (lambda o: of(o, "EgressProxy")["spec"].update(noProxy="a\0b"), "EgressProxy/cluster", "spec.noProxy"),
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
@pytest.mark.parametrize("command", ["apply", "diff"])
async def test_invalid_input_is_named_and_no_host_is_touched(
    simulated: Simulated, tmp_path: Path, case: str, command: str
) -> None:
    how, named, field = CASES[case]
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    spoil(desk, how)
    answer = await desk.transom(command, "-f", str(desk.manifests))
    assert answer.code == 2
    assert all(part in answer.err for part in ("all.yaml", named, field)), answer.err
    assert "Traceback" not in answer.err
    assert "hunter2" not in answer.out + answer.err
    assert simulated.host.traffic.connections == 0


async def test_hosts_without_settings_are_warned_of(simulated: Simulated, tmp_path: Path) -> None:
    """Whoever leaves the file with the settings out of `-f` would take the proxy from every host."""
    desk = Desk(tmp_path / "desk", simulated)
    warning = "warning: there is no EgressProxy here: hosts lose what Transom has set on them"
    desk.write({})
    assert warning not in (await desk.transom("diff", "-f", str(desk.manifests))).err
    file = desk.manifests / "all.yaml"
    without = [one for one in yaml.safe_load_all(file.read_text()) if one["kind"] != "EgressProxy"]
    file.write_text(yaml.safe_dump_all(without))
    answer = await desk.transom("diff", "-f", str(desk.manifests), "-o", "json")
    assert warning in answer.err
    assert (answer.code, [host["result"] for host in answer.hosts]) == (0, ["unchanged"])


async def test_a_manifest_that_does_not_parse(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    (desk.manifests / "broken.yaml").write_text("kind: [hunter2\n")
    answer = await desk.apply()
    assert answer.code == 2
    assert "broken.yaml" in answer.err
    assert "hunter2" not in answer.out + answer.err
    assert simulated.host.traffic.connections == 0


async def test_ctrl_c_during_a_change_finishes_or_leaves_the_host(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    before = await seen(simulated)
    for moment in ("gather", "change.cmd"):
        desk.write(SETTINGS)
        # the command must not have ended before the signal comes
        simulated.host.faults.disk_delay = 0.05
        process = await desk.start("apply", "-f", str(desk.manifests))
        while not any(moment in command for command in simulated.commands()):
            await asyncio.sleep(0.002)
        process.send_signal(signal.SIGINT)
        simulated.host.faults.disk_delay = 0.0
        _, err = await process.communicate()
        assert process.returncode == 130
        assert b"Traceback" not in err
        assert [service.state.name for service in map(simulated.host.services.get, SERVICES)] == ["RUNNING"] * 2
        (again,) = (await desk.apply()).hosts
        assert again["error"] is None
        desk.write({})
        assert (await desk.apply()).code == 0
        assert difference(before, await seen(simulated)) == []
        assert not len(await simulated.registry(LEDGER))
        simulated.host.traffic.clear()


async def test_a_state_directory_that_cannot_be_used_is_named(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    (desk.directory / "state").write_text("a file where the directory should be")
    for command in ("apply", "rollback"):
        answer = await desk.transom(command, "-f", str(desk.manifests))
        assert (answer.code, answer.out) == (1, "")
        assert f"transom: {desk.directory / 'state'}" in answer.err
        assert "XDG_STATE_HOME" in answer.err and "Traceback" not in answer.err
    assert simulated.host.traffic.connections == 0

    (desk.directory / "state").unlink()
    (desk.directory / "state" / "transom").mkdir(parents=True)
    (desk.directory / "state" / "transom" / "passed").write_text("the same, further down")
    answer = await desk.apply()
    assert answer.code == 0
    assert answer.err.count("`transom rollback` will not know these settings") == 1


async def test_a_host_that_hangs_is_left_when_the_options_say_so(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    key = tmp_path / "key"
    key.write_text(simulated.key)
    where = (simulated.address, "--port", str(simulated.port), "--username", simulated.user, "--key", str(key))
    options = (("--channel-timeout=1s", "the host made no progress for 1 s"), ("--pass-timeout=1s", "took longer than 1 s"))
    for option, said in options:
        simulated.host.faults.arm(Fault(3, "before", "hang"))
        (host,) = (await desk.apply(option)).hosts
        assert said in host["error"]
    simulated.host.faults.arm(Fault(3, "before", "hang"))
    facts = await desk.transom("facts", *where, options[0][0])
    assert (facts.code, options[0][1] in facts.err) == (1, True)
    assert (await desk.transom("diff", "-f", str(desk.manifests), "--pass-timeout=1")).code == 2
