"""Input that is wrong never reaches a host; a command that is stopped leaves no host half done."""

import base64
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.apply.traces import seen
from tests.apply.windows import PEM, SERVICES, SETTINGS, Desk, Simulated, difference
from tests.support.ssh_keys import WRONG as WRONG_KEYS
from tests.support.waiting import until

from transom.windows.host.queries import LEDGER
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
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
    "no Secret with the SSH key": (
        lambda o: of(o, "WindowsInstance")["spec"].update(keySecret={"name": "nowhere"}),
        "WindowsInstance/transom-system/win-1",
        "spec.keySecret.name",
    ),
    "a Secret in another namespace": (
        lambda o: key_of(o)["metadata"].update(namespace="default"),
        "WindowsInstance/transom-system/win-1",
        "spec.keySecret.name",
    ),
    "a Secret without the SSH key": (
        lambda o: key_of(o).update(stringData={"ssh-privatekey": "x"}),
        "Secret/transom-system/key-1",
        "data[private-key.pem]",
    ),
    "a CA in another namespace": (
        lambda o: of(o, "ConfigMap")["metadata"].update(namespace="default"),
        "EgressProxy/cluster",
        "spec.trustedCA.name",
    ),
    "a name that is none": (
        lambda o: of(o, "EgressProxy")["spec"].update(trustedCA={"name": "corp_ca"}),
        "EgressProxy/cluster",
        "spec.trustedCA.name",
    ),
    "a host key that is none": (
        lambda o: of(o, "WindowsInstance")["spec"].update(hostKey="ssh-ed25519 AAAA"),
        "WindowsInstance/transom-system/win-1",
        "spec.hostKey",
    ),
    "a host key that is damaged": (
        lambda o: of(o, "WindowsInstance")["spec"].update(hostKey=_damaged_point()),
        "WindowsInstance/transom-system/win-1",
        "spec.hostKey",
    ),
    "no user": (
        lambda o: of(o, "WindowsInstance")["spec"].update(username=""),
        "WindowsInstance/transom-system/win-1",
        "spec.username",
    ),
    "a cluster that is not there": (
        lambda o: of(o, "WindowsInstance")["spec"].update(clusterRef={"name": "prod"}),
        "WindowsInstance/transom-system/win-1",
        "spec.clusterRef",
    ),
    "a host twice": (
        lambda o: o.append({**of(o, "WindowsInstance"), "metadata": {"name": "win-2"}}),
        "WindowsInstance/transom-system/win-2",
        "spec.address",
    ),
    "a placeholder": (
        lambda o: of(o, "Secret")["stringData"].update(password="${PASSWORD}"),
        "Secret/transom-system/egress-credentials",
        "data.password",
    ),
    "SOPS": (lambda o: key_of(o).update(sops={"mac": "x"}), "Secret/transom-system/key-1", "sops"),
    **{
        f"an SSH key that is none: {name}": (
            lambda o, text=text: key_of(o).update(stringData={"private-key.pem": text}),
            "Secret/transom-system/key-1",
            "data[private-key.pem]",
        )
        for name, text in WRONG_KEYS.items()
    },
    "an earlier SSH key that is none": (
        lambda o: key_of(o)["stringData"].update({"private-key.previous.pem": "x"}),
        "Secret/transom-system/key-1",
        "data[private-key.previous.pem]",
    ),
}


def key_of(objects: Objects) -> dict[str, Any]:
    return next(each for each in objects if each["metadata"]["name"] == "key-1")


def _damaged_point() -> str:
    """A line of the right form, of a point that is not on its curve."""
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    raw = bytearray(base64.b64decode(line.split()[1]))
    raw[-1] ^= 1
    return f"ecdsa-sha2-nistp256 {base64.b64encode(raw).decode()}"


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
    # who asks before is told the same
    checked = await desk.transom("validate", "-f", str(desk.manifests), "-o", "json")
    errors = [item for item in msgspec.json.decode(checked.out) if item["severity"] == "error"]
    assert checked.code == 2
    assert any(error["object"].startswith(named) and error["field"] == field for error in errors), errors


WARNED: dict[str, tuple[Callable[[Objects], object], str, str]] = {
    "no base": (lambda o: o.remove(of(o, "EgressProxy")), "WindowsInstance/transom-system/win-1", "metadata.name"),
    "a host elsewhere": (
        lambda o: of(o, "WindowsInstance")["metadata"].update(namespace="default"),
        "WindowsInstance/default/win-1",
        "metadata.namespace",
    ),
    "credentials that were not sent": (
        lambda o: (o.append(CLUSTER), of(o, "WindowsInstance")["spec"].update(clusterRef={"name": "prod"})),
        "WindowsInstance/transom-system/win-1",
        "spec.clusterRef",
    ),
}
CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "transom-system"},
    "spec": {
        "controlPlaneEndpoint": {"host": "api.prod", "port": 6443},
        "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/16"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}},
    },
}


@pytest.mark.parametrize("case", WARNED, ids=list(WARNED))
async def test_what_is_valid_and_refused_is_warned_of(simulated: Simulated, tmp_path: Path, case: str) -> None:
    """Such files are right for a cluster, or for another command; that `diff` and `apply` refuse them is said before."""
    how, named, field = WARNED[case]
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    spoil(desk, how)
    for command in ("diff", "apply"):
        assert (await desk.transom(command, "-f", str(desk.manifests))).code != 0
    assert simulated.host.traffic.connections == 0
    checked = await desk.transom("validate", "-f", str(desk.manifests), "-o", "json")
    found = msgspec.json.decode(checked.out)
    assert checked.code == 0
    assert any((item["object"], item["field"]) == (named, field) for item in found), found


async def test_a_kubelet_without_the_api_servers_host(simulated: Simulated, tmp_path: Path) -> None:
    """Which host runs one only the host says: before it, one warning says what comes of it."""
    desk = Desk(tmp_path / "desk", simulated)
    desk.write({**SETTINGS, "networks": {}})
    checked = await desk.transom("validate", "-f", str(desk.manifests), "-o", "json")
    (found,) = (item for item in msgspec.json.decode(checked.out) if item["field"].startswith("spec.networks"))
    assert (checked.code, found["severity"], found["field"]) == (0, "warning", "spec.networks")
    assert "spec.networks.internalAPIHost" in found["message"]
    assert (await desk.transom("doctor", "-f", str(desk.manifests))).code == 1
    # this one runs none
    assert (await desk.apply()).code == 0


@pytest.mark.parametrize("named", ["", "proxy"])
async def test_no_base_is_not_no_proxy(simulated: Simulated, tmp_path: Path, named: str) -> None:
    """Whoever leaves the file with the settings out of `-f`, or gives them another name, takes no proxy from any host."""
    desk = Desk(tmp_path / "desk", simulated)
    desk.write(SETTINGS)
    assert (await desk.apply()).code == 0
    applied, connections = await simulated.registry(LEDGER), simulated.host.traffic.connections
    file = desk.manifests / "all.yaml"
    objects = list(yaml.safe_load_all(file.read_text("utf-8")))
    for item in objects:
        if item["kind"] == "EgressProxy":
            item["metadata"]["name"] = named
    file.write_text(yaml.safe_dump_all([obj for obj in objects if obj["metadata"]["name"]]))
    for command in ("diff", "apply"):
        answer = await desk.transom(command, "-f", str(desk.manifests))
        assert answer.code == 2
        assert ("no EgressProxy is named `cluster`" if named else "EgressProxy/cluster does not exist here") in answer.err
        # it is the name that is wrong, not what only a base can have
        assert "may set it" not in answer.err
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
    assert (await simulated.registry(LEDGER)).find_value(LEDGER, "Manager") == build_sz("files")
    desk.write({**SETTINGS, "noProxy": ".other.example"})
    assert (await desk.apply()).code == 0
    whose = "the operator in namespace transom-system of cluster 0a1b2c3d"
    await simulated.edit([SetValue(LEDGER, "Manager", build_sz(whose))])
    before = await simulated.registry(LEDGER)
    desk.write(SETTINGS)
    for command in ("diff", "apply", "rollback"):
        answer = await desk.transom(command, "-f", str(desk.manifests), "-o", "json")
        (host,) = answer.hosts
        # a diff has not compared it
        assert (answer.code, host["result"]) == (3 if command == "diff" else 1, "skipped")
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
    for option, item in options:
        simulated.host.faults.schedule_fault(Fault(3, "before", "hang"))
        (host,) = (await desk.apply(option)).hosts
        assert item in host["error"]
    simulated.host.faults.schedule_fault(Fault(3, "before", "hang"))
    facts = await desk.transom("facts", *where, options[0][0])
    assert (facts.code, options[0][1] in facts.err) == (1, True)
    assert (await desk.transom("diff", "-f", str(desk.manifests), "--pass-timeout=1")).code == 2
