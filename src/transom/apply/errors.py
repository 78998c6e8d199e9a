"""Errors of one host that its target causes, before anything is changed on it."""

from transom.hosts.errors import HostError
from transom.proxy.layers import BASE
from transom.proxy.settings import WithheldSettings


class ApiServerUnknown(HostError):
    """A NO_PROXY without the API server's host must not reach a kubelet."""


class CredentialsWithheld(HostError):
    """The workload cluster of the host does not get the proxy's credentials, so the host stays unchanged."""

    def __init__(self, withheld: WithheldSettings) -> None:
        super().__init__(
            f"the proxy of EgressProxy/{withheld.egress_proxy} has credentials, and its spec.clusterSelector "
            f"does not say which clusters "
            "get them: the host is unchanged"
        )


class SettingsMissing(HostError):
    """No object names settings for the host's cluster and none disables the proxy, so the host stays unchanged."""

    def __init__(self) -> None:
        super().__init__(
            f"EgressProxy/{BASE} does not exist, and the host keeps its settings: create the EgressProxy, with an empty "
            "spec to remove them"
        )
