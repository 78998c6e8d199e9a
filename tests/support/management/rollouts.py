"""Machines' objects of a management cluster, and how their rollout is seen."""

from typing import Any

from tests.support.management.management import CONTROL_PLANES, DEPLOYMENTS, POOLS, Management

CONTROLLERS = ("egress", "clusters", "machines")
SYSTEMD, WINDOWS = "mycluster-systemd-proxy", "mycluster-windows-proxy"


async def put(management: Management, *values: dict[str, Any], manager: str = "kubectl") -> None:
    for value in values:
        value["metadata"]["namespace"] = management.org
        await management.put(value, manager)


async def configuration(management: Management, kind: str, name: str) -> dict[str, Any]:
    held = await management.get(kind, name)
    assert held is not None
    if kind == "KubeadmControlPlane":
        return dict(held["spec"]["kubeadmConfigSpec"])
    if kind == "KubeadmConfig":
        return dict(held["spec"])
    return dict(held["spec"]["template"].get("spec") or {})


async def paths(management: Management, kind: str = "KubeadmConfigTemplate", name: str = "workers") -> list[str]:
    return [file["path"] for file in (await configuration(management, kind, name)).get("files", ())]


async def until_edited(management: Management, kind: str = "KubeadmConfigTemplate", name: str = "workers") -> None:
    async def edited() -> bool:
        return bool(await paths(management, kind, name))

    await management.until(edited)


async def status(management: Management, kind: str, name: str, value: dict[str, Any]) -> None:
    resource = {"KubeadmControlPlane": CONTROL_PLANES, "MachineDeployment": DEPLOYMENTS, "MachinePool": POOLS}[kind]
    path = resource.build_path(management.org, name, "status")
    await management.client.request("PATCH", path, None, {"status": value}, content_type="application/merge-patch+json")


async def initialized(management: Management, ready: int = 1) -> None:
    value = {"initialization": {"controlPlaneInitialized": True}, "replicas": ready, "readyReplicas": ready}
    await status(management, "KubeadmControlPlane", "mycluster", value)


async def rollout_after(management: Management, name: str) -> str | None:
    held = await management.get("MachineDeployment", name)
    assert held is not None
    return (held["spec"].get("rollout") or {}).get("after")
