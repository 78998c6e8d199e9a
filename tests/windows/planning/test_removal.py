"""What giving a host back does: a table of what is on it, and what goes, stays, or comes back."""

import msgspec
import pytest
from tests.windows.installations import CONF, CONTAINERD, DOWN, EXE, KUBELET, SALT, UP, A, B, host, reached, wish

from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import CHANGED, DesiredState, ObservedState, Preparation, Service
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES
from transom.windows.parts.trust import TrustedCertificate
from transom.windows.payload.payload import Payload, PayloadService
from transom.windows.payload.worker import Facts
from transom.windows.payload.worker import build_desired as desired_of
from transom.windows.planning.planner import Plan, plan
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.values import build_multi_sz, build_sz

NOTHING = DesiredState(wish().registry, payload="")
K, LOGS, VAR, PODS = r"C:\k", r"C:\k\logs", r"C:\var", r"C:\var\log\pods"


def worker(*directories: str, **fields: object) -> ObservedState:
    """A worker that owns directories; those above them are made for them."""
    above = {"\\".join(path.split("\\")[:depth]) for path in directories for depth in range(2, path.count("\\") + 1)}
    made = tuple(sorted({*directories, *above}, key=len))
    return msgspec.structs.replace(wish(KUBELET, directories=made, proxied=True), owned=directories, **fields)


def removal(found: ObservedState) -> Plan:
    return plan(NOTHING, found, SALT)


def test_a_directory_of_ours_goes_with_all_in_it_and_one_above_it_only_when_it_is_empty() -> None:
    found = reached(worker(K, LOGS, PODS, files={EXE: A}), host())
    install = removal(found).install
    assert install.clear == (K, PODS)
    assert install.leave == (r"C:\var\log", VAR)
    assert install.remove == (), "files go with their directory"
    gone = reached(NOTHING, found)
    assert (gone.directories, gone.files, gone.registry.find_key(LEDGER)) == ((), {}, None)


def test_a_directory_that_was_there_before_stays_with_all_that_others_put_there() -> None:
    before = host(directories=(K, VAR), files={CONF: CHANGED})
    found = reached(worker(K, LOGS, PODS, files={EXE: A, CONF: B}), before)
    install = removal(found).install
    assert install.clear == (LOGS, PODS)
    assert [(item.path, item.back) for item in install.remove] == [(EXE, False), (CONF, True)]
    gone = reached(NOTHING, found)
    assert (set(gone.directories), gone.files) == (set(before.directories), before.files)


def test_what_a_person_changed_in_a_directory_of_ours_goes_with_it_and_elsewhere_stays() -> None:
    elsewhere = r"C:\other\x.conf"
    found = reached(worker(K, files={CONF: A, elsewhere: B}), host(directories=(r"C:\other",)))
    changed = msgspec.structs.replace(found, files={CONF: CHANGED, elsewhere: CHANGED})
    planned = removal(changed)
    assert planned.install.remove == ()
    assert planned.warnings == (rf"{elsewhere} was changed since it was sent: it is left",)
    assert reached(NOTHING, changed).files == {elsewhere: CHANGED}


def test_an_upgrade_that_drops_a_directory_does_not_empty_it() -> None:
    found = reached(worker(K, PODS), host())
    planned = plan(worker(K), found, SALT)
    assert planned.install.clear == () and PODS in planned.install.leave


@pytest.mark.parametrize(("adopted", "networks"), [(False, ("Overlay", "External")), (True, ())])
def test_networks_go_with_the_service_that_made_them(adopted: bool, networks: tuple[str, ...]) -> None:
    made = worker(K, networks={"kubelet": ("Overlay", "External"), "other": ("Nat",)})
    found = reached(made, host(("kubelet", UP)) if adopted else host())
    assert removal(found).install.networks == networks
    assert [s.target for s in removal(found).steps if "HNS" in s.target] == [f"HNS network {name}" for name in networks]


def test_ports_are_closed_that_were_opened() -> None:
    preparation = Preparation(ports=(10250, 9182))
    made = worker(K, preparation=preparation)
    prepared = plan(made, host(), SALT)
    found = reached(made, msgspec.structs.replace(host(), registry=host().registry.apply_edits(prepared.prepared)))
    assert removal(found).install.ports == (10250, 9182)
    assert reached(NOTHING, found).registry.find_key(LEDGER) is None


def test_a_preparation_that_waits_for_a_boot_is_undone_at_once() -> None:
    planned = plan(worker(K, preparation=Preparation(ports=(10250,))), host(), SALT)
    pending = msgspec.structs.replace(host(), registry=host().registry.apply_edits(planned.pending), boot=None)
    assert removal(pending).install.ports == (10250,)
    assert reached(NOTHING, pending).registry.find_key(LEDGER) is None


def test_who_depends_on_a_service_that_goes_is_stopped_first_and_named() -> None:
    found = reached(wish(CONTAINERD), host())
    found = msgspec.structs.replace(found, dependencies={"theirs": ("containerd",), "idle": ("containerd",)})
    found = msgspec.structs.replace(found, services=(*found.services, Service("theirs", UP), Service("idle", DOWN)))
    planned = removal(found)
    assert (planned.stop, planned.start) == (("theirs", "containerd"), ())
    assert planned.warnings == ("theirs depends on a service that is removed: it is stopped, and cannot start",)


def test_an_adopted_service_stays_with_its_environment_as_it_was() -> None:
    own: list[Edit] = [SetValue(rf"{SERVICES}\kubelet", "Environment", build_multi_sz(["A=1", "no_proxy=theirs"]))]
    before = host(("kubelet", UP))
    before = msgspec.structs.replace(before, registry=before.registry.apply_edits(own))
    found = reached(worker(K), before)
    planned = removal(found)
    assert planned.install.delete == () and planned.stop == planned.start == ("kubelet",)
    assert reached(NOTHING, found).registry.list_keys_below(SERVICES) == before.registry.list_keys_below(SERVICES)


def test_what_has_been_booted_with_is_not_hidden_on_a_host_that_is_given_back() -> None:
    """Nobody would come to take the empty items away: the boot is not read, so none are made, and those that are there go."""
    machine = [SetValue(ENVIRONMENT, "HTTP_PROXY", build_sz("http://p.x:1"))]
    proxied = wish(CONTAINERD, payload=None)
    both = msgspec.structs.replace(proxied, registry=proxied.registry.apply_edits(machine))
    before = host(("containerd", UP))
    booted = msgspec.structs.replace(reached(both, before), boot=4)
    masked = reached(proxied, booted)
    assert "HTTP_PROXY=" in masked.registry.find_value(rf"{SERVICES}\containerd", "Environment").to_texts()
    for item in (booted, masked):
        gone = reached(DesiredState(NOTHING.registry), msgspec.structs.replace(item, boot=None))
        assert gone.registry.find_key(LEDGER) is None
        assert gone.registry.list_keys_below(SERVICES) == before.registry.list_keys_below(SERVICES)


def test_the_ledger_of_the_first_boot_is_undone() -> None:
    """Without a salt, and without services: what user data entered before any pass."""
    trusted = ledger.Ledger(trust={"ROOT": {"A" * 40: TrustedCertificate(added=True, subject="CN=x")}})
    lines = ledger.build_edits(host().registry, msgspec.structs.replace(trusted, salt=b""))
    store = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates"
    there = SetValue(rf"{store}\{'A' * 40}", "Blob", build_sz("x"))
    gone = reached(NOTHING, msgspec.structs.replace(host(), registry=host().registry.apply_edits([*lines, there])))
    assert gone.registry.find_key(LEDGER) is None and gone.registry.find_key(rf"{store}\{'A' * 40}") is None


def test_a_payload_says_what_is_its_own() -> None:
    payload = Payload(
        version="1.0.0",
        directories=(K, PODS),
        services=(PayloadService(name="cni", command=EXE, hns_networks=("Overlay",)),),
    )
    state = desired_of(payload, {}, Facts(), Egress(), host()).state
    assert (state.owned, state.networks) == ((K, PODS), {"cni": ("Overlay",)})
