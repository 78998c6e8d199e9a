"""Nutanix AHV by Cluster API Provider Nutanix (CAPX, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi.check.upstream import IMAGE_BUILDER, PACKER, create_fact
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Faults, Object, Provider, render_sysprep_shutdown, render_winrm
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import build_image_name
from transom.common.mappings import get_nested_value

CAPX = ("nutanix-cloud-native/cluster-api-provider-nutanix", "946f0db32e1d28b34cf37740da1ad7546adf793d")
NAME = create_fact(
    CAPX,
    "controllers/nutanixmachine_controller.go",
    "the only part of user data that CAPX renders; it removes the header of the template engine",
    "{{ ds.meta_data.hostname }}",
    '[]byte("## template: jinja\\n")',
    '[]byte("{{ ds.meta_data.hostname }}"), []byte(rctx.Machine.Name)',
)
_DISK = create_fact(
    CAPX,
    "controllers/nutanixmachine_controller.go",
    "CAPX passes user data on a config drive",
    "CONFIG_DRIVE_V2",
    "CLOUDINITDATASOURCETYPE_CONFIG_DRIVE_V2",
)
_SHUTDOWN = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/nutanix/packer-windows.json",
    "image-builder runs sysprep on Nutanix",
    "shutdown_command",
    '"shutdown_command": "powershell F:/sysprep.ps1"',
    '"os_type": "{{user `guest_os_type`}}"',
)


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
    name = inputs.image or build_image_name(inputs.windows, inputs.kubernetes_version)
    return {
        # as the build's
        "bootType": "legacy",
        "vcpuSockets": 4,
        "vcpusPerSocket": 1,
        "memorySize": "16Gi",
        "systemDiskSize": f"{inputs.disk_gi_b or 100}Gi",
        "image": {"type": "name", "name": name},
    }


def _list_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    missing = [name for name in ("cluster", "subnet") if name not in inputs.machine]
    return (
        (
            f"`machine` of the inputs names no {' and no '.join(missing)}: the machines need a failure domain of the "
            "NutanixCluster, which has both",
        )
        if missing
        else ()
    )


def _find_faults(_: Object, bootstrap: Object) -> Faults:
    name = str(get_nested_value(bootstrap, "joinConfiguration", "nodeRegistration", "name") or "")
    if "{{" in name and name != NAME.value:
        message = f"CAPX renders {NAME.value} alone: the nodes would be called {name!r}"
        yield (), "error", f"nodeRegistration.name of the bootstrap template: {message}"


_BUILDER = Builder(
    plugin="nutanix",
    source="github.com/nutanix-cloud-native/nutanix",
    version=">= 1.2.0",
    type="nutanix",
    variables={
        "nutanix_endpoint": None,
        "nutanix_username": None,
        "nutanix_password": None,
        "nutanix_cluster_name": None,
        "nutanix_subnet_name": None,
        "nutanix_insecure": "false",
        "source_image_name": None,
        "winrm_password": None,
    },
    secret=("nutanix_password", "winrm_password"),
    body="""  nutanix_endpoint = var.nutanix_endpoint
  nutanix_username = var.nutanix_username
  nutanix_password = var.nutanix_password
  nutanix_insecure = var.nutanix_insecure
  cluster_name     = var.nutanix_cluster_name
  os_type          = "Windows"
  boot_type        = "legacy"
  cpu              = 4
  memory_mb        = 8192
  # CAPX takes it by this very name
  image_name       = local.image_name
  vm_disks {
    image_type        = "DISK"
    source_image_name = var.source_image_name
    disk_size_gb      = var.disk_size
  }
  vm_nics {
    subnet_name = var.nutanix_subnet_name
  }
"""
    + render_sysprep_shutdown(16)
    + render_winrm("Administrator"),
    sysprep="shutdown",
)


PROVIDER = Provider(
    name="nutanix",
    title="Nutanix",
    template="NutanixMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_build_machine,
    node_name=NAME.value,
    metadata_services=("cloudbaseinit.metadata.services.configdrive.ConfigDriveService",),
    builder=_BUILDER,
    limit=UserDataLimit(32_768, gzip=False, base64=True, source="AHV takes 32 kB of guest customization, in base64"),
    longest_name=63,
    no_store="CAPX hands the bootstrap data to Prism Central unchanged; the machine reads it from a disk",
    notes=_list_notes,
    faults=_find_faults,
    facts=(
        NAME,
        _DISK,
        _SHUTDOWN,
    ),
    image="the image `transom-windows-2022-v1.36.3`: Prism Central must have exactly one with that name",
)
