"""Packer's builders, by provider: where the machine is built, and from which Windows Server."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from transom.capi.image.inputs import ImageInputs


class Builder(msgspec.Struct, frozen=True):
    """A Packer plugin and its builder; `variables` are its own, with defaults (None: must be given), `body` is HCL2.

    In `body` `@WINDOWS@` is the year. `secret` names the variables that are not shown.
    """

    plugin: str
    source: str
    version: str
    type: str
    variables: Mapping[str, Any]
    body: str
    secret: tuple[str, ...] = ()


_WINRM = """  communicator   = "winrm"
  winrm_use_ssl  = true
  winrm_insecure = true
  winrm_username = "{user}"
"""

AWS = Builder(
    plugin="amazon",
    source="github.com/hashicorp/amazon",
    version=">= 1.3.0",
    type="amazon-ebs",
    variables={"region": "us-east-1", "instance_type": "m5.xlarge", "subnet_id": "", "secret_store_proxy": ""},
    body="""  ami_name        = "${local.image_name}-${local.stamp}"
  region          = var.region
  instance_type   = var.instance_type
  subnet_id       = var.subnet_id
  user_data_file  = "${path.root}/scripts/winrm.ps1"
  ebs_optimized   = true
  # EC2Launch's sysprep stops it
  disable_stop_instance = true
  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = var.disk_size
    volume_type           = "gp3"
    delete_on_termination = true
  }
  source_ami_filter {
    owners      = ["amazon"]
    most_recent = true
    filters     = { name = "Windows_Server-@WINDOWS@-English-Core-Base-*" }
  }
"""
    + _WINRM.format(user="Administrator"),
)

AZURE = Builder(
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
    + _WINRM.format(user="packer"),
)

VSPHERE = Builder(
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
  shutdown_command    = "powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:/k/sysprep.ps1"
  shutdown_timeout    = "1h"
  winrm_password      = var.winrm_password
"""
    + _WINRM.format(user="Administrator"),
)

OPENSTACK = Builder(
    plugin="openstack",
    source="github.com/hashicorp/openstack",
    version=">= 1.1.0",
    type="openstack",
    variables={"source_image_name": None, "flavor": "m1.large", "network_id": None, "winrm_password": None},
    secret=("winrm_password",),
    body="""  # CAPO takes it by this very name
  image_name        = local.image_name
  source_image_name = var.source_image_name
  flavor            = var.flavor
  networks          = [var.network_id]
  user_data_file    = "${path.root}/scripts/winrm.ps1"
  winrm_password    = var.winrm_password
"""
    + _WINRM.format(user="Administrator"),
)

GCP = Builder(
    plugin="googlecompute",
    source="github.com/hashicorp/googlecompute",
    version=">= 1.1.0",
    type="googlecompute",
    variables={"project_id": None, "zone": "europe-west1-b", "machine_type": "n2-standard-4"},
    body="""  project_id              = var.project_id
  zone                    = var.zone
  machine_type            = var.machine_type
  disk_size               = var.disk_size
  disk_type               = "pd-ssd"
  image_name              = "${replace(local.image_name, ".", "-")}-${local.stamp}"
  # CAPG takes the newest of the family
  image_family            = replace(local.image_name, ".", "-")
  source_image_family     = "windows-@WINDOWS@-core"
  source_image_project_id = ["windows-cloud"]
  metadata = {
    # Packer reads it relative to the template
    windows-startup-script-ps1 = file("scripts/winrm.ps1")
  }
"""
    + _WINRM.format(user="packer_user"),
)

NUTANIX = Builder(
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
  shutdown_command = "powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:/k/sysprep.ps1"
  shutdown_timeout = "1h"
  winrm_password   = var.winrm_password
"""
    + _WINRM.format(user="Administrator"),
)

_GALLERY = """  shared_image_gallery_destination {
    subscription   = var.subscription_id
    resource_group = var.resource_group
    gallery_name   = var.shared_image_gallery_name
    image_name     = local.image_name
    image_version  = var.sig_image_version
  }
"""

BUILDERS = {"aws": AWS, "azure": AZURE, "vsphere": VSPHERE, "openstack": OPENSTACK, "gcp": GCP, "nutanix": NUTANIX}


def builder(inputs: ImageInputs) -> Builder:
    """The provider's builder; on Azure one that puts the image into a gallery, too, where one is named."""
    made = BUILDERS[inputs.provider]
    if not inputs.variables.get("shared_image_gallery_name"):
        return made
    version = ".".join(re.findall(r"\d+", inputs.kubernetes_version)[:3])
    return msgspec.structs.replace(made, body=made.body + _GALLERY, variables={**made.variables, "sig_image_version": version})
