"""containerd pulls through the proxy that decrypts TLS: what it takes, and from when it counts."""

import asyncio

import msgspec
import pytest
from lab.egress import Egress
from lab.machine import Machine
from lab.trust import render_distrust, render_trust
from tests.capi.first_boot import boot
from tests.support.waiting import until

from transom.apply.host_pass import HostPass, build_convergence
from transom.apply.target import Target
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.converge import read_adopted_state
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy import settings
from transom.proxy.finding import Place
from transom.proxy.objects import Meta, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.trust import parse_bundle
from transom.windows.host.queries import ENVIRONMENT, STORES
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec

pytestmark = pytest.mark.lab
NO_NAME, NO_PASSWORD, NO_CA = "no such host", "Proxy Authentication Required", "certificate signed by unknown authority"


def pull(machine: Machine, image: str) -> str:
    """What came of a pull over CRI: empty, or the error."""
    done = machine.run(r"C:\lab\cri-pull.exe", image)
    return done.stdout.decode() if done.returncode else ""


def proxy(machine: Machine, url: str) -> None:
    machine.set_service_environment("containerd", [f"HTTPS_PROXY={url}"] if url else [])
    machine.restart("containerd")


async def test_proxy_and_ca_count_from_the_next_start_of_the_service(containerd_machine: Machine, egress: Egress) -> None:
    machine, image = containerd_machine, egress.format_image("none")
    assert NO_NAME in pull(machine, image)
    machine.set_service_environment("containerd", [f"HTTPS_PROXY={egress.url}"])
    assert NO_NAME in pull(machine, image)
    machine.restart("containerd")
    assert NO_CA in pull(machine, image)
    machine.import_text(render_trust(egress.certificate))
    assert NO_CA in pull(machine, image)
    machine.restart("containerd")
    assert pull(machine, image) == ""
    # squid writes a line once the answer has been sent
    await until(lambda: {request.method for request in egress.list_requests()} == {"CONNECT", "HEAD", "GET"})
    before = egress.certificate
    after = egress.rotate()
    assert before != after
    assert NO_CA in pull(machine, image)
    machine.import_text(f"{render_trust(after)}\n\n{render_distrust(before)}")
    machine.restart("containerd")
    assert pull(machine, image) == ""
    layered = machine.run(r"C:\lab\ctr.exe", "images", "pull", "--all-platforms", egress.format_image("1"))
    assert layered.returncode == 0
    machine.import_text(render_distrust(after))
    machine.restart("containerd")
    assert NO_CA in pull(machine, image)
    proxy(machine, "")
    assert NO_NAME in pull(machine, image)


def test_a_proxy_with_a_password_of_special_characters(containerd_machine: Machine, closed_egress: Egress) -> None:
    machine, image = containerd_machine, closed_egress.format_image("none")
    machine.import_text(render_trust(closed_egress.certificate))
    proxy(machine, closed_egress.url)
    assert NO_PASSWORD in pull(machine, image)
    proxy(machine, closed_egress.url_with_credentials)
    assert pull(machine, image) == ""
    users = {request.user for request in closed_egress.list_requests() if request.status.endswith("/200")}
    assert users == {"alice"}


async def test_what_it_has_booted_with_is_not_used_once_it_is_removed(containerd_machine: Machine, egress: Egress) -> None:
    """environmentScope: Both. Empty items hide the machine's variables until the next boot, and then go.

    The same machine is then taken over from another operator that has set them.
    """
    machine, image = containerd_machine, egress.format_image("none")
    ssh, place, url = machine.ssh, machine.place, Secret(egress.url)
    spec = WindowsInstanceSpec(place.address, place.port, ssh.user, host_key=ssh.host_key)
    instance = WindowsInstance(Meta("win", "transom-system"), Place("", "WindowsInstance/win"), spec)
    windows = WindowsSettings(environment_scope="Both", services=("containerd",))
    trust = parse_bundle(egress.certificate).certificates
    proxied = settings.Egress(url, url, "localhost", trust, windows)
    host_pass = HostPass(NoHostKeys(), PassSettings(Owner("tests", "boots")))

    async def applied(wanted: settings.Egress) -> str:
        report = await host_pass.run_and_report(Target(instance, wanted, Secret(ssh.key.read_text())))
        assert report.error is None
        return report.result

    def own_items() -> bool:
        return "Environment" in machine.export(r"HKLM\SYSTEM\CurrentControlSet\Services\containerd")

    async def booted() -> None:
        await asyncio.to_thread(machine.restart_machine)
        await asyncio.to_thread(machine.wait_for, "containerd", "RUNNING")

    assert await applied(proxied) == "changed"
    await booted()
    assert pull(machine, image) == ""
    assert await applied(settings.Egress(windows=windows)) == "changed"
    assert NO_NAME in pull(machine, image)
    assert own_items()
    await booted()
    assert await applied(settings.Egress(windows=windows)) == "changed"
    assert not own_items()
    assert machine.export(r"HKLM\SOFTWARE\Transom") == ""

    # another operator sets the same for the machine, imports the CA, and boots: taken over, containerd runs on
    services = msgspec.structs.replace(proxied, windows=WindowsSettings(services=("containerd",)))
    values = "\n".join(f'"{name}"="{value}"' for name, value in services.variables.items())
    machine.import_text(f"[{ENVIRONMENT}]\n{values}\n\n{render_trust(egress.certificate)}")
    machine.find_path(r"C:\k").mkdir()
    (machine.find_path(r"C:\k") / "imported-certs.pem").write_text(egress.certificate)
    await booted()
    assert pull(machine, image) == ""
    target, made = Target(instance, services, Secret(ssh.key.read_text())), PassSettings(Owner("tests", "takes over"))
    left = await read_adopted_state(target.access, NoHostKeys(), made)
    found = await build_convergence(target, made, adopted=left).run(target.access, NoHostKeys())
    assert (found.error, found.result, found.restarted) == (None, "changed", ())
    assert own_items()
    assert pull(machine, image) == ""
    assert await applied(services) == "unchanged"
    # and from now on it is Transom's
    assert await applied(settings.Egress(windows=services.windows)) == "changed"
    assert NO_NAME in pull(machine, image)
    assert not [name for name in services.variables if f'"{name}"' in machine.export(ENVIRONMENT)]
    assert trust[0].sha1 not in machine.export(rf"{STORES}\ROOT")


def test_a_worker_of_cluster_api_pulls_its_first_image(containerd_machine: Machine, closed_egress: Egress) -> None:
    """Nothing but the commands of its user data has been run on the machine."""
    machine, image, url = containerd_machine, closed_egress.format_image("none"), Secret(closed_egress.url_with_credentials)
    assert NO_NAME in pull(machine, image)
    trust = parse_bundle(closed_egress.certificate).certificates
    boot(machine, settings.Egress(http_proxy=url, https_proxy=url, no_proxy="localhost", trust=trust))
    machine.wait_for("containerd", "RUNNING")
    assert pull(machine, image) == ""
