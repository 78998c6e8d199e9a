"""EgressProxy: descriptions and limits of its fields.

The rules for a proxy's URL are attached to the object around it. The API server prints the value of a field whose rule fails,
in its answer and in its audit log, and a URL can contain a password.
"""

from typing import Final

from transom.manifests.schema import AGE, NAME, FieldRules, Kind, build_column, build_condition_column
from transom.proxy.objects import EgressProxySpec
from transom.proxy.status import EgressProxyStatus

_URL: Final = {"maxLength": 4096}
_CIDRS: Final = {"maxItems": 64}
_COUNT: Final = {"minimum": 0}
_CIDR: Final = {"minLength": 1, "maxLength": 64}
_RULES: Final = {
    "spec": FieldRules(
        "The settings of an egress proxy. `cluster` contains the default settings; every other EgressProxy overrides"
        " them for workload clusters."
    ),
    "spec.httpProxy": FieldRules("The proxy for http URLs: an absolute URL with scheme http.", _URL),
    "spec.httpsProxy": FieldRules("The proxy for https URLs: an absolute URL with scheme http or https.", _URL),
    "spec.noProxy": FieldRules(
        "Hosts that bypass the proxy: IPs, CIDRs and DNS names separated by commas, or `*` alone. Transom adds the"
        " entries that the cluster requires.",
        {"maxLength": 30000},
    ),
    "spec.credentialsSecret": FieldRules(
        "The Secret in Transom's namespace with `username` and `password` for the proxy. Transom percent-encodes"
        " both in proxy URLs.",
        required=("name",),
    ),
    "spec.credentialsSecret.name": FieldRules("The name of the Secret.", NAME),
    "spec.trustedCA": FieldRules(
        "The ConfigMap in Transom's namespace whose key `ca-bundle.crt` contains additional trusted certificates.",
        required=("name",),
    ),
    "spec.trustedCA.name": FieldRules("The name of the ConfigMap.", NAME),
    "spec.readinessEndpoints": FieldRules(
        "URLs that must be reachable through the proxy. Transom tests them before it rolls out new settings, and"
        " from each host afterwards.",
        {"maxItems": 32},
        {"maxLength": 2048},
    ),
    "spec.readinessPolicy": FieldRules(
        "What happens if an endpoint fails: Gate (the default) holds the change back like an invalid one, Report"
        " only reports it."
    ),
    "spec.windows": FieldRules("How Windows hosts get the settings. Only for EgressProxy `cluster`."),
    "spec.windows.services": FieldRules(
        "The services that get the settings.",
        {"maxItems": 64},
        {"minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9_.-]+$"},
    ),
    "spec.linux": FieldRules("How Linux machines of workload clusters get the settings. Only for EgressProxy `cluster`."),
    "spec.linux.environmentScope": FieldRules(
        "Where Transom sets the variables: in drop-ins of services, or both in these and in the environment of the machine."
    ),
    "spec.linux.services": FieldRules(
        "Services that get a drop-in, in addition to the kubelet and the container runtime of the template.",
        {"maxItems": 64},
        {"minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9_.-]+$"},
    ),
    "spec.consumers": FieldRules(
        "The consumers that get the settings. By default all of them, and StaticPods only if the proxy has no credentials.",
        {"maxItems": 4},
    ),
    "spec.pods": FieldRules("The pods that get the settings. Only for EgressProxy `cluster`."),
    "spec.pods.namespaceSelector": FieldRules("Selects the namespaces whose pods get the settings."),
    "spec.pods.ipv6Networks": FieldRules(
        "Whether NO_PROXY of pods contains IPv6 networks. By default it does not (Omit), because Python's httpx fails on them."
    ),
    "spec.pods.serviceNames": FieldRules(
        "Whether NO_PROXY of pods also contains the short names of the Services in the pod's namespace: NAME and"
        " NAME.NAMESPACE, as of the creation of the pod. By default it does not (Omit). Transom omits names that would exempt"
        " public hosts."
    ),
    "spec.propagated": FieldRules("The settings of workload clusters with `propagate`, as fields with the same names there."),
    "spec.propagated.pods": FieldRules(
        "The pods of workload clusters that get the settings. The override with the highest priority that sets it applies."
    ),
    "spec.propagated.pods.namespaceSelector": FieldRules(
        "Selects the namespaces whose pods get the settings. If the proxy has credentials, pods get no proxy without it."
    ),
    "spec.mode": FieldRules(
        "Direct: the selected clusters ignore the proxy and CAs of the default and of overrides with a lower"
        " priority. Not for EgressProxy `cluster`."
    ),
    "spec.values": FieldRules("The values objects of workload clusters. Only for EgressProxy `cluster`."),
    "spec.values.names": FieldRules(
        "Own: name them <id>-egress-values, next to the <id>-cluster-values of another operator. By default, Transom"
        " uses the latter name."
    ),
    "spec.values.dropInName": FieldRules(
        "Own: name the Secret of the systemd drop-in <id>-egress-systemd-proxy, next to the <id>-systemd-proxy of another"
        " operator. By default, Transom uses the latter name."
    ),
    "spec.networks": FieldRules(
        "The networks of the cluster that contains this object, if Transom cannot read them. Only for EgressProxy"
        " `cluster`, except machineNetwork: an override adds it to the lists of its clusters."
    ),
    "spec.networks.dnsDomain": FieldRules("The cluster's DNS domain, such as cluster.local.", {"maxLength": 253}),
    "spec.networks.machineNetwork": FieldRules("The CIDRs of the machines.", _CIDRS, _CIDR),
    "spec.networks.serviceNetwork": FieldRules("The CIDRs of the services.", _CIDRS, _CIDR),
    "spec.networks.podNetwork": FieldRules("The CIDRs of the pods.", _CIDRS, _CIDR),
    "spec.networks.internalAPIHost": FieldRules("The host of the internal URL of the API server.", {"maxLength": 253}),
    "spec.networks.platform": FieldRules("The platform of the cluster. Some platforms have addresses that bypass the proxy."),
    "spec.networks.platform.type": FieldRules(
        "The type, as in OpenShift's Infrastructure: AWS, Azure, GCP …", {"maxLength": 64}
    ),
    "spec.networks.platform.region": FieldRules("The AWS region.", {"maxLength": 64}),
    "spec.networks.platform.cloud": FieldRules(
        "The Azure cloud: AzurePublicCloud (the default), AzureUSGovernmentCloud, AzureStackCloud …", {"maxLength": 64}
    ),
    "spec.networks.platform.armEndpoint": FieldRules("The ARM endpoint of Azure Stack.", {"maxLength": 2048}),
    "spec.clusterSelector": FieldRules(
        "Selects the Cluster API clusters that get the settings, by label. If it is not set, all clusters get them,"
        " but without credentials. `{}` selects all clusters, with credentials."
    ),
    "spec.priority": FieldRules(
        "If two overrides select the same cluster, the higher priority wins. With equal priorities, the later name wins."
    ),
    "spec.rollout": FieldRules(
        "Whether Transom replaces machines of workload clusters automatically when their settings change."
    ),
    "spec.propagate": FieldRules("Whether Transom copies the settings into workload clusters that do not request them."),
    "spec.apps": FieldRules(
        "Apps and HelmReleases for which `transom render` prints references to the values of their cluster.",
        {"maxItems": 256},
    ),
    "spec.apps[]": FieldRules("One object.", required=("kind", "namespace", "name")),
    "spec.apps[].apiVersion": FieldRules(
        "Its API version. By default application.giantswarm.io/v1alpha1 or helm.toolkit.fluxcd.io/v2.", {"maxLength": 317}
    ),
    "spec.apps[].kind": FieldRules("Its kind: App or HelmRelease.", {"minLength": 1, "maxLength": 63}),
    "spec.apps[].namespace": FieldRules("Its namespace.", {"minLength": 1, "maxLength": 63}),
    "spec.apps[].name": FieldRules("Its name.", NAME),
    "status.httpProxy": FieldRules("The current proxy for http URLs. User name and password are shown as `***@`."),
    "status.httpsProxy": FieldRules("The current proxy for https URLs. User name and password are shown as `***@`."),
    "status.noProxy": FieldRules("The merged NO_PROXY of the cluster."),
    "status.trustBundle": FieldRules("The additional trusted certificates."),
    "status.trustBundle.sha256": FieldRules("The SHA-256 of the bundle that consumers get, in lower-case hex."),
    "status.trustBundle.certificates": FieldRules("The number of certificates.", _COUNT, default=False),
    "status.trustBundle.earliestExpiry": FieldRules("The earliest expiry of a certificate.", {"format": "date-time"}),
    "status.settings": FieldRules(
        "A keyed hash of the desired settings of this cluster's hosts, and of the endpoints. It changes with each"
        " change, including those of a Secret or ConfigMap. Only for EgressProxy `cluster`."
    ),
    "status.hosts": FieldRules(
        "The number of hosts of this cluster that are not paused, by progress. Only for EgressProxy `cluster`."
    ),
    "status.hosts.total": FieldRules("All hosts.", _COUNT, default=False),
    "status.hosts.updated": FieldRules("Hosts with the current settings.", _COUNT, default=False),
    "status.hosts.waiting": FieldRules("Hosts that wait for their turn or for a reboot.", _COUNT, default=False),
    "status.hosts.failed": FieldRules("Hosts with an error.", _COUNT, default=False),
}


def _build_set_expression(name: str) -> str:
    return f"(has(self.spec.{name}) && self.spec.{name} != '')"


def _build_base_only_check(field: str) -> dict[str, str]:
    return {
        "rule": f"self.metadata.name == 'cluster' || !has(self.spec) || !has(self.spec.{field})",
        "message": "is allowed only in the EgressProxy named cluster: all others are for workload clusters",
        "fieldPath": f".spec.{field}",
    }


def _build_conditional_check(field: str, rule: str, message: str) -> dict[str, str]:
    return {
        "rule": f"!has(self.spec) || !{_build_set_expression(field)} || ({rule})",
        "message": message,
        "fieldPath": f".spec.{field}",
    }


_CHECKS: Final = (
    _build_conditional_check("httpProxy", "self.spec.httpProxy.matches('^[hH][tT][tT][pP]://')", "must begin with http://"),
    _build_conditional_check(
        "httpsProxy", "self.spec.httpsProxy.matches('^[hH][tT][tT][pP][sS]?://')", "must begin with http:// or https://"
    ),
    {
        "rule": "self.metadata.name != 'cluster' || !has(self.spec) ||"
        f" !{_build_set_expression('noProxy')} || {_build_set_expression('httpProxy')}"
        f" || {_build_set_expression('httpsProxy')}",
        "message": "requires a proxy: set spec.httpProxy or spec.httpsProxy, or remove it",
        "fieldPath": ".spec.noProxy",
    },
    {
        "rule": f"!has(self.spec) || !has(self.spec.credentialsSecret) || {_build_set_expression('httpProxy')}"
        f" || {_build_set_expression('httpsProxy')}",
        "message": "requires a proxy: set spec.httpProxy or spec.httpsProxy as well",
        "fieldPath": ".spec.credentialsSecret",
    },
    {
        "rule": "!has(self.spec) || !has(self.spec.credentialsSecret) ||"
        f" !({_build_set_expression('httpProxy')} && self.spec.httpProxy.contains('@') ||"
        f" {_build_set_expression('httpsProxy')} && self.spec.httpsProxy.contains('@'))",
        "message": "is set, but a proxy URL also contains a user name: remove it from the URL",
        "fieldPath": ".spec.credentialsSecret",
    },
    {
        "rule": "!has(self.spec) || !has(self.spec.readinessEndpoints) ||"
        " self.spec.readinessEndpoints.all(e, e.startsWith('http://') || e.startsWith('https://'))",
        "message": "must be absolute URLs: http:// or https://, and a host",
        "fieldPath": ".spec.readinessEndpoints",
    },
    {
        "rule": "self.metadata.name == 'cluster' || !has(self.spec) || !has(self.spec.networks) || !("
        + " || ".join(
            f"has(self.spec.networks.{field})"
            for field in ("dnsDomain", "serviceNetwork", "podNetwork", "internalAPIHost", "platform")
        )
        + ")",
        "message": "is allowed only in the EgressProxy named cluster: all others are for workload clusters, and may set "
        "only machineNetwork",
        "fieldPath": ".spec.networks",
    },
    {
        "rule": "self.metadata.name != 'cluster' || !has(self.spec) || !has(self.spec.mode)",
        "message": "is not allowed in the EgressProxy named cluster: to remove the proxy everywhere, remove the URLs",
        "fieldPath": ".spec.mode",
    },
    {
        "rule": f"!has(self.spec) || !has(self.spec.mode) || !{_build_set_expression('httpProxy')}"
        f" && !{_build_set_expression('httpsProxy')}",
        "message": "Direct means no proxy, but this object also sets a proxy: remove one of them",
        "fieldPath": ".spec.mode",
    },
    *(
        _build_base_only_check(field)
        for field in ("values", "windows", "linux", "pods", "readinessEndpoints", "readinessPolicy")
    ),
)

EGRESS_PROXY: Final = Kind(
    kind="EgressProxy",
    plural="egressproxies",
    singular="egressproxy",
    short_name="epx",
    scope="Cluster",
    description="The settings of an egress proxy: how workloads and machines of clusters reach the Internet.",
    spec=EgressProxySpec,
    rules=_RULES,
    checks=_CHECKS,
    status=EgressProxyStatus,
    columns=(
        build_column("HTTPS Proxy", ".status.httpsProxy"),
        build_condition_column("Ready", "Ready"),
        build_column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        build_column("Hosts", ".status.hosts.total", "integer"),
        build_column("Updated", ".status.hosts.updated", "integer"),
        build_condition_column("Valid", "Valid", 1),
        build_condition_column("Trust", "TrustBundleValid", 1),
        # no date: kubectl shows the age of a date, and of one to come `<invalid>`
        build_column("CA Expiry", ".status.trustBundle.earliestExpiry", priority=1),
        build_column("HTTP Proxy", ".status.httpProxy", priority=1),
        build_column("No Proxy", ".status.noProxy", priority=1),
        AGE,
    ),
    spec_required=False,
)
