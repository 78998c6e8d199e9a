"""Each mistake of the first hour is answered: with its place, the right exit code, and nothing lost or written."""

import asyncio
import io
from pathlib import Path

import pytest
import yaml
from tests.cli.mistakes import ELSEWHERE, GOOD, MISTAKES, OPENS, SERVER_KEY, Mistake
from tests.cli.wrong_inputs import egress, instance, secret
from tests.support.bundles import private_key
from tests.support.command import run
from tests.support.repository import ROOT

from transom.hosts.ssh.ssh_client import parse_private_key as ssh_key
from transom.proxy.secret import Secret
from winsim import Simulator


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    made = tmp_path / "given"
    made.mkdir()
    return made


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.stat().st_size < 1_000_000 else b""
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: f"{row.number} {row.name}".replace(" ", "-"))
def test_a_mistake_is_answered(row: Mistake, directory: Path) -> None:
    for name, text in row.files.items():
        (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    row.prepare(directory)
    before = contents(directory)
    if row.found is not None:
        ran = run("validate", "-f", str(directory), "-o", "json")
        assert [(item["severity"], item["object"], item["field"]) for item in ran.json] == list(row.found)
        assert ran.code == (2 if any(severity == "error" for severity, _, _ in row.found) else 0)
        assert all(item["file"] and item["message"] for item in ran.json)
        assert "hunter2" not in ran.out + ran.err
        if ran.code:
            # whoever did not ask before is told the same, and no host is connected to
            for command in ("diff", "apply"):
                refused = run(command, "-f", str(directory))
                assert refused.code == 2
                assert all(object_ in refused.err and field in refused.err for _, object_, field in row.found)
                assert "hunter2" not in refused.out + refused.err
    for command, code, named in row.commands:
        ran = run(*(part.replace("{d}", str(directory)) for part in command))
        said = " ".join((ran.out + ran.err).split())
        assert ran.code == code, said
        assert [text for text in named if text.replace("{d}", str(directory)) not in said] == [], said
        assert "Traceback" not in said
        assert "hunter2" not in said
    kept = contents(directory)
    assert {name: kept.get(name) for name in before} == before
    assert {name for name in kept if not name.startswith("new/")} == set(before)


def test_each_number_has_a_row() -> None:
    numbers = {row.number for row in MISTAKES}
    assert numbers | ELSEWHERE.keys() == set(range(1, 45))
    assert not numbers & ELSEWHERE.keys()
    for test in ELSEWHERE.values():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text()


async def of_host(directory: Path, simulator: Simulator, key: str, **spec: object) -> tuple[int, str]:
    host = await simulator.add_host("win-1")
    objects = (
        egress(**GOOD),
        instance(address=host.address, port=host.port, **spec),
        secret(stringData={"private-key.pem": key}),
    )
    (directory / "a.yaml").write_text(yaml.safe_dump_all(objects))
    ran = await asyncio.to_thread(run, "diff", "-f", str(directory))
    return ran.code, ran.out


async def test_a_wrong_ssh_key_is_named(simulator: Simulator, directory: Path) -> None:
    code, said = await of_host(directory, simulator, private_key())
    assert code == 3
    assert ssh_key(Secret(private_key())).get_fingerprint() in " ".join(said.split())
    assert OPENS["metadata"]["name"] in said


async def test_a_changed_host_key_names_its_field(simulator: Simulator, directory: Path) -> None:
    key = simulator.client_key.export_private_key().decode()
    code, said = await of_host(directory, simulator, key, hostKey=SERVER_KEY)
    assert code == 3
    assert "spec.hostKey" in said
