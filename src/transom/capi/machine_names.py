"""How machines, and so the computers, of a worker are called."""

import hashlib

from transom.capi.inputs import WorkerInputs

NETBIOS = 15
"""A longer computer name is cut for NetBIOS (Microsoft: "Naming conventions in Active Directory")."""
RANDOM = 6
"""What Cluster API adds to a machine's name, a hyphen and five characters; what a scale set of Azure does, six characters."""


def machine_prefix(inputs: WorkerInputs) -> str:
    """What machines' names begin with: as given, else the deployment's name where they stay short, else `win` and a hash."""
    if inputs.machine_name_prefix:
        return inputs.machine_name_prefix
    if len(inputs.deployment) + RANDOM <= NETBIOS:
        return inputs.deployment
    return "win-" + _short_hash(f"{inputs.namespace}/{inputs.cluster}/{inputs.deployment}")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:5]
