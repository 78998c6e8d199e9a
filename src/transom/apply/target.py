"""One Windows host and the settings that it should get."""

import msgspec

from transom.apply.errors import ApiServerUnknown, SettingsMissing
from transom.hosts.ssh.ssh_client import Access
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, ResolvedSettings, WithheldSettings
from transom.sources.objects import Objects
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER
from transom.windows.nodes.requests import RESTART
from transom.windows.nodes.windows_instance import WindowsInstance, read_previous_keys, read_private_key
from transom.windows.parts.plan_builder import When


class Target(msgspec.Struct, frozen=True):
    """A host and its desired settings.

    `previous` are earlier keys that may still open it. A host with `withheld` settings stays unchanged.
    """

    instance: WindowsInstance
    egress: Egress
    key: Secret | None
    ssh_config: bool = False
    previous: tuple[Secret, ...] = ()
    withheld: WithheldSettings | None = None

    @property
    def access(self) -> Access:
        """The address of the host, its user and the keys that may open it."""
        spec = self.instance.spec
        keys = (self.key, *self.previous) if self.key else ()
        source = f"Secret {self.instance.metadata.namespace}/{spec.key_secret.name}" if keys else ""
        return Access(spec.address, spec.port, spec.username, keys, spec.host_key, self.ssh_config, source)

    def without_settings(self) -> "Target":
        """Return the target that removes what Transom has set on the host, which a person has ordered."""
        return msgspec.structs.replace(self, egress=Egress(windows=self.egress.windows), withheld=None)

    def choose_restart_time(self) -> When:
        """Return when services restart on this host. With `Manual` they restart on annotation `transom.dev/restart`."""
        match self.egress.windows.restart:
            case "OnNextBoot":
                return "boot"
            case "Manual" if not self.instance.metadata.annotations.get(RESTART):
                return "manual"
        return "now"


def list_targets(objects: Objects, settings: ResolvedSettings, *, ssh_config: bool) -> list[Target]:
    """Return the hosts that the objects name, each with its settings and its keys; `ssh_config` as in Access."""
    return [
        Target(
            instance,
            settings.for_instance(instance) or Egress(),
            read_private_key(instance, objects),
            ssh_config=ssh_config,
            previous=read_previous_keys(instance, objects),
            withheld=settings.find_withheld(instance),
        )
        for instance in objects.windows_instances
    ]


def ensure_settings_exist(egress: Egress, actual: ObservedState) -> None:
    """Raise SettingsMissing if the host would lose settings although no object says that it should have none."""
    if egress.missing and actual.registry.find_key(LEDGER) is not None and ledger.read(actual.registry).holds_settings:
        raise SettingsMissing


def ensure_api_server_known(egress: Egress, actual: ObservedState) -> None:
    """Raise ApiServerUnknown if a kubelet would get a proxy, and a NO_PROXY without the API server's host."""
    proxied = egress.http_proxy is not None or egress.https_proxy is not None
    if proxied and not egress.api_server_known and actual.find_service("kubelet") is not None:
        raise ApiServerUnknown(
            "the host has a kubelet, and NO_PROXY lacks the API server's host, which is not known: "
            "set spec.networks.internalAPIHost of EgressProxy/cluster"
        )
