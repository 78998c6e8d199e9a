"""Nutanix AHV by Cluster API Provider Nutanix (CAPX, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi import upstream
from transom.capi.inputs import WorkerInputs
from transom.capi.providers.provider import Provider, UserDataLimit
from transom.capi.windows_release import image_name


def _machine(inputs: WorkerInputs) -> dict[str, Any]:
    name = inputs.image or image_name(inputs.windows, inputs.kubernetes_version)
    return {
        # as the build's
        "bootType": "legacy",
        "vcpuSockets": 4,
        "vcpusPerSocket": 1,
        "memorySize": "16Gi",
        "systemDiskSize": f"{inputs.disk_gi_b or 100}Gi",
        "image": {"type": "name", "name": name},
    }


def _notes(inputs: WorkerInputs) -> tuple[str, ...]:
    missing = [name for name in ("cluster", "subnet") if name not in inputs.machine]
    return (
        (
            f"`machine` of the inputs names no {' and no '.join(missing)}: the machines need a failure domain of the "
            "NutanixCluster, which has both",
        )
        if missing
        else ()
    )


NUTANIX = Provider(
    name="nutanix",
    template="NutanixMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_machine,
    node_name=upstream.NUTANIX_NAME.value,
    metadata_services=("cloudbaseinit.metadata.services.configdrive.ConfigDriveService",),
    limit=UserDataLimit(32_768, gzip=False, base64=True, source="AHV takes 32 kB of guest customization, in base64"),
    longest_name=63,
    no_store="CAPX hands the bootstrap data to Prism Central as it is; it is read from a disk of the machine",
    notes=_notes,
)
