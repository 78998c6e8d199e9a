"""The options of `transom run`, and what is wrong with them, before anything is connected to."""

import logging
import re
import sys
from pathlib import Path

import pytest
import structlog
import yaml
from typer.testing import CliRunner

from transom.cli.options import parse_seconds as read
from transom.cli.program import build_program
from transom.controllers.runtime.options import Options
from transom.hosts.ssh.ssh_client import Timeouts
from transom.hosts.steps.payload_directory import LOCK
from transom.kube.connection import Connection
from transom.operations import logs
from transom.operations.server import AddressInvalid, parse_address
from transom.payloads import shipped_payloads
from transom.sources.payload import FILE


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800.0), ("1h30m", 5400.0), ("90s", 90.0), ("1.5h", 5400.0), ("1500ms", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert read(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "30 m", "-1m", "10ms", "1d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        read(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [("0.0.0.0:8080", ("0.0.0.0", 8080)), (":9", ("0.0.0.0", 9)), ("[::1]:80", ("::1", 80)), ("localhost:1", ("localhost", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "::1:80", "host:", "host:http", "host:70000"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressInvalid, match=re.escape(repr(text))):
        parse_address(text)


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--controllers=windows,nobody"], {}, "controller 'nobody'"),
        ([], {"TRANSOM_LOG_FORMAT": "xml"}, "'xml' is neither json nor console"),
        ([], {"TRANSOM_CHECK_INTERVAL": "soon"}, "'soon'"),
        (["--pass-timeout=soon"], {}, "--pass-timeout: 'soon'"),
        ([], {"TRANSOM_CONNECT_TIMEOUT": "1"}, "--connect-timeout: '1'"),
        (["--bind-address=8080"], {"TRANSOM_LOG_LEVEL": "debug"}, "'8080' is not HOST:PORT"),
        (["--kubeconfig=/nowhere/at/all"], {}, "/nowhere/at/all"),
    ],
)
def test_bad_options_end_with_a_sentence(arguments: list[str], environment: dict[str, str], message: str) -> None:
    ended = CliRunner().invoke(build_program(), ["run", *arguments], env=environment)
    assert ended.exit_code == 2
    assert message in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_console_has_no_colours_with_no_color(no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert logs.should_use_colours() == (not no_color)


def test_log_lines_are_json_with_the_key_and_without_local_variables(capfd: pytest.CaptureFixture[str]) -> None:
    secret = "hunter2" * 2  # what a frame may hold when something fails
    logs.configure("json", "info")
    log = structlog.get_logger("test")
    with structlog.contextvars.bound_contextvars(key="ns/win-1"):
        try:
            raise ValueError(len(secret))
        except ValueError:
            log.exception("failed")
        log.debug("not told")
        logging.getLogger("library").warning("told by a library")
    told = capfd.readouterr().err
    assert told.count("\n") == 2
    assert told.count('"key": "ns/win-1"') == 2
    assert "hunter2" not in told
    assert "ValueError: 14" in told


def test_timeouts_of_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Options] = []

    async def kept(_: Connection, options: Options, __: tuple[str, int], *, local_metrics: bool) -> None:
        assert not local_metrics
        told.append(options)

    monkeypatch.setattr("transom.cli.commands.run._run_operator", kept)
    kubeconfig = tmp_path / "config"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [context], "clusters": [cluster]}
    kubeconfig.write_text(yaml.safe_dump(config | {"users": [{"name": "u", "user": {"token": "hunter2"}}]}))
    arguments = ["run", f"--kubeconfig={kubeconfig}", "--log-level=error"]
    for more in ([], ["--connect-timeout=5s", "--channel-timeout=90s", "--pass-timeout=1h"]):
        assert CliRunner().invoke(build_program(), [*arguments, *more]).exit_code == 0
    assert [item.pace.timeouts for item in told] == [Timeouts(10, 60, 900), Timeouts(5, 90, 3600)]


def test_the_shipped_payload_of_another_transom_has_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was fetched for the files of the one is not taken for those of the other; the same files are the same directory."""
    arguments = ["run", "--kubeconfig=/nowhere/at/all", "--payload-kubeadm=v1.36.3", f"--payload-cache={tmp_path}"]

    def directories() -> list[Path]:
        assert "/nowhere/at/all" in CliRunner().invoke(build_program(), arguments).output
        return sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)

    (first,) = directories()
    (first / LOCK).write_text("fetched")
    assert directories() == [first]
    ours = shipped_payloads.build_kubeadm_payload("calico", "v1.36.3")
    later = {**ours, FILE: ours[FILE].replace(b"kind: Payload", b"kind: Payload # of a later version")}
    assert later != ours
    monkeypatch.setattr(shipped_payloads, "build_kubeadm_payload", lambda *_, **__: later)
    (kept, other) = directories()
    assert (kept, (first / FILE).read_bytes()) == (first, ours[FILE])
    assert ((other / FILE).read_bytes(), (other / LOCK).exists()) == (later[FILE], False)
