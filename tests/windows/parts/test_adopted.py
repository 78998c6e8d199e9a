"""A host that is taken over from an operator which set the machine's environment, and booted the host for it."""

import msgspec
import pytest
from tests.windows.authorities import authority

from transom.proxy.objects import WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.host_state import DesiredState, ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES
from transom.windows.parts import certificates
from transom.windows.parts.adopted import AdoptedState
from transom.windows.planning.planner import build_desired_settings, plan, predict_state
from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_sz

SALT = bytes(16)
PROXY = "http://alice:hunter2@proxy.corp.example:3128"
OURS, THEIRS = authority("Imported"), authority("Of the image")
EGRESS = Egress(Secret(PROXY), Secret(PROXY), ".svc", trust=(OURS, THEIRS))
VALUES = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": ".svc"}
TAKEN = AdoptedState(frozenset({OURS.sha1}))
ROOT = certificates.get_store_path(certificates.ROOT)


def peers_host(**changed: str) -> ObservedState:
    edits = [CreateKey(rf"{SERVICES}\{name}") for name in ("containerd", "kubelet")]
    edits += [SetValue(ENVIRONMENT, name, build_sz(value)) for name, value in (VALUES | changed).items()]
    edits += [SetValue(rf"{ROOT}\{item.sha1}", "Blob", certificates.build_blob(item.der, item.sha1)) for item in (OURS, THEIRS)]
    services = tuple(Service(name, ServiceState.RUNNING) for name in ("containerd", "kubelet"))
    return ObservedState(Registry().apply_edits(edits), services=services, boot=7, dependencies={})


def environment(host: ObservedState, service: str) -> dict[str, str]:
    """What a service has after its next start."""
    value = host.registry.find_value(rf"{SERVICES}\{service}", "Environment")
    own = dict(item.split("=", 1) for item in value.to_texts()) if value else {}
    machine = host.registry.find_key(ENVIRONMENT)
    return {value.name: value.value.decode_text() for value in (machine.values or {}).values()} | own if machine else own


def test_nothing_is_restarted_where_the_values_are_the_same() -> None:
    host = peers_host()
    made = plan(build_desired_settings(EGRESS), host, SALT, taken=TAKEN)
    assert not made.stop and not made.start
    assert made.edits
    taken = predict_state(host, made)
    assert environment(taken, "kubelet") == VALUES
    assert {name: taken.registry.find_value(ENVIRONMENT, name) for name in VALUES} == {
        n: build_sz(v) for n, v in VALUES.items()
    }
    assert not plan(build_desired_settings(EGRESS), taken, SALT, taken=AdoptedState())
    assert not plan(build_desired_settings(EGRESS), taken, SALT)


@pytest.mark.parametrize("scope", ["Services", "Machine", "Both"])
def test_what_the_peer_had_set_goes_with_transom_and_what_was_there_before_stays(scope: str) -> None:
    egress = msgspec.structs.replace(EGRESS, windows=WindowsSettings(environment_scope=scope))  # type: ignore[arg-type]
    host = peers_host()
    made = plan(build_desired_settings(egress), host, SALT, taken=TAKEN)
    assert not made.stop
    given_back = predict_state(host, made)
    removal = plan(DesiredState(Registry()), given_back, SALT)
    given_back = predict_state(given_back, removal)
    assert given_back.registry.find_key(rf"{ROOT}\{OURS.sha1}") is None
    assert given_back.registry.find_key(rf"{ROOT}\{THEIRS.sha1}") is not None
    assert [given_back.registry.find_value(ENVIRONMENT, name) for name in VALUES] == [None] * 3


def test_a_changed_proxy_reaches_the_services_and_leaves_nothing_old_behind() -> None:
    host = predict_state(peers_host(), plan(build_desired_settings(EGRESS), peers_host(), SALT, taken=TAKEN))
    other = msgspec.structs.replace(EGRESS, http_proxy=Secret("http://other.example:1"))
    made = plan(build_desired_settings(other), host, SALT, taken=AdoptedState())
    assert sorted(made.stop) == ["containerd", "kubelet"]
    host = predict_state(host, made)
    assert environment(host, "kubelet") == VALUES | {"HTTP_PROXY": "http://other.example:1"}
    assert host.registry.find_value(ENVIRONMENT, "HTTP_PROXY") is None
    # the password is nowhere in the ledger
    assert PROXY not in str([key for key in host.registry if key.path.startswith(LEDGER)])


def test_another_value_restarts_the_services_once() -> None:
    host = peers_host(NO_PROXY=".svc,.old.example")
    made = plan(build_desired_settings(EGRESS), host, SALT, taken=TAKEN)
    assert sorted(made.stop) == ["containerd", "kubelet"]
    host = predict_state(host, made)
    assert environment(host, "kubelet")["NO_PROXY"] == ".svc"
    assert not plan(build_desired_settings(EGRESS), host, SALT, taken=AdoptedState())


def test_what_somebody_sets_later_is_somebody_elses() -> None:
    host = predict_state(peers_host(), plan(build_desired_settings(Egress()), peers_host(), SALT, taken=TAKEN))
    assert host.registry.find_value(ENVIRONMENT, "HTTP_PROXY") is None
    host = predict_state(peers_host(), plan(build_desired_settings(EGRESS), peers_host(), SALT, taken=TAKEN))
    edited = msgspec.structs.replace(
        host, registry=host.registry.apply_edits([SetValue(ENVIRONMENT, "NO_PROXY", build_sz("theirs"))])
    )
    removed = predict_state(edited, plan(DesiredState(Registry()), edited, SALT, taken=AdoptedState()))
    assert removed.registry.find_value(ENVIRONMENT, "NO_PROXY") == build_sz("theirs")


@pytest.mark.parametrize("text", [None, b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n"])
def test_a_file_that_is_none_says_nothing(text: bytes | None) -> None:
    assert AdoptedState.from_file(text) == AdoptedState()
