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
            # CAPA puts the Kubernetes version in without its v
            "imageLookupFormat": inputs.image or image_name("{{.BaseOS}}", "v{{.K8sVersion}}") + "-*",
            "imageLookupBaseOS": inputs.windows,
        }
    )
    cloud_init: dict[str, Any] = (
        {"secureSecretsBackend": inputs.secret_store} if inputs.secret_store else {"insecureSkipSecretsManager": True}
    )
    return {
        "instanceType": inputs.instance_type or "m5.xlarge",
        **image,
        "iamInstanceProfile": "nodes.cluster-api-provider-aws.sigs.k8s.io",
        "rootVolume": {"size": inputs.disk_gi_b or 100, "type": "gp3", "encrypted": True},
        "cloudInit": cloud_init,
        # cloudbase-init's EC2Service asks without a session token
        "instanceMetadataOptions": {"httpEndpoint": "enabled", "httpTokens": "optional"},
    }


def _notes(inputs: WorkerInputs) -> tuple[str, ...]:
    if inputs.image.startswith("ami-"):
        return ()
    return (
        "the image is looked up by name among those of the AWSCluster's imageLookupOrg: set it to the account that owns the "
        "image, or give --image ami-…",
    )


AWS = Provider(
    name="aws",
    template="AWSMachineTemplate",
    api_version="infrastructure.cluster.x-k8s.io/v1beta2",
    machine=_machine,
    node_name="{{ v1.local_hostname }}",
    metadata_services=("cloudbaseinit.metadata.services.ec2service.EC2Service",),
    limit=UserDataLimit(16_384, gzip=True, base64=False, source="EC2 takes 16 kB before base64"),
    longest_name=63,
    secret_stores=("secrets-manager", "ssm-parameter-store"),
    notes=_notes,
)
