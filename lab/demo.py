"""``scripts/demo``: the main job on real parts. Each step compares what happened with what it expects."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import yaml

from lab.egress import Egress
from lab.machine import Machine
from lab.network import Network

USER, PASSWORD = "alice", 'hunter2%^&!"\\é x'
KEYS = (
    r"HKLM\SYSTEM\CurrentControlSet\Services\containerd",
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment",
)
NO_NAME, NO_CA = "no such host", "certificate signed by unknown authority"


class UnexpectedError(Exception):
    """The demo saw something else than it said it would."""


def main(log: Path) -> None:
    """Run the demo; exit code 1 if a step had another result than the demo expects."""
    began = time.monotonic()
    try:
        with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="transom-demo-") as directory:
            output = stack.enter_context(log.open("a", encoding="utf-8"))
            network = stack.enter_context(Network())
            egress = stack.enter_context(Egress(network, USER, PASSWORD))
            machine = stack.enter_context(Machine("win-1", place=network.add_place(), containerd=True))
            machine.boot()
            machine.wait_for("containerd", "RUNNING")
            _Story(machine, egress, Path(directory), output).tell()
    except UnexpectedError as error:
        sys.exit(f"\nThe demo failed: {error}. The output of its commands is in {log}")
    _print_lines(
        f"\nThe demo passed in {time.monotonic() - began:.0f} s. Its manifests and the output of its commands are in {log}",
        "README.md describes how to use Transom; `transom demo` runs on any Linux, on a simulated host.",
    )


class _Story:
    """The host, its proxy, and the manifests of the person who looks after both."""

    def __init__(self, machine: Machine, egress: Egress, directory: Path, output: TextIO) -> None:
        self._machine, self._egress, self._directory, self._output = machine, egress, directory, output
        self._manifests = directory / "manifests"
        self._manifests.mkdir()
        self._before, self._boots = self._read_exports(), machine.read_boot_count()

    def tell(self) -> None:
        """All chapters. Raises UnexpectedError."""
        _print_lines(
            "",
            "A Windows host (Wine) runs the unmodified containerd.exe as a service. Its network has one way out: a proxy that",
            "requires a password and decrypts TLS. Only the proxy can resolve the name of the registry.",
        )
        _print_chapter("1. Without settings, containerd.exe cannot pull an image")
        self._pull(NO_NAME)

        _print_chapter("2. Apply the proxy settings, without the proxy's CA")
        self._write(self._build_settings())
        self._apply(changed=True)
        self._pull(NO_CA)

        _print_chapter("3. Add the proxy's CA")
        self._write({**self._build_settings(), "trustedCA": {"name": "corp-ca"}})
        self._apply(changed=True)
        self._pull(None)
        self._show_requests()

        _print_chapter("4. Apply the same settings again")
        self._apply(changed=False)

        _print_chapter("5. The proxy gets another CA")
        self._egress.rotate()
        self._pull(NO_CA)
        self._write({**self._build_settings(), "trustedCA": {"name": "corp-ca"}})
        self._apply(changed=True)
        self._pull(None)

        _print_chapter("6. Remove the settings")
        self._write({})
        self._apply(changed=True)
        self._pull(NO_NAME)
        self._check_nothing_is_left()

    def _build_settings(self) -> dict[str, Any]:
        return {
            "httpProxy": self._egress.url,
            "httpsProxy": self._egress.url,
            "noProxy": ".internal.corp.example",
            "credentialsSecret": {"name": "egress-credentials"},
            "networks": {
                "machineNetwork": ["10.0.0.0/16"],
                "serviceNetwork": ["10.96.0.0/16"],
                "podNetwork": ["10.244.0.0/16"],
                "internalAPIHost": "api.internal.corp.example",
            },
        }

    def _write(self, spec: Mapping[str, Any]) -> None:
        ssh, place = self._machine.ssh, self._machine.place
        host = {"address": place.address, "port": place.port, "username": ssh.user, "hostKey": ssh.host_key}
        others = [
            _build_object("WindowsInstance", "win-1", "transom.dev/v1alpha1", spec=host),
            _build_object("Secret", "cloud-private-key", "v1", stringData={"private-key.pem": ssh.key.read_text()}),
            _build_object("Secret", "egress-credentials", "v1", stringData={"username": USER, "password": PASSWORD}),
            _build_object("ConfigMap", "corp-ca", "v1", data={"ca-bundle.crt": self._egress.certificate}),
        ]
        egress = [_build_object("EgressProxy", "cluster", "transom.dev/v1alpha1", spec=dict(spec))]
        for name, objects in (("egress.yaml", egress), ("others.yaml", others)):
            text: str = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, default_flow_style=None)
            (self._manifests / name).write_text(text, "utf-8")

    def _apply(self, *, changed: bool) -> None:
        manifests = (self._manifests / "egress.yaml").read_text("utf-8")
        environment = {**os.environ, "XDG_STATE_HOME": str(self._directory / "state")}
        command = [sys.executable, "-m", "transom", "apply", "-f", str(self._manifests), "--output", "json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        print(f"{manifests}\n$ transom apply -f manifests --output json\n{done.stderr}{done.stdout}", file=self._output)
        if done.returncode != 0:
            raise UnexpectedError(f"transom apply ended with {done.returncode}")
        (host,) = json.loads(done.stdout)["hosts"]
        _print_result("apply", f"{host['result']} in {host['seconds']:.1f} s{_format_summary(host)}")
        if host["result"] != ("changed" if changed else "unchanged"):
            raise UnexpectedError(f"transom apply reports {host['result']}")

    def _pull(self, problem: str | None) -> None:
        image = self._egress.format_image("none")
        done = self._machine.run(r"C:\lab\cri-pull.exe", image)
        text = done.stdout.decode().strip()
        print(f"$ cri-pull.exe {image}     (calls the containerd service, as kubelet does)\n{text}\n", file=self._output)
        # the error repeats the image and the request; the last part is the cause
        cause = text.rpartition('": ')[2]
        _print_result("pull", f"pulled {text.split()[2]}" if done.returncode == 0 else f"failed: {cause}")
        if (done.returncode == 0) is not (problem is None) or (problem and problem not in text):
            raise UnexpectedError(f"the pull should have {f'failed with «{problem}»' if problem else 'worked'}")

    def _show_requests(self) -> None:
        seen = [request for request in self._egress.list_requests() if request.user == USER]
        print(*seen, sep="\n", file=self._output)
        if {request.method for request in seen} < {"CONNECT", "HEAD"}:
            raise UnexpectedError("the proxy should have seen CONNECT and HEAD by its user")
        _print_result("proxy", f"{len(seen)} requests of user {USER}, the last: {seen[-1].method} {seen[-1].url[:60]}...")

    def _check_nothing_is_left(self) -> None:
        ledger = self._machine.export(r"HKLM\SOFTWARE\Transom")
        files = [file.name for file in self._machine.find_path(r"C:\Windows").iterdir()]
        if ledger or "Transom" in files or self._read_exports() != self._before:
            raise UnexpectedError("something of Transom's was left on the host")
        _print_result("host", "the registry keys of containerd and of the machine's environment are byte for byte as before;")
        _print_result("", f"Transom's own key and directory are gone; reboots: {self._machine.read_boot_count() - self._boots}")

    def _read_exports(self) -> tuple[str, ...]:
        return tuple(self._machine.export(key) for key in KEYS)


def _build_object(kind: str, name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _format_summary(host: Mapping[str, Any]) -> str:
    """Return what changed on a host, by action: names of variables, numbers of certificates."""
    parts = []
    for action, verb in (("add", "added"), ("remove", "removed")):
        changes = [change for change in host["changes"] if change["action"] == action]
        names = [change["target"].rpartition(": ")[2] for change in changes if change["kind"] == "service-environment"]
        certificates = sum(change["kind"] == "certificate" for change in changes)
        counted = [f"{certificates} trusted certificate"] if certificates else []
        if names or counted:
            parts.append(f"{', '.join([*names, *counted])} {verb}")
    parts += [f"{service} restarted" for service in host["restarted"]]
    return f": {'; '.join(parts)}" if parts else ": nothing written, nothing restarted"


def _print_lines(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def _print_chapter(title: str) -> None:
    _print_lines(_format_bold(title))


def _print_result(name: str, text: str) -> None:
    _print_lines(f"     {_format_dim(f'{name:6}')} {text}")


def _has_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _format_bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if _has_colors() else text


def _format_dim(text: str) -> str:
    return f"\033[2m{text}\033[0m" if _has_colors() else text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lab.demo")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="where the output of the commands goes")
    main(parser.parse_args().log)
