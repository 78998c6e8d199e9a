"""The infrastructure providers of Windows workers, by name. A test holds the table against `ProviderName`."""

from typing import Final

from transom.capi.check.worker_inputs import ProviderName
from transom.capi.providers import aws, azure, gcp, nutanix, openstack, vsphere
from transom.capi.providers.provider import Provider

PROVIDERS: Final[dict[ProviderName, Provider]] = {
    "aws": aws.PROVIDER,
    "azure": azure.PROVIDER,
    "vsphere": vsphere.PROVIDER,
    "openstack": openstack.PROVIDER,
    "gcp": gcp.PROVIDER,
    "nutanix": nutanix.PROVIDER,
}
