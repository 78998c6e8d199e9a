"""``scripts/demo``: the main job on real parts. Every step says what it expects, looks, and fails when it is not so."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

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


def main() -> None:
    """Tell the story; exit code 1 when it did not come true."""
    began = time.monotonic()
    try:
        with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="transom-demo-") as directory:
            network = stack.enter_context(Network())
            egress = stack.enter_context(Egress(network, USER, PASSWORD))
            machine = stack.enter_context(Machine("win-1", place=network.place(), containerd=True))
            machine.boot()
            machine.wait_for("containerd", "RUNNING")
            _Story(machine, egress, Path(directory)).tell()
    except UnexpectedError as error:
        sys.exit(f"\nThe demo failed: {error}")
    _say(
        f"\nThat was all, in {time.monotonic() - began:.0f} s. README.md says how to use it; transom --help lists the commands."
    )


class _Story:
    """The host, the way out, and the manifests of the person who looks after both."""

    def __init__(self, machine: Machine, egress: Egress, directory: Path) -> None:
        self._machine, self._egress, self._directory = machine, egress, directory
        self._manifests = directory / "manifests"
        self._manifests.mkdir()
        self._before, self._boots = self._exports(), machine.boots()

    def tell(self) -> None:
        """All chapters. Raises UnexpectedError."""
        _say(
            "A Windows host (Wine) runs the real, unmodified containerd.exe as a service. Its network has one way out:",
            "a proxy that asks for a password and decrypts TLS. The registry's name is known to the proxy alone.",
        )
        _chapter("1. Before: containerd cannot pull")
        self._pull(NO_NAME)

        _chapter("2. The proxy settings, from a directory of manifests, without the CA")
        self._write(self._settings())
        self._show()
        self._apply(changed=True)
        _say("containerd was restarted with the proxy in its own environment. The host was not rebooted.")
        _say("Now the pull reaches the proxy, and does not trust what the proxy signs:")
        self._pull(NO_CA)

        _chapter("3. With the CA of the proxy")
        self._write({**self._settings(), "trustedCA": {"name": "corp-ca"}})
        self._apply(changed=True)
        self._pull(None)
        self._log()

        _chapter("4. The same again: nothing differs, nothing is written, nothing is restarted")
        self._apply(changed=False)

        _chapter("5. The proxy gets a new CA, and so do the manifests")
        self._egress.rotate()
        self._pull(NO_CA)
        self._write({**self._settings(), "trustedCA": {"name": "corp-ca"}})
        self._apply(changed=True)
        self._pull(None)

        _chapter("6. The proxy is removed from the manifests")
        self._write({})
        self._apply(changed=True)
        self._pull(NO_NAME)
        self._nothing_left()

    def _settings(self) -> dict[str, Any]:
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
            _object("WindowsInstance", "win-1", "transom.dev/v1alpha1", spec=host),
            _object("Secret", "cloud-private-key", "v1", stringData={"private-key.pem": ssh.key.read_text()}),
            _object("Secret", "egress-credentials", "v1", stringData={"username": USER, "password": PASSWORD}),
            _object("ConfigMap", "corp-ca", "v1", data={"ca-bundle.crt": self._egress.certificate}),
        ]
        egress = [_object("EgressProxy", "cluster", "transom.dev/v1alpha1", spec=dict(spec))]
        for name, objects in (("egress.yaml", egress), ("others.yaml", others)):
            text: str = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, default_flow_style=None)
            (self._manifests / name).write_text(text, "utf-8")

    def _show(self) -> None:
        _say(*(_dim("  " + line) for line in (self._manifests / "egress.yaml").read_text("utf-8").splitlines()))

    def _apply(self, *, changed: bool) -> None:
        _say(_bold("$ transom apply -f manifests"))
        environment = {**os.environ, "XDG_STATE_HOME": str(self._directory / "state")}
        command = [sys.executable, "-m", "transom", "apply", "-f", str(self._manifests)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        _say(*("  " + line.rstrip() for line in done.stdout.splitlines()))
        if done.returncode != 0 or ("1 unchanged" in done.stdout) is changed:
            raise UnexpectedError(
                f"transom ended with {done.returncode}, {'a change' if changed else 'no change'} was expected"
            )

    def _pull(self, problem: str | None) -> None:
        image = self._egress.image("none")
        _say(_bold(f"$ cri-pull.exe {image}") + _dim("      (asks the containerd service, as kubelet does)"))
        done = self._machine.run(r"C:\lab\cri-pull.exe", image)
        told = done.stdout.decode().strip()
        # the error names the image and the request again and again; what is new in it comes last
        _say(
            "  "
            + (_dim("pulled: ") + told.split()[2] if done.returncode == 0 else _dim("failed: ") + told.rpartition('": ')[2])
        )
        if (done.returncode == 0) is not (problem is None) or (problem and problem not in told):
            raise UnexpectedError(f"the pull should have {f'failed with «{problem}»' if problem else 'worked'}")

    def _log(self) -> None:
        _say("What the proxy saw:")
        seen = [request for request in self._egress.requests() if request.user == USER]
        _say(*(_dim(f"  {request.status}  {request.method}  {request.url}  user {request.user}") for request in seen[-4:]))
        if {request.method for request in seen} < {"CONNECT", "HEAD"}:
            raise UnexpectedError("the proxy should have seen CONNECT and HEAD by its user")

    def _nothing_left(self) -> None:
        ledger = self._machine.export(r"HKLM\SOFTWARE\Transom")
        files = [file.name for file in self._machine.path(r"C:\Windows").iterdir()]
        same = self._exports() == self._before
        _say(
            f"The keys of containerd and of the machine's environment are {'' if same else 'NOT '}byte for byte as before.",
            f"Transom's own key is {'still there' if ledger else 'gone'}.",
            f"Its directory is {'still there' if 'Transom' in files else 'gone'}.",
            f"The host was booted {self._machine.boots() - self._boots} times meanwhile.",
        )
        if ledger or "Transom" in files or not same:
            raise UnexpectedError("something of Transom's was left on the host")

    def _exports(self) -> tuple[str, ...]:
        return tuple(self._machine.export(key) for key in KEYS)


def _object(kind: str, name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def _chapter(title: str) -> None:
    _say("", _bold(title))


def _colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if _colours() else text


def _dim(text: str) -> str:
    return f"\033[2m{text}\033[0m" if _colours() else text


if __name__ == "__main__":
    main()
