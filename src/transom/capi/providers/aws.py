"""Amazon EC2 by Cluster API Provider AWS (CAPA, infrastructure.cluster.x-k8s.io/v1beta2)."""

from typing import Any

from transom.capi.image_name import image_name
from transom.capi.inputs import WorkerInputs
from transom.capi.providers.provider import Provider, UserDataLimit


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
        "the image is looked up by name among those of the AWSCluster's imageLookupOrg: set it to the account that owns the "
        "image, or give --image ami-…",
    )


AWS = Provider(
    name="aws",
    template="AWSMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta2",
    machine=_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("transom_ec2.EC2Service",),
    limit=UserDataLimit(16_384, gzip=True, base64=False, source="EC2 takes 16 kB before base64"),
    longest_name=63,
    secret_stores=("secrets-manager", "ssm-parameter-store"),
    notes=_notes,
)
