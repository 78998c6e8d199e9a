"""`transom demo`: the main job in seconds, anywhere, on a simulated Windows host that ends as it began."""

import datetime
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.cli.commands.init import create_authority
from transom.cli.output import ExitCode
from transom.cli.stopping import run_until_stopped
from transom.proxy.secret import redact_userinfo

if TYPE_CHECKING:
    from rich.console import Console

    from winsim import Host, Simulator

_PROXY = "http://proxy.corp.example:3128"
_CREDENTIALS = {"username": "demo", "password": 'hunter2 %^&!"\\é'}
_SERVICES = {"containerd": (), "kubelet": ("containerd",), "antivirus": ()}
_TOLD = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GODEBUG")


def demo() -> None:
    """Show proxy and CA changes on a simulated host.

    The command applies proxy settings and a CA to a simulated Windows host behind a real SSH server on 127.0.0.1. It then
    rotates the CA and removes the proxy. It installs nothing, and changes nothing outside this process.
    """
    from transom.cli.terminal import Terminal

    if not run_until_stopped(_run_demo(Terminal())):
        raise SystemExit(ExitCode.NOT_DONE)


async def _run_demo(out: "Console") -> bool:
    from transom.windows.host.queries import SERVICES
    from transom.windows.registry.edits import SetValue
    from transom.windows.registry.values import build_multi_sz
    from winsim import Simulator

    with tempfile.TemporaryDirectory(prefix="transom-demo-") as directory:
        async with Simulator() as simulator:
            host = await simulator.add_host("win-1", services=_SERVICES)
            # an administrator's own item, which must be there at the end as it is now
            host.edit([SetValue(rf"{SERVICES}\containerd", "Environment", build_multi_sz(["GODEBUG=http2client=0"]))])
            story = _Demo(out, simulator, host, Path(directory))
            return await story.run()


class _Demo:
    """The chapters, and what the host looked like before them."""

    def __init__(self, out: "Console", simulator: "Simulator", host: "Host", directory: Path) -> None:
        self._out, self._simulator, self._host, self._directory = out, simulator, host, directory
        self._before = host.registry

    async def run(self) -> bool:
        """All of it; whether everything was as it should be."""
        self._print_lines(
            "Everything here is simulated: the Windows host runs in this process, behind a real SSH server on 127.0.0.1.",
            f"It has the services {', '.join(_SERVICES)}. An administrator has given containerd an item of its own, GODEBUG.",
        )
        self._print_title("1. The settings, as manifests; the same objects would be in a cluster")
        self._write_manifests(_build_settings(), ca="Corp Proxy CA 2026")
        self._out.print((self._directory / "egress.yaml").read_text("utf-8").rstrip(), style="cyan")
        self._print_title("2. transom apply -f DIR")
        results = [await self._apply_manifests("changed")]
        self._print_title("3. What the services were started with")
        self._show_environments()
        self._print_title("4. Apply again: no differences, so Transom writes and restarts nothing")
        results.append(await self._apply_manifests("unchanged"))
        self._print_title("5. Transom rotates the CA: a new one replaces the old one, services restart, no host reboots")
        self._write_manifests(_build_settings(), ca="Corp Proxy CA 2027")
        results.append(await self._apply_manifests("changed"))
        self._print_title("6. The proxy is removed")
        self._write_manifests({}, ca=None)
        results.append(await self._apply_manifests("changed"))
        clean = self._host.registry == self._before
        self._show_environments()
        self._print_lines(
            "The registry is the one from before, GODEBUG included; Transom's own key is gone."
            if clean
            else "The registry is not the one from before: this is a defect of Transom."
        )
        boots = self._host.boot_id
        self._print_lines(
            f"The host was booted {boots} time, before the story began. scripts/demo in the repository tells the same story"
        )
        self._print_lines("with real parts: Wine, containerd.exe, a proxy that decrypts TLS.")
        return clean and all(results)

    async def _apply_manifests(self, expected: str) -> bool:
        from datetime import UTC

        from transom.apply.host_pass import HostPass
        from transom.apply.report import Report
        from transom.apply.target import list_targets
        from transom.cli.tables import print_report
        from transom.hosts.owner import Owner
        from transom.hosts.passes.base_pass import PassSettings
        from transom.hosts.ssh.known_hosts import NoHostKeys
        from transom.sources.directory import load_objects
        from transom.sources.examination import examine_objects

        objects = load_objects([str(self._directory)])
        examined = examine_objects(objects, datetime.datetime.now(UTC))
        (target,) = list_targets(objects, examined.settings, ssh_config=False)
        report = await HostPass(NoHostKeys(), PassSettings(Owner("demo", "in this process"))).run_and_report(target)
        print_report(Report((report,)), planned=False)
        return report.result == expected

    def _show_environments(self) -> None:
        for service in ("containerd", "kubelet"):
            *_, last = self._host.starts(service)
            self._out.print(f"  {service}, start number {len(self._host.starts(service))}:")
            variables = {name: value for name, value in sorted(last.environment.items()) if name.upper() in _TOLD}
            for name, value in variables.items():
                self._out.print(f"    {name}={redact_userinfo(value)}")
            if not variables:
                self._out.print("    no proxy variable")

    def _write_manifests(self, spec: Mapping[str, Any], *, ca: str | None) -> None:
        import yaml

        host = {"address": self._host.address, "port": self._host.port, "username": self._host.username}
        key = self._simulator.client_key.export_private_key().decode()
        objects = [
            _build_object("WindowsInstance", "win-1", "transom.dev/v1alpha1", spec=host),
            _build_object("Secret", "cloud-private-key", "v1", stringData={"private-key.pem": key}),
            _build_object("Secret", "egress-credentials", "v1", stringData=_CREDENTIALS),
        ]
        if ca:
            objects.append(_build_object("ConfigMap", "corp-ca", "v1", data={"ca-bundle.crt": create_authority(ca)}))
        egress = _build_object("EgressProxy", "cluster", "transom.dev/v1alpha1", spec=dict(spec))
        for name, item in (("egress.yaml", [egress]), ("others.yaml", objects)):
            text: str = yaml.safe_dump_all(item, sort_keys=False, allow_unicode=True, default_flow_style=None)
            (self._directory / name).write_text(text, "utf-8")

    def _print_title(self, title: str) -> None:
        self._out.print()
        self._out.print(title, style="bold")

    def _print_lines(self, *lines: str) -> None:
        for line in lines:
            self._out.print(line)


def _build_settings() -> dict[str, Any]:
    return {
        "httpProxy": _PROXY,
        "httpsProxy": _PROXY,
        "noProxy": ".corp.example",
        "credentialsSecret": {"name": "egress-credentials"},
        "trustedCA": {"name": "corp-ca"},
        "networks": {
            "machineNetwork": ["10.0.0.0/16"],
            "serviceNetwork": ["10.96.0.0/16"],
            "podNetwork": ["10.244.0.0/16"],
            "internalAPIHost": "api.corp.example",
        },
    }


def _build_object(kind: str, name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
