"""ConfigMaps that ask for the trust bundle, by label, and what they get."""

from collections.abc import Iterable, Iterator

import msgspec

from transom.proxy.objects import ConfigMap
from transom.proxy.trust import Certificate, parse_bundle, pem

LABEL = "transom.dev/inject-trusted-cabundle"
OPENSHIFT_LABEL = "config.openshift.io/inject-trusted-cabundle"
SYSTEM_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian and its images have the system's CAs."""


class BundleTarget(msgspec.Struct, frozen=True):
    """A ConfigMap that gets `ca-bundle.crt`; with `bundle_only` without the system's CAs."""

    namespace: str
    name: str
    bundle_only: bool


def targets(config_maps: Iterable[ConfigMap], *, openshift: bool) -> Iterator[BundleTarget]:
    """Those that ask. OpenShift's own label is its network operator's where there is a `Proxy/cluster` (`openshift`)."""
    for item in config_maps:
        labels = item.metadata.labels
        value = labels.get(LABEL)
        asked = value in ("true", "bundle-only") or (not openshift and labels.get(OPENSHIFT_LABEL) == "true")
        if asked:
            yield BundleTarget(item.metadata.namespace or "", item.metadata.name, value == "bundle-only")


def trust_text(bundle: Iterable[Certificate], system: str) -> str:
    """What replaces a trust store: the system's CAs, then the bundle, each certificate once."""
    return pem(dict.fromkeys((*parse_bundle(system).certificates, *bundle)))
