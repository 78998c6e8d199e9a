"""OpenStack by Cluster API Provider OpenStack (CAPO, infrastructure.cluster.x-k8s.io/v1beta1)."""

from typing import Any

from transom.capi.check.upstream import create_fact
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Faults, Object, Provider, render_winrm
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import build_image_name
from transom.common.mappings import get_nested_value

_CAPO = ("kubernetes-sigs/cluster-api-provider-openstack", "e52de58abe6f70f4ad3ad7f7f51632bfd70354b7")
_IMAGE_NAME = create_fact(
    _CAPO,
    "pkg/cloud/services/compute/instance.go",
    "CAPO takes an image by its exact name, and not two",
    "image.filter.name",
    "no images were found with the given image filter",
    "ErrMultipleMatches",
)
_USER_DATA = create_fact(
    _CAPO,
    "pkg/cloud/services/compute/instance.go",
    "CAPO passes the bootstrap data to the API client, which encodes it in base64",
    "UserData",
    "UserData:         []byte(instanceSpec.UserData)",
)


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
    return {
        "flavor": inputs.instance_type or "m1.large",
        "image": {"filter": {"name": inputs.image or build_image_name(inputs.windows, inputs.kubernetes_version)}},
        **({"rootVolume": {"sizeGiB": inputs.disk_gi_b}} if inputs.disk_gi_b else {}),
        "configDrive": True,
    }


def _find_faults(spec: Object, _: Object) -> Faults:
    name = str(get_nested_value(spec, "image", "filter", "name") or "")
    if "*" in name:
        yield ("image", "filter", "name"), "error", f"{name!r}: CAPO takes an image by its exact name"


_BUILDER = Builder(
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
    + render_winrm("Administrator"),
)


PROVIDER = Provider(
    name="openstack",
    title="OpenStack",
    template="OpenStackMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_build_machine,
    # the host name of the metadata may have a domain; the cloud provider looks for the server by its name.
    # The quotes are double: YAML would double single ones
    node_name='{{ v1.local_hostname.split(".")[0] }}',
    metadata_services=(
        "cloudbaseinit.metadata.services.configdrive.ConfigDriveService",
        "cloudbaseinit.metadata.services.httpservice.HttpService",
    ),
    builder=_BUILDER,
    static_addresses=True,
    limit=UserDataLimit(65_535, gzip=False, base64=True, source="Nova takes 65,535 bytes of user data, in base64"),
    longest_name=63,
    no_store="CAPO hands the bootstrap data to Nova unchanged; with configDrive, the machine reads it from a disk",
    faults=_find_faults,
    facts=(
        _IMAGE_NAME,
        _USER_DATA,
    ),
    image="the image `transom-windows-2022-v1.36.3`: Glance must have exactly one with that name",
)
