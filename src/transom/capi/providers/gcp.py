"""Google Compute Engine by Cluster API Provider GCP (CAPG, infrastructure.cluster.x-k8s.io/v1beta1)."""

import re
from typing import Any

from transom.capi.check.upstream import create_fact
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Faults, Object, Provider, render_winrm
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import build_image_family

_CAPG = ("kubernetes-sigs/cluster-api-provider-gcp", "5e0bb3b249cab59aa2720f03094a172fd153666b")
_IMAGE_FAMILY = create_fact(
    _CAPG,
    "cloud/scope/machine.go",
    "CAPG takes the newest image of a family",
    "imageFamily",
    '"global", "images", "family"',
    "m.GCPMachine.Spec.ImageFamily",
)
_USER_DATA = create_fact(
    _CAPG,
    "cloud/services/compute/instances/reconcile.go",
    "CAPG passes the bootstrap data unchanged",
    "user-data",
    'metadataKeyUserData = "user-data"',
    "Value: ptr.To[string](bootstrapData)",
)


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
    family = build_image_family(inputs.windows, inputs.kubernetes_version)
    return {
        "instanceType": inputs.instance_type or "n2-standard-4",
        **({"image": inputs.image} if inputs.image else {"imageFamily": f"global/images/family/{family}"}),
        "rootDeviceSize": inputs.disk_gi_b or 100,
        "rootDeviceType": "pd-ssd",
    }


def _find_faults(spec: Object, _: Object) -> Faults:
    name = str(spec.get("image", ""))
    if re.search(r"/transom-windows-\d+-v[0-9-]+$", name) and not re.search(r"-\d{12}$", name):
        message = f"{name!r}: builds add their time to an image's name; imageFamily has the newest of them"
        yield ("image",), "error", message


_BUILDER = Builder(
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
    + render_winrm("packer_user"),
)


PROVIDER = Provider(
    name="gcp",
    title="GCP",
    template="GCPMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta1",
    machine=_build_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.gceservice.GCEService",),
    builder=_BUILDER,
    limit=UserDataLimit(262_144, gzip=False, base64=False, source="Compute Engine takes 256 kB in one metadata entry"),
    longest_name=63,
    name_pattern=r"[a-z]([a-z0-9-]*[a-z0-9])?",
    no_store="CAPG hands the bootstrap data to Compute Engine's metadata unchanged",
    faults=_find_faults,
    facts=(
        _IMAGE_FAMILY,
        _USER_DATA,
    ),
    image="the newest of the family `transom-windows-2022-v1-36-3`",
)
