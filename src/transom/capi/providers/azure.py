"""Azure by Cluster API Provider Azure (CAPZ, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi.inputs import WorkerInputs
from transom.capi.kubeadm import ContentSource, Entries, File, SecretKey
from transom.capi.providers.provider import Provider, UserDataLimit


def _machine(inputs: WorkerInputs) -> dict[str, Any]:
    return {
        "vmSize": inputs.instance_type or "Standard_D4s_v5",
        "osDisk": {
            "osType": "Windows",
            "diskSizeGB": inputs.disk_gi_b or 128,
            "managedDisk": {"storageAccountType": "Premium_LRS"},
        },
        **({"image": {"id": inputs.image}} if inputs.image else {}),
        "sshPublicKey": "",
    }


def _entries(template: str) -> Entries:
    # CAPZ makes this Secret for every machine template; cloud-node-manager reads the file
    source = ContentSource(SecretKey(f"{template}-azure-json", "worker-node-azure.json"))
    return Entries(files=(File("C:/k/azure.json", permissions="0644", content_from=source),))


def _notes(inputs: WorkerInputs) -> tuple[str, ...]:
    return (
        () if inputs.image else ("without --image, CAPZ takes its reference image of this Kubernetes version, if there is one",)
    )


AZURE = Provider(
    name="azure",
    template="AzureMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.azureservice.AzureService",),
    limit=UserDataLimit(65_535, gzip=False, base64=False, source="Azure takes 65,535 bytes of custom data"),
    longest_name=15,
    no_store="Azure's custom data is read once, from a disk, and never from the metadata service; it needs no store",
    annotations=lambda inputs: {"runtime": "containerd", "windowsServerVersion": f"windows-{inputs.windows}"},
    entries=_entries,
    notes=_notes,
)
