"""The infrastructure providers that Windows workers can be made for."""

from transom.capi.providers import aws, azure, gcp, nutanix, openstack, vsphere
from transom.capi.providers.provider import Provider

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (aws.AWS, azure.AZURE, vsphere.VSPHERE, openstack.OPENSTACK, gcp.GCP, nutanix.NUTANIX)
}
