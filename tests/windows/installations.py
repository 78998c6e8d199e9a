"""What is to be installed on a host, and what a host has."""

import msgspec

from transom.windows.host.host_state import DesiredState, ObservedState, Preparation, Service, ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.parts.service import Configuration
from transom.windows.planning.planner import plan, predict_state
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_expand_sz, build_multi_sz

SALT = b"0123456789abcdef"
A, B = "a" * 64, "b" * 64
EXE, CONF = r"C:\k\kubelet.exe", r"C:\k\kubelet.yaml"
KUBELET = Configuration("kubelet", rf"{EXE} --x=1", ("containerd",), restart_seconds=10)
CONTAINERD = Configuration("containerd", r"C:\k\containerd.exe", restart_seconds=10, environment=("OWN=1",))
UP, DOWN = ServiceState.RUNNING, ServiceState.STOPPED


def wish(
    *services: Configuration,
    files: dict[str, str] | None = None,
    directories: tuple[str, ...] = (),
    payload: str | None = "1.0.0",
    preparation: Preparation | None = None,
    proxied: bool = False,
) -> DesiredState:
    edits: list[Edit] = [edit for service in services for edit in service.to_edits()]
    if proxied:
        edits += [SetValue(s.path, "Environment", build_multi_sz([*(s.environment or ()), "NO_PROXY=x"])) for s in services]
    return DesiredState(
        Registry().apply_edits(edits),
        tuple(Service(service.name, UP) for service in services),
        files=files or {},
        sizes=dict.fromkeys(files or {}, 7),
        readers={EXE: ("kubelet",)},
        directories=directories,
        payload=payload,
        preparation=preparation,
    )


def host(*services: tuple[str, ServiceState], **fields: object) -> ObservedState:
    edits = [SetValue(rf"{SERVICES}\{name}", "ImagePath", build_expand_sz(rf"C:\other\{name}.exe")) for name, _ in services]
    state = ObservedState(
        Registry().apply_edits(edits), tuple(Service(name, how) for name, how in services), boot=3, dependencies={}
    )
    return msgspec.structs.replace(state, **fields)


def reached(desired: DesiredState, actual: ObservedState) -> ObservedState:
    planned = plan(desired, actual, SALT)
    found = predict_state(actual, planned)
    assert not plan(desired, found, SALT), plan(desired, found, SALT).steps
    return found
