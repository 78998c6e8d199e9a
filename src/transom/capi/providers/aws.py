"""Amazon EC2 by Cluster API Provider AWS (CAPA, infrastructure.cluster.x-k8s.io/v1beta2)."""

from collections.abc import Iterator
from typing import Any

from transom.capi.check import upstream, upstream_pools
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Faults, Object, Pool, Provider, render_winrm
from transom.capi.worker import user_data
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import build_image_name
from transom.common.mappings import get_nested_value
from transom.proxy.finding import Path

_BYTES = 16_384
_LIMIT = UserDataLimit(_BYTES, gzip=True, base64=False, source="EC2 takes 16 kB before base64", remedy="give --secret-store")
_POOL_LIMIT = UserDataLimit(
    _BYTES,
    gzip=False,
    base64=False,
    source="EC2 takes 16 kB before base64, and CAPA gzips nothing of a pool",
    remedy="take a MachineDeployment, whose user data CAPA gzips",
)
_LOOKED_UP = (
    "the image is looked up by name among those of the AWSCluster's imageLookupOrg: set it to the account that owns the "
    "image, or give --image ami-…"
)


def _build_machine(inputs: WorkerInputs) -> dict[str, Any]:
    image: dict[str, Any] = (
        {"ami": {"id": inputs.image}}
        if inputs.image.startswith("ami-")
        else {
            "ami": {},
            "imageLookupFormat": inputs.image or build_image_name(inputs.windows, inputs.kubernetes_version) + "-*",
        }
    )
    cloud_init: dict[str, Any] = (
        {"secureSecretsBackend": inputs.secret_store} if inputs.secret_store else {"insecureSkipSecretsManager": True}
    )
    return {
        "instanceType": inputs.instance_type or "m5.xlarge",
        **image,
        **({"sshKeyName": inputs.key_pair} if inputs.key_pair or not inputs.image else {}),
        "iamInstanceProfile": "nodes.cluster-api-provider-aws.sigs.k8s.io",
        "rootVolume": {"size": inputs.disk_gi_b or 100, "type": "gp3", "encrypted": True},
        "cloudInit": cloud_init,
        # said to be false: CAPA gzips only then, and EC2 takes 16 kB
        "uncompressedUserData": False,
        # cloudbase-init's EC2Service asks without a session token
        "instanceMetadataOptions": {"httpEndpoint": "enabled", "httpTokens": "optional"},
    }


def _list_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    key_pair = (
        "keyPair is not set: CAPA uses the AWSCluster's sshKeyName, else a key pair called `default`, and EC2 "
        "rejects the machine if it does not exist",
    )
    if inputs.image.startswith("ami-"):
        return key_pair if not inputs.key_pair and "sshKeyName" not in inputs.machine else ()
    return (
        *(key_pair if inputs.image and not inputs.key_pair and "sshKeyName" not in inputs.machine else ()),
        _LOOKED_UP,
    )


def _build_pool(inputs: WorkerInputs) -> dict[str, Any]:
    of_machine = _build_machine(inputs)
    taken = ("instanceType", "ami", "imageLookupFormat", "iamInstanceProfile", "rootVolume", "instanceMetadataOptions")
    return {
        **_build_sizes(inputs),
        "awsLaunchTemplate": {
            **{name: of_machine[name] for name in taken if name in of_machine},
            "sshKeyName": inputs.key_pair,
        },
    }


def _build_sizes(inputs: WorkerInputs) -> dict[str, int]:
    smallest, largest = (int(size) for size in upstream_pools.POOL_SIZES.value.split(", "))
    return {"minSize": min(smallest, inputs.replicas), "maxSize": max(largest, inputs.replicas)}


def _find_pool_problems(inputs: WorkerInputs) -> Iterator[tuple[Path, str]]:
    if inputs.secret_store:
        yield (
            ("secretStore",),
            "an AWSMachinePool has no store: CAPA puts the bootstrap data into the pool's launch template; machines of a "
            "MachineDeployment have one",
        )
    if inputs.machine_name_prefix:
        yield ("machineNamePrefix",), "EC2 calls the machines of a pool after their addresses, and so are the computers"
    smallest, largest = (inputs.machine.get(name, size) for name, size in _build_sizes(inputs).items())
    if isinstance(smallest, int) and isinstance(largest, int) and not smallest <= inputs.replicas <= largest:
        message = f"CAPA makes no pool of {inputs.replicas} machines where minSize is {smallest} and maxSize {largest}"
        yield ("replicas",), message


def _list_pool_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    template = inputs.machine.get("awsLaunchTemplate") or {}
    key_pair = (
        "no keyPair is given: the machines of a pool have none then, and cloudbase-init reads their user data in images of "
        "`transom capi image` alone",
    )
    return (
        *(key_pair if inputs.image and not template.get("sshKeyName", inputs.key_pair) else ()),
        "CAPA replaces the pool's machines (instance refresh) as soon as launch template or bootstrap configuration is another",
        "the launch template contains the join token; users who can describe it and programs on the machine can read it",
        *(() if inputs.image.startswith("ami-") else (_LOOKED_UP,)),
    )


def _find_faults(spec: Object, bootstrap: Object) -> Faults:
    if spec.get(upstream.UNCOMPRESSED.value) is not False:
        raw = len(user_data.render_user_data(bootstrap, {})) if bootstrap.get("joinConfiguration") else 0
        yield (
            (upstream.UNCOMPRESSED.value,),
            "error" if raw > _BYTES else "warning",
            f"CAPA gzips user data only if this is false: {raw:,} bytes without the contents of Secrets; {_LIMIT.source}",
        )
    if spec.get("sshKeyName") == "" and "transom-windows-" not in str(spec.get("imageLookupFormat", "")):
        message = "without a key pair cloudbase-init reads no user data, but in images of `transom capi image`"
        yield ("sshKeyName",), "error", message
    if "sshKeyName" not in spec:
        message = f"CAPA asks for a key pair called `{upstream.KEY_PAIR.value}` where the AWSCluster names none either"
        yield ("sshKeyName",), "warning", message
    if get_nested_value(spec, "instanceMetadataOptions", "httpTokens") == "required":
        message = "cloudbase-init asks EC2's metadata without a session token, and gets no user data: optional"
        yield ("instanceMetadataOptions", "httpTokens"), "error", message


def _find_pool_faults(spec: Object, bootstrap: Object) -> Faults:
    """Find faults of an AWSMachinePool's `spec`, with the KubeadmConfigSpec of its machines."""
    template = spec.get("awsLaunchTemplate") or {}
    raw = len(user_data.render_user_data(bootstrap, {})) if bootstrap.get("joinConfiguration") else 0
    if raw > _BYTES:
        yield ("awsLaunchTemplate",), "error", f"{raw:,} bytes of user data without what Secrets hold; {_POOL_LIMIT.source}"
    if not template.get("sshKeyName") and "transom-windows-" not in str(template.get("imageLookupFormat", "")):
        message = "the machines have no key pair: cloudbase-init reads no user data, but in images of `transom capi image`"
        by_id = (template.get("ami") or {}).get("id")
        yield ("awsLaunchTemplate", "sshKeyName"), "warning" if by_id else "error", message
    if (template.get("instanceMetadataOptions") or {}).get("httpTokens") == "required":
        message = "cloudbase-init asks EC2's metadata without a session token, and gets no user data: optional"
        yield ("awsLaunchTemplate", "instanceMetadataOptions", "httpTokens"), "error", message


_BUILDER = Builder(
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
    + render_winrm("Administrator"),
    sysprep="ec2launch",
)


PROVIDER = Provider(
    name="aws",
    title="AWS",
    template="AWSMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta2",
    machine=_build_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("transom_ec2.EC2Service",),
    builder=_BUILDER,
    limit=_LIMIT,
    longest_name=63,
    secret_stores=("secrets-manager", "ssm-parameter-store"),
    notes=_list_notes,
    faults=_find_faults,
    pool=Pool(
        kind="AWSMachinePool",
        spec=_build_pool,
        called=lambda inputs: inputs.deployment,
        limit=_POOL_LIMIT,
        names_machines=False,
        problems=_find_pool_problems,
        notes=_list_pool_notes,
        faults=_find_pool_faults,
    ),
    image="the newest `transom-windows-2022-v1.36.3-*` of your account",
)
