"""Azure by Cluster API Provider Azure (CAPZ, infrastructure.cluster.x-k8s.io/v1beta1)."""

from collections.abc import Iterator
from typing import Any

from transom.capi.bootstrap.kubeadm import ContentSource, Entries, File, SecretKey
from transom.capi.check.worker_inputs import WorkerInputs, build_machine_prefix
from transom.capi.providers.provider import Builder, Faults, Object, Pool, Provider, render_winrm
from transom.capi.worker.user_data import UserDataLimit
from transom.proxy.finding import Path

_LIMIT = UserDataLimit(65_535, gzip=False, base64=False, source="Azure takes 65,535 bytes of custom data")


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
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


def _build_entries(template: str) -> Entries:
    # CAPZ makes this Secret for every machine template; cloud-node-manager reads the file
    source = ContentSource(SecretKey(f"{template}-azure-json", "worker-node-azure.json"))
    return Entries(files=(File("C:/k/azure.json", permissions="0644", content_from=source),))


def _list_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    return (
        () if inputs.image else ("without --image, CAPZ takes its reference image of this Kubernetes version, if there is one",)
    )


def _build_pool(inputs: WorkerInputs) -> dict[str, Any]:
    return {"location": inputs.location, "template": _build_machine(inputs)}


def _find_pool_problems(inputs: WorkerInputs) -> Iterator[tuple[Path, str]]:
    if not inputs.location and not inputs.machine.get("location"):
        yield ("location",), "missing: an AzureMachinePool names its region (--location westeurope), the AzureCluster's"


def _list_pool_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    return (
        *_list_notes(inputs),
        "CAPZ gives another bootstrap configuration to new machines alone: `kubectl delete machine NAME` replaces one; another "
        "image or size replaces all",
    )


def _find_pool_faults(spec: Object, _: Object) -> Faults:
    """Find faults of an AzureMachinePool's `spec`."""
    system = ((spec.get("template") or {}).get("osDisk") or {}).get("osType")
    if system != "Windows":
        yield ("template", "osDisk", "osType"), "error", f"{system!r}: must be Windows; otherwise CAPZ treats the pool as Linux"


_BUILDER = Builder(
    plugin="azure",
    source="github.com/hashicorp/azure",
    version=">= 2.1.0",
    type="azure-arm",
    variables={
        "subscription_id": None,
        "resource_group": None,
        "location": "westeurope",
        "vm_size": "Standard_D4s_v5",
        "shared_image_gallery_name": "",
        "sig_image_version": "",
    },
    body="""  use_azure_cli_auth                = true
  subscription_id                   = var.subscription_id
  managed_image_name                = "${local.image_name}-${local.stamp}"
  managed_image_resource_group_name = var.resource_group
  location                          = var.location
  vm_size                           = var.vm_size
  os_type                           = "Windows"
  os_disk_size_gb                   = var.disk_size
  image_publisher                   = "MicrosoftWindowsServer"
  image_offer                       = "WindowsServer"
  image_sku                         = "@WINDOWS@-datacenter-core-g2"
"""
    + render_winrm("packer"),
)


PROVIDER = Provider(
    name="azure",
    title="Azure",
    template="AzureMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_build_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.azureservice.AzureService",),
    builder=_BUILDER,
    limit=_LIMIT,
    longest_name=15,
    no_store="Azure's custom data is read once, from a disk, and never from the metadata service; it needs no store",
    annotations=lambda inputs: {"runtime": "containerd", "windowsServerVersion": f"windows-{inputs.windows}"},
    entries=_build_entries,
    notes=_list_notes,
    pool=Pool(
        kind="AzureMachinePool",
        spec=_build_pool,
        # short enough, so that CAPZ makes no other name of it
        called=build_machine_prefix,
        limit=_LIMIT,
        names_machines=True,
        problems=_find_pool_problems,
        notes=_list_pool_notes,
        faults=_find_pool_faults,
    ),
)
