"""The commands before and after the join on a Windows machine: afterwards it is as a host that was configured over SSH."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lab.machine import Machine
from tests.apply.windows import ENCODED, SETTINGS, Desk, Wine, values
from tests.capi.first_boot import boot
from tests.windows.authorities import authorities, der, sha1

from transom.capi.check.worker_inputs import InputFile
from transom.proxy.settings import Egress
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, STORES
from transom.windows.ledger import MANAGER
from transom.windows.parts import certificates
from transom.windows.registry.edits import DeleteKey, DeleteValue, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_binary, build_multi_sz

pytestmark = pytest.mark.lab

NAMES = ("containerd", "kubelet")
PROGRAM = r"C:\lab\recorder.exe {0} C:\lab\{0}.jsonl"
RECREATE = "\r\n".join(
    [
        "@echo off",
        "sc stop kubelet >nul",
        "ping -n 4 127.0.0.1 >nul",
        "sc delete kubelet >nul",
        f'sc create kubelet binPath= "{PROGRAM.format("kubelet")}" start= demand >nul',
        "sc start kubelet >nul",
        "",
    ]
)
root_1, root_2, issuing = authorities()
SALTED = ("salt", "statehash", "version")
HELD = rf"{certificates.get_store_path('ROOT')}\{sha1(root_2)}"
FRIENDLY_NAME = bytes.fromhex("0b0000000100000004000000") + "a\0".encode("utf-16-le")
BLOB = build_binary(FRIENDLY_NAME + certificates.build_blob(der(root_2), sha1(root_2)).data)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A worker's image: containerd and kubelet are services, and one of the CAs is trusted already."""
    with Machine() as made:
        made.boot()
        for name in NAMES:
            made.run("sc", "create", name, "binPath=", PROGRAM.format(name), "start=", "demand")
            made.start(name)
        yield made


@pytest.fixture
def desk(machine: Machine, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "desk", Wine(machine))
    desk.write(SETTINGS, services=NAMES)
    return desk


def egress(desk: Desk) -> Egress:
    settings = examine_objects(load_objects([str(desk.manifests)]), datetime.now(UTC), None).settings.own
    assert settings is not None
    return settings


async def seen(host: Wine) -> Registry:
    stores = [rf"{certificates.get_store_path('ROOT')}\{sha1(root)}" for root in (root_1, root_2)]
    stores.append(rf"{certificates.get_store_path('CA')}\{sha1(issuing)}")
    return await host.registry(*stores, LEDGER, *(rf"{SERVICES}\{name}" for name in NAMES))


def comparable(registry: Registry) -> dict[str, dict[str, object]]:
    """Without what a random salt decides, the services' own figures, and the key that a restart over SSH leaves empty."""
    found: dict[str, dict[str, object]] = {}
    for path, held in values(registry).items():
        kept: dict[str, object] = {name: named.value for name, named in held.items()}
        if path.startswith(LEDGER.casefold()):
            # at the first boot nobody knows yet who will manage the host
            left_out = {*SALTED, MANAGER.casefold()}
            kept = {name: _unsalted(named.value.decode_text()) for name, named in held.items() if name not in left_out}
        elif path.startswith(SERVICES.casefold()):
            kept = {"environment": kept.get("environment")}
        if path != RESTARTS.casefold():
            found[path] = kept
    return found


def _unsalted(text: str) -> object:
    if not text.startswith("{"):
        return text
    return {key: value for key, value in json.loads(text).items() if key not in ("set", "subject")}


async def test_the_commands_leave_the_state_of_a_host_configured_over_ssh(machine: Machine, desk: Desk) -> None:
    host = Wine(machine)
    await host.edit([SetValue(HELD, "Blob", BLOB)])
    await asyncio.to_thread(
        boot,
        machine,
        egress(desk),
        files=(InputFile("C:/k/recreate.cmd", RECREATE),),
        post_kubeadm_commands=(r"cmd.exe /d /c C:\k\recreate.cmd",),
    )
    first = await seen(host)
    assert first.find_value(HELD, "Blob") == BLOB
    log = (machine.drive / "k" / "proxy.log").read_text().splitlines()
    # after the join once more: kubelet's service was made again, and lost its environment
    assert log == ["imported", "restarted containerd", "restarted kubelet", "imported", "restarted kubelet"]
    assert not (machine.drive / "k" / "proxy.reg").exists()
    for name in NAMES:
        assert machine.read_state(name) == "RUNNING"
        assert f"http://alice:{ENCODED}@" in str(machine.list_starts(name)[-1].get_variable("HTTPS_PROXY"))

    answer = await desk.transom("diff", "-f", str(desk.manifests), "-o", "json")
    (told,) = answer.hosts
    assert (answer.code, told["result"], told["changes"]) == (0, "unchanged", []), answer.out

    # a machine of Wine has no store CA before
    certificates_of_ours = [rf"{certificates.get_store_path('ROOT')}\{sha1(root_1)}", rf"{STORES}\CA"]
    await host.edit(
        [
            *(DeleteValue(rf"{SERVICES}\{name}", "Environment") for name in NAMES),
            *map(DeleteKey, (LEDGER, *certificates_of_ours)),
        ]
    )
    applied = await desk.apply()
    assert (applied.code, applied.hosts[0]["result"]) == (0, "changed"), applied.out
    assert comparable(await seen(host)) == comparable(first)


async def test_an_environment_of_the_images_own_is_not_overwritten(machine: Machine, desk: Desk) -> None:
    host = Wine(machine)
    theirs = SetValue(rf"{SERVICES}\containerd", "Environment", build_multi_sz(["GODEBUG=x=1"]))
    await host.edit([theirs])
    await asyncio.to_thread(boot, machine, egress(desk))
    found = await seen(host)
    assert found.find_value(theirs.path, "Environment") == theirs.value
    assert found.find_key(LEDGER) is None
    assert "the image sets an Environment for containerd" in (machine.drive / "k" / "proxy.log").read_text()
