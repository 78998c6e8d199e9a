"""vSphere by Cluster API Provider vSphere (CAPV, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi.check import upstream
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Faults, Object, Provider, render_sysprep_shutdown, render_winrm
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import build_image_name
from transom.common.mappings import get_nested_value


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
    return {
        "os": "Windows",
        "template": inputs.image or build_image_name(inputs.windows, inputs.kubernetes_version),
        "cloneMode": "linkedClone",
        "numCPUs": 4,
        "memoryMiB": 16_384,
        "diskGiB": inputs.disk_gi_b or 100,
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
    }


def _list_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    return (
        ()
        if "network" in inputs.machine
        else ("the machines are put on the network `VM Network`: `machine.network` says another",)
    )


def _find_faults(spec: Object, _: Object) -> Faults:
    for index, device in enumerate(get_nested_value(spec, "network", "devices") or ()):
        if not device.get("dhcp4") and not device.get("dhcp6"):
            message = f"the image's cloudbase-init must have {upstream.NETWORK_PLUGIN.value}, or the machine has no address"
            yield ("network", "devices", index), "warning", message
    if spec.get("os") != "Windows":
        yield ("os",), "error", "must be Windows; otherwise CAPV treats the machine as Linux"


_BUILDER = Builder(
    plugin="vsphere",
    source="github.com/hashicorp/vsphere",
    version=">= 1.4.0",
    type="vsphere-clone",
    variables={
        "vcenter_server": None,
        "vcenter_username": None,
        "vcenter_password": None,
        "vsphere_cluster": None,
        "datastore": None,
        "source_template": None,
        "winrm_password": None,
    },
    secret=("vcenter_password", "winrm_password"),
    body="""  vcenter_server      = var.vcenter_server
  username            = var.vcenter_username
  password            = var.vcenter_password
  cluster             = var.vsphere_cluster
  datastore           = var.datastore
  template            = var.source_template
  vm_name             = local.image_name
  convert_to_template = true
"""
    + render_sysprep_shutdown(19)
    + render_winrm("Administrator"),
    sysprep="shutdown",
)


PROVIDER = Provider(
    name="vsphere",
    title="vSphere",
    template="VSphereMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_build_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.vmwareguestinfoservice.VMwareGuestInfoService",),
    builder=_BUILDER,
    static_addresses=True,
    limit=UserDataLimit(1_048_576, gzip=False, base64=True, source="VMware's guestinfo holds 1 MiB, in base64"),
    longest_name=63,
    no_store="vSphere has no store that a machine could read by an identity of its own",
    notes=_list_notes,
    faults=_find_faults,
    image="the template `transom-windows-2022-v1.36.3`",
)
