"""`transom apply` against a host: exact, idempotent, undone without a trace, and silent about secrets."""

import asyncio
import base64
import signal
from pathlib import Path
from urllib.parse import unquote

from tests.apply.traces import CA, OWN, ROOT, A, B, issuing, root_1, root_2, seen
from tests.apply.windows import (
    ENCODED,
    NO_PROXY,
    PASSWORD,
    PEM,
    SERVICES,
    SETTINGS,
    URL,
    Desk,
    Simulated,
    Windows,
    difference,
    values,
)
from tests.support.waiting import until
from tests.windows.authorities import der, sha1

from transom.windows.host.queries import ENVIRONMENT, LEDGER, STORES
from transom.windows.parts import certificates
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_multi_sz, build_sz
from winsim import Simulator

ITEMS = [f"HTTP_PROXY={URL}", f"HTTPS_PROXY={URL}", f"NO_PROXY={NO_PROXY}"]


async def test_apply_again_remove(windows: Windows, desk: Desk) -> None:
    await windows.edit(OWN)
    before, stores = await seen(windows), await windows.registry(STORES)
    desk.write({**SETTINGS, "windows": {"environmentScope": "Both"}})

    (planned,) = (await desk.transom("diff", "-f", str(desk.manifests), "-o", "json")).hosts
    assert planned["error"] is None
    assert (planned["result"], planned["restarted"]) == ("changed", [])
    assert difference(before, await seen(windows)) == []

    answer = await desk.apply()
    (host,) = answer.hosts
    assert (answer.code, host["result"], host["error"]) == (0, "changed", None)
    assert host["channels"] <= 4
    assert sorted(host["restarted"]) == sorted(SERVICES)
    assert host["changes"] == planned["changes"]
    after = await seen(windows)
    environment = after.find_value(A, "Environment")
    assert environment is not None
    assert environment.to_texts() == ("GODEBUG=x=1", ITEMS[2], "B=%PATH% é", *ITEMS[:2])
    assert after.find_value(B, "Environment") == build_multi_sz(ITEMS)
    assert [after.find_value(ENVIRONMENT, item.split("=")[0]) for item in ITEMS] == [
        build_sz(item.split("=", 1)[1]) for item in ITEMS
    ]
    for path, certificate in ((ROOT, root_1), (ROOT, root_2), (CA, issuing)):
        blob = after.find_value(rf"{path}\{sha1(certificate)}", "Blob")
        assert certificates.parse_certificate(blob) == der(certificate)
    for service in SERVICES:
        starts = await windows.environments(service)
        assert len(starts) == 2
        assert starts[-1]["HTTPS_PROXY"] == URL
        assert starts[-1]["NO_PROXY"] == NO_PROXY

    (again,) = (await desk.apply()).hosts
    assert (again["result"], again["changes"], again["channels"]) == ("unchanged", [], 2)
    assert difference(after, await seen(windows)) == []

    desk.write({"windows": {"environmentScope": "Both"}})
    (removed,) = (await desk.apply()).hosts
    assert (removed["result"], removed["error"]) == ("changed", None)
    assert removed["channels"] <= 4
    assert difference(before, await seen(windows)) == []
    assert values(stores).keys() <= values(await windows.registry(STORES)).keys()
    assert not {key.path.casefold() for key in await windows.registry(STORES)} & {
        rf"{ROOT}\{sha1(root_1)}".casefold(),
        rf"{CA}\{sha1(issuing)}".casefold(),
    }
    assert "Transom" not in windows.files()


async def test_a_later_change_of_a_person_is_drift_and_survives_removal(windows: Windows, desk: Desk) -> None:
    desk.write(SETTINGS)
    await desk.apply()
    theirs = [ITEMS[0], "HTTPS_PROXY=http://theirs.example:1", ITEMS[2]]
    await windows.edit([SetValue(A, "Environment", build_multi_sz(theirs))])
    (planned,) = (await desk.transom("diff", "-f", str(desk.manifests), "-o", "json")).hosts
    assert [c["target"] for c in planned["changes"] if "drift" in c["reason"]] == ["recorder-a: HTTPS_PROXY"]
    desk.write({})
    await desk.apply()
    assert (await seen(windows)).find_value(A, "Environment") == build_multi_sz([theirs[1]])
    assert (await seen(windows)).find_value(B, "Environment") is None
    assert not len(await windows.registry(LEDGER))


async def test_a_rotated_ca_replaces_the_old_one(windows: Windows, desk: Desk) -> None:
    desk.write({**SETTINGS}, bundle=PEM[0])
    await desk.apply()
    desk.write({**SETTINGS}, bundle=PEM[1])
    (host,) = (await desk.apply()).hosts
    assert [(c["kind"], c["action"]) for c in host["changes"] if c["kind"] == "certificate"] == [
        ("certificate", "add"),
        ("certificate", "remove"),
    ]
    held = {key.path.rsplit("\\", 1)[1] for key in await windows.registry(ROOT)}
    assert sha1(root_2) in held
    assert sha1(root_1) not in held


async def test_the_password_is_nowhere(windows: Windows, desk: Desk) -> None:
    await windows.edit([SetValue(A, "Environment", build_multi_sz([f"HTTP_PROXY=http://old:{PASSWORD}@old.example"]))])
    desk.write(SETTINGS)
    said = ""
    for arguments in (
        ("diff", "-v"),
        ("apply", "-v"),
        ("apply", "-o", "json"),
        ("diff", "-o", "yaml"),
        ("validate",),
        ("render",),
    ):
        answer = await desk.transom(arguments[0], "-f", str(desk.manifests), *arguments[1:])
        said += answer.out + answer.err
    key = desk.directory / "key"
    key.write_text(windows.key)
    key.chmod(0o600)
    services = [option for name in SERVICES for option in ("--service", name)]
    where = (windows.address, "--port", str(windows.port), "--username", windows.user, "--key", str(key))
    facts = await desk.transom("facts", *where, *services, "-o", "json")
    assert (facts.code, facts.err) == (0, "")
    assert '"HTTP_PROXY": "http://***@proxy.corp.example:3128"' in facts.out
    said += facts.out + "\n".join(windows.commands())
    state = [file.read_text(errors="replace") for file in (desk.directory / "state").rglob("*") if file.is_file()]
    said += "\n".join(state)
    for secret in (
        PASSWORD,
        ENCODED,
        "hunter2",
        *(base64.b64encode(f"{u}{PASSWORD}".encode()).decode() for u in ("", "alice:")),
    ):
        assert secret not in said
        assert secret not in unquote(said)


async def test_two_commands_at_once_and_a_killed_one(windows: Windows, desk: Desk, tmp_path: Path) -> None:
    """One works, the other says who does; what a killed one held is void after a boot."""
    other = Desk(tmp_path / "other", windows)
    for each in (desk, other):
        each.write(SETTINGS)
    first, second = await asyncio.gather(desk.apply(), other.apply())
    assert sorted((first.code, second.code)) in ([0, 0], [0, 1])
    for answer in (first, second):
        (host,) = answer.hosts
        assert answer.code == 0 or "the host is locked by" in host["error"]
    assert (await desk.apply()).code == (await other.apply()).code == 0

    desk.write({})
    process = await desk.start("apply", "-f", str(desk.manifests))
    await until(lambda: any("change.cmd" in command for command in windows.commands()[-1:]), every=0.01)
    await asyncio.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    other.write({})
    (host,) = (await other.apply()).hosts
    assert host["error"] is None or "the host is locked by" in host["error"]
    await windows.reboot()
    (host,) = (await other.apply()).hosts
    assert host["error"] is None
    assert not len(await windows.registry(LEDGER))
    for service in SERVICES:
        assert "HTTP_PROXY" not in (await windows.environments(service))[-1]


async def test_one_hosts_trouble_is_its_own(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        services = {"recorder-a": (), "recorder-b": ()}
        hosts = [Simulated(simulator, await simulator.add_host(f"win-{n}", services=services)) for n in range(5)]
        desk = Desk(tmp_path / "desk", *hosts)
        desk.write(SETTINGS)
        assert (await desk.apply()).code == 0
        dead, changed, full, stuck, good = (host.host for host in hosts)
        dead.cut_power()
        await simulator.change_host_key(changed)
        full.files.free = 0
        stuck.edit([SetValue(A, "Environment", build_sz("not a list"))])
        desk.write({**SETTINGS, "noProxy": ".other.example"})
        answer = await desk.apply()
        assert answer.code == 1
        errors = {host["name"]: host["error"] for host in answer.hosts}
        assert "connection" in errors["win-1"]
        assert "the host key is not the expected one" in errors["win-2"]
        assert "disk" in errors["win-3"]
        assert "Environment is REG_SZ; Windows reads REG_MULTI_SZ" in errors["win-4"]
        rest = (await hosts[3].environments("recorder-b"))[-1]
        assert ".other.example" in rest["NO_PROXY"], "the rest of the host is done"
        assert errors["win-5"] is None
        assert ".other.example" in (await hosts[4].environments("recorder-a"))[-1]["NO_PROXY"]
        assert good.unknown == []
        assert "Traceback" not in answer.out + answer.err
