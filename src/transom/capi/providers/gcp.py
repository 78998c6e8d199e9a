"""Google Compute Engine by Cluster API Provider GCP (CAPG, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi.inputs import WorkerInputs
from transom.capi.providers.provider import Provider, UserDataLimit
from transom.capi.windows_release import image_family


def _machine(inputs: WorkerInputs) -> dict[str, Any]:
    family = image_family(inputs.windows, inputs.kubernetes_version)
    return {
        "instanceType": inputs.instance_type or "n2-standard-4",
        **({"image": inputs.image} if inputs.image else {"imageFamily": f"global/images/family/{family}"}),
        "rootDeviceSize": inputs.disk_gi_b or 100,
        "rootDeviceType": "pd-ssd",
    }


GCP = Provider(
    name="gcp",
    template="GCPMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.gceservice.GCEService",),
    limit=UserDataLimit(262_144, gzip=False, base64=False, source="Compute Engine takes 256 kB in one metadata entry"),
    longest_name=63,
    name_pattern=r"[a-z]([a-z0-9-]*[a-z0-9])?",
    no_store="CAPG hands the bootstrap data to Compute Engine's metadata as it is",
)
