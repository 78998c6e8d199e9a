"""Amazon EC2 by Cluster API Provider AWS (CAPA, infrastructure.cluster.x-k8s.io/v1beta2)."""

from collections.abc import Iterator
from typing import Any

from transom.capi import upstream_pools as upstream
from transom.capi.inputs import WorkerInputs
from transom.capi.providers.provider import Builder, Pool, Provider, UserDataLimit, winrm
from transom.capi.windows_release import image_name
from transom.proxy.finding import Path

_BYTES = 16_384
_LOOKED_UP = (
    "the image is looked up by name among those of the AWSCluster's imageLookupOrg: set it to the account that owns the "
    "image, or give --image ami-…"
)


def _machine(inputs: WorkerInputs) -> dict[str, Any]:
    image: dict[str, Any] = (
        {"ami": {"id": inputs.image}}
        if inputs.image.startswith("ami-")
        else {
            "ami": {},
            "imageLookupFormat": inputs.image or image_name(inputs.windows, inputs.kubernetes_version) + "-*",
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


def _notes(inputs: WorkerInputs) -> tuple[str, ...]:
    key_pair = (
        "no keyPair is given: CAPA asks EC2 for the AWSCluster's sshKeyName, else for a key pair called `default`, and EC2 "
        "refuses the machine where there is none",
    )
    if inputs.image.startswith("ami-"):
        return key_pair if not inputs.key_pair and "sshKeyName" not in inputs.machine else ()
    return (
        *(key_pair if inputs.image and not inputs.key_pair and "sshKeyName" not in inputs.machine else ()),
        _LOOKED_UP,
    )


def _pool(inputs: WorkerInputs) -> dict[str, Any]:
    of_machine = _machine(inputs)
    taken = ("instanceType", "ami", "imageLookupFormat", "iamInstanceProfile", "rootVolume", "instanceMetadataOptions")
    return {
        **_sizes(inputs),
        "awsLaunchTemplate": {
            **{name: of_machine[name] for name in taken if name in of_machine},
            "sshKeyName": inputs.key_pair,
        },
    }


def _sizes(inputs: WorkerInputs) -> dict[str, int]:
    smallest, largest = (int(size) for size in upstream.POOL_SIZES.value.split(", "))
    return {"minSize": min(smallest, inputs.replicas), "maxSize": max(largest, inputs.replicas)}


def _pool_problems(inputs: WorkerInputs) -> Iterator[tuple[Path, str]]:
    if inputs.secret_store:
        yield (
            ("secretStore",),
            "an AWSMachinePool has no store: CAPA puts the bootstrap data into the pool's launch template; machines of a "
            "MachineDeployment have one",
        )
    if inputs.machine_name_prefix:
        yield ("machineNamePrefix",), "EC2 calls the machines of a pool after their addresses, and so are the computers"
    smallest, largest = (inputs.machine.get(name, size) for name, size in _sizes(inputs).items())
    if isinstance(smallest, int) and isinstance(largest, int) and not smallest <= inputs.replicas <= largest:
        message = f"CAPA makes no pool of {inputs.replicas} machines where minSize is {smallest} and maxSize {largest}"
        yield ("replicas",), message


def _pool_notes(inputs: WorkerInputs) -> tuple[str, ...]:
    template = inputs.machine.get("awsLaunchTemplate") or {}
    key_pair = (
        "no keyPair is given: the machines of a pool have none then, and cloudbase-init reads their user data in images of "
        "`transom capi image` alone",
    )
    return (
        *(key_pair if inputs.image and not template.get("sshKeyName", inputs.key_pair) else ()),
        "CAPA replaces the pool's machines (instance refresh) as soon as launch template or bootstrap configuration is another",
        "the join token stands in the launch template, which whoever may describe it, and whatever runs on the machine, reads",
        *(() if inputs.image.startswith("ami-") else (_LOOKED_UP,)),
    )


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
    + winrm("Administrator"),
    sysprep="ec2launch",
)


AWS = Provider(
    name="aws",
    template="AWSMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta2",
    machine=_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("transom_ec2.EC2Service",),
    builder=_BUILDER,
    limit=UserDataLimit(_BYTES, gzip=True, base64=False, source="EC2 takes 16 kB before base64", remedy="give --secret-store"),
    longest_name=63,
    secret_stores=("secrets-manager", "ssm-parameter-store"),
    notes=_notes,
    pool=Pool(
        kind="AWSMachinePool",
        spec=_pool,
        called=lambda inputs: inputs.deployment,
        limit=UserDataLimit(
            _BYTES,
            gzip=False,
            base64=False,
            source="EC2 takes 16 kB before base64, and CAPA gzips nothing of a pool",
            remedy="take a MachineDeployment, whose user data CAPA gzips",
        ),
        names_machines=False,
        problems=_pool_problems,
        notes=_pool_notes,
    ),
)
