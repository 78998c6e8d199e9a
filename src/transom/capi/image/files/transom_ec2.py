"""EC2's metadata as cloudbase-init reads it, for machines without a key pair: no public keys, and user data all the same.

cloudbase-init's own class raises an exception for what is not in the metadata, and its user data plugin, which asks for all
of it, then does nothing at all. This class takes its place (metadata_services of cloudbase-init.conf).
"""

from cloudbaseinit.metadata.services import base, ec2service  # type: ignore[import-untyped]


class EC2Service(ec2service.EC2Service):  # type: ignore[misc]
    """`cloudbaseinit.metadata.services.ec2service.EC2Service`, but that no public keys are an empty list of them."""

    def get_public_keys(self) -> list[str]:
        """Those of the instance's key pair."""
        try:
            keys: list[str] = super().get_public_keys()
        except base.NotExistingMetadataException:
            return []
        return keys
