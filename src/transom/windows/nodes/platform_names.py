"""The name of a host's Node by platform: a cloud controller manager looks for the Node under the name that the cloud has.

The rules are those of the Windows Machine Config Operator (openshift/windows-machine-config-operator 0ac3e15,
pkg/services/services.go, `getHostnameCmd`; pkg/internal/gcp-get-hostname.ps1).
"""

from typing import Final

_SCRIPTS: Final = {"AWS": "node-name-aws.ps1", "GCP": "node-name-gcp.ps1"}
"""By platform, the script that asks the metadata service of the instance."""
_LONGEST: Final = 63
"""Characters of a name on GCP."""


def find_name_script(platform: str) -> str | None:
    """Return the script that prints the name of a host; None on platforms where the host itself has it."""
    return next((script for name, script in _SCRIPTS.items() if name.lower() == platform.lower()), None)


def choose_node_name(platform: str, *, recorded: str, computer_name: str, dns_domain: str, metadata_name: str) -> str:
    """Return the name for a host without `spec.nodeName`, in lower case; empty if the platform has to say it and did not.

    `recorded` is the name that Transom has recorded for the host, whatever rule it is from: a Node keeps its name.
    """
    recorded, computer = recorded.lower(), computer_name.lower()
    match platform.lower():
        case "aws":
            return recorded or metadata_name.lower()
        case "gcp":
            return recorded or _shorten(metadata_name.lower())
        case "vsphere":
            full = f"{computer}.{dns_domain.lower()}" if dns_domain and "." not in computer else computer
            return recorded if recorded in (full, computer) else full
        case _:
            return computer


def _shorten(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    first = name.partition(".")[0]
    return first if "." in name and len(first) <= _LONGEST else name[:_LONGEST]
