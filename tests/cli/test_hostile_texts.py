"""What hosts and servers say reaches terminals, logs, conditions and events without its control characters."""

import asyncio
import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tests.apply.windows import PROXY, Desk, Simulated
from tests.cli.hostile_texts import CONTROLS, HOSTILE, LETTERS, OURS, WIDE
from tests.cli.servers import saying
from tests.cli.terminals import Terminal
from tests.support.bundles import config_map, egress_proxy, write
from tests.support.process import run

from transom.hosts.scripts.template import BASE
from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_multi_sz, build_sz
from winsim import Simulator

pytestmark = pytest.mark.server


@pytest.fixture
async def desk(simulator: Simulator, tmp_path: Path) -> Desk:
    """A host whose every text is hostile, and somebody's manifests of it."""
    host = await simulator.add_host("win", services={"recorder-a": (), "recorder-b": ("recorder-a",)})
    host.name = HOSTILE
    edits = [
        SetValue(
            rf"{SERVICES}\recorder-a", "Environment", build_multi_sz([f"HTTP_PROXY={WIDE}", f"A{WIDE}={WIDE}", "no equals"])
        )
    ]
    edits += [SetValue(rf"{SERVICES}\recorder-a", name, build_sz(WIDE)) for name in ("DisplayName", "Description", "ImagePath")]
    edits += [SetValue(ENVIRONMENT, "HTTPS_PROXY", build_sz(WIDE))]
    edits += [SetValue(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion", "ProductName", build_sz(WIDE))]
    host.edit(edits)
    return Desk(tmp_path / "desk", Simulated(simulator, host))


def host_commands(desk: Desk) -> dict[str, tuple[str, ...]]:
    (host,) = desk.hosts
    key = desk.directory / "key"
    key.write_text(host.key)
    key.chmod(0o600)
    where = ("-f", str(desk.manifests))
    facts = ("facts", host.address, "--port", str(host.port), "--username", host.user, "--key", str(key))
    return {
        "facts": (*facts, "--service", "recorder-a", "--show-secrets"),
        "diff": ("diff", *where),
        "apply": ("apply", *where),
        "rollback": ("rollback", *where),
    }


@pytest.mark.parametrize("command", ["facts", "diff", "apply", "rollback"])
async def test_what_a_host_says(desk: Desk, command: str) -> None:
    desk.write({"httpProxy": PROXY, "httpsProxy": PROXY})
    arguments = host_commands(desk)[command]
    answer = await desk.transom(*arguments)
    assert "Traceback" not in answer.err
    assert CONTROLS.findall(answer.out + answer.err) == []
    if command == "facts":
        assert LETTERS in answer.out.splitlines()[0]
        assert "[red]:boom:" in answer.out
        assert answer.code == 0


async def test_json_and_yaml_hold_what_the_host_said(desk: Desk) -> None:
    desk.write({})
    facts = host_commands(desk)["facts"]
    answer = await desk.transom(*facts, "-o", "json")
    assert CONTROLS.findall(answer.out) == []
    assert json.loads(answer.out)["services"]["recorder-a"]["environment"]["HTTP_PROXY"] == WIDE
    answer = await desk.transom(*facts, "-o", "yaml")
    told = yaml.safe_load(answer.out)["services"]["recorder-a"]["environment"]["HTTP_PROXY"]
    # YAML has no half characters
    assert told == WIDE.replace("\ud800", r"\ud800")


async def test_who_holds_the_host(desk: Desk) -> None:
    """What the lock on a host says of its holder."""
    desk.write({"httpProxy": PROXY, "httpsProxy": PROXY})
    (simulated,) = desk.hosts
    assert isinstance(simulated, Simulated)
    simulated.host.name = "win"
    simulated.host.edit([SetValue(rf"{SERVICES}\recorder-a", "Environment", build_multi_sz([]))])
    files = simulated.host.files
    files.make_directories(rf"{BASE}\lock")
    for name, text in (("owner.txt", HOSTILE), ("generation.txt", "-"), (f"boot-{hex(simulated.host.boot_id)}", "1")):
        files.write(rf"{BASE}\lock\{name}", text.encode())
    answer = await desk.transom("apply", "-f", str(desk.manifests))
    assert answer.code == 1
    assert LETTERS in answer.out
    assert CONTROLS.findall(answer.out + answer.err) == []


@contextmanager
def disconnecting(greeting: bytes) -> Iterator[int]:
    """A server that says this where SSH is expected, and goes."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(greeting)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("greeting", [f"SSH-2.0-{HOSTILE}\r\n", f"{HOSTILE}\r\n", f"SSH-1.5-{HOSTILE}\r\n"])
async def test_who_answers_instead_of_ssh(desk: Desk, greeting: str) -> None:
    desk.write({})
    with disconnecting(greeting.encode()) as port:
        facts = list(host_commands(desk)["facts"])
        facts[facts.index("--port") + 1] = str(port)
        answer = await desk.transom(*facts)
    assert answer.code == 1
    assert CONTROLS.findall(answer.out + answer.err) == []


SAID = WIDE.replace("\ud800", "")


@pytest.fixture
def hostile_server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An API server that refuses everything with control characters; the environment of who asks it."""

    with saying(403, SAID, SAID) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        yield {**Terminal(tmp_path).environment, "KUBECONFIG": str(tmp_path / "config")}


CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "c", "namespace": "org"},
    "spec": {"clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/16"]}}},
}
ON_CLUSTERS = [
    ("validate",),
    ("render",),
    ("userdata",),
    ("diff",),
    ("apply", "--context", "c"),
    ("rollback", "--context", "c"),
    ("no-proxy", "merge"),
    ("pods", "outdated"),
    ("pods", "explain", "-f", "POD", "--context", "c"),
    ("adopt", "--from", "wmco"),
    ("adopt", "--from", "cluster-apps-operator"),
    ("apply", "-f", "MANIFESTS", "--objects", "--context", "c"),
    ("diff", "-f", "MANIFESTS", "--objects", "--context", "c"),
    ("capi", "worker", "--cluster", "c", "--provider", "aws", "--context", "c"),
]


def transom(arguments: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run(*arguments, environment=environment)


@pytest.mark.parametrize("command", ON_CLUSTERS, ids="-".join)
def test_what_an_api_server_says(command: tuple[str, ...], hostile_server: dict[str, str], tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    (tmp_path / "pod").mkdir()
    (tmp_path / "manifests").mkdir()
    places = {
        "POD": write(tmp_path / "pod", pod),
        "MANIFESTS": write(tmp_path / "manifests", egress_proxy({"httpProxy": "http://p.x:1"}), CLUSTER),
    }
    done = transom(tuple(places.get(item, item) for item in command), hostile_server)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert CONTROLS.findall(done.stdout + done.stderr) == []


def test_a_servers_word_is_told_in_letters(hostile_server: dict[str, str]) -> None:
    done = transom(("validate",), hostile_server)
    assert LETTERS + r"\x9b2J\x7f\u202e\u2066\u2028[red]:boom:" in done.stderr


def test_what_stands_in_manifests(tmp_path: Path) -> None:
    """The objects may be a tenant's; carets stand below what is meant, as it is shown."""
    spec = {"httpProxy": "http://p.x:1", "noProxy": f"a.b,{HOSTILE}"}
    bundle = config_map(f"x{HOSTILE}", {"ca-bundle.crt": HOSTILE})
    directory = write(tmp_path, egress_proxy(spec | {"trustedCA": {"name": f"x{HOSTILE}"}}), bundle)
    done = transom(("validate", "-f", directory), Terminal(tmp_path).environment)
    assert done.returncode == 2
    assert "owned" in done.stdout
    assert CONTROLS.findall(done.stdout + done.stderr) == []


@pytest.mark.parametrize("command", ["facts", "apply"])
async def test_on_a_terminal_there_are_our_colours_alone(desk: Desk, command: str, tmp_path: Path) -> None:
    desk.write({"httpProxy": PROXY, "httpsProxy": PROXY})
    arguments = host_commands(desk)[command]
    terminal = Terminal(tmp_path)
    environment = {**terminal.environment, "FORCE_COLOR": "1", "XDG_STATE_HOME": str(tmp_path / "state")}

    def on_terminal() -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "transom", *arguments], stdout=terminal.far, stderr=terminal.far, env=environment
        )
        shown = terminal.read()
        process.wait()
        return shown

    written = await asyncio.to_thread(on_terminal)
    assert "\x1b[" in written
    assert CONTROLS.findall(OURS.sub("", written)) == []
    if command == "facts":
        # rich folds what is wider than the terminal
        assert r"\x1b]0;owned\x07" in OURS.sub("", written).replace("\n", "").replace(" ", "")


def test_log_lines_for_people(tmp_path: Path) -> None:
    program = f"""
import logging, structlog
from transom.operations import logs
logs.configure("console", "info")
text = {HOSTILE!r} + "\\u202e\\x9b\\ud800"
structlog.get_logger("x").warning("not done " + text, error=text, **{{"n" + text: ValueError(text)}})
logging.getLogger("asyncssh").warning("said %s", text)
try:
    raise ValueError(text)
except ValueError:
    structlog.get_logger("x").exception("a fault")
    logging.getLogger("y").exception("another")
"""
    for extra in ({}, {"FORCE_COLOR": "1"}):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **extra}, capture_output=True, text=True, check=True
        )
        assert CONTROLS.findall(OURS.sub("", done.stderr)) == []
        assert done.stderr.count("owned") >= 5
