"""Input that is wrong never reaches a host; a command that is stopped leaves no host half done."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apply.traces import seen
from tests.apply.windows import PEM, SERVICES, SETTINGS, Desk, Simulated, difference
from tests.support.waiting import until

from transom.windows.host.queries import LEDGER
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import sz
from winsim import Fault

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


@pytest.mark.parametrize("named", ["", "proxy"])
async def test_no_base_is_not_no_proxy(simulated: Simulated, tmp_path: Path, named: str) -> None:
    """Whoever leaves the file with the settings out of `-f`, or gives them another name, takes no proxy from any host."""
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    assert (await desk.apply()).code == 0
    applied, connections = await simulated.registry(LEDGER), simulated.host.traffic.connections
    file = desk.manifests / "all.yaml"
    objects = list(yaml.safe_load_all(file.read_text("utf-8")))
    for one in objects:
        if one["kind"] == "EgressProxy":
            one["metadata"]["name"] = named
    file.write_text(yaml.safe_dump_all([one for one in objects if one["metadata"]["name"]]))
    for command in ("diff", "apply"):
        answer = await desk.transom(command, "-f", str(desk.manifests))
        assert answer.code == 2
        assert ("no EgressProxy is named `cluster`" if named else "there is no EgressProxy/cluster here") in answer.err
        # it is the name that is wrong, not what only a base can have
        assert "take it out of this layer" not in answer.err
    checked = await desk.transom("validate", "-f", str(desk.manifests))
    assert (checked.code, "EgressProxy" in checked.out) == (2 if named else 0, True)
    assert simulated.host.traffic.connections == connections
    assert await simulated.registry(LEDGER) == applied

    if not named:
        assert (await desk.transom("diff", "-f", str(desk.manifests), "--remove")).code == 1
        removed = await desk.apply("--remove")
        assert (removed.code, removed.hosts[0]["result"]) == (0, "changed")
        assert not len(await simulated.registry(LEDGER))


async def test_a_host_of_an_operator_is_refused_with_its_name(simulated: Simulated, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    assert (await desk.apply()).code == 0
    assert (await simulated.registry(LEDGER)).value(LEDGER, "Manager") == sz("files")
    desk.write({**SETTINGS, "noProxy": ".other.example"})
    assert (await desk.apply()).code == 0
    whose = "the operator in namespace transom-system of cluster 0a1b2c3d"
    await simulated.edit([SetValue(LEDGER, "Manager", sz(whose))])
    before = await simulated.registry(LEDGER)
    desk.write(SETTINGS)
    for command in ("diff", "apply", "rollback"):
        answer = await desk.transom(command, "-f", str(desk.manifests), "-o", "json")
        (host,) = answer.hosts
        assert (answer.code, host["result"]) == (1, "skipped")
        assert f"the host is managed by {whose}" in host["error"]
        assert "--take-over" in host["error"]
    assert await simulated.registry(LEDGER) == before

    (took,) = (await desk.apply("--take-over")).hosts
    assert (took["result"], took["error"]) == ("changed", None)
    (again,) = (await desk.apply()).hosts
    assert again["result"] == "unchanged"


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
        await until(lambda moment=moment: any(moment in command for command in simulated.commands()), every=0.002)
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
