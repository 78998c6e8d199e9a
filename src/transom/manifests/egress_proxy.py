"""EgressProxy: what can be said of its fields beyond their types.

The rules on a proxy's URL stand on the object around it. The API server prints the value of a field whose rule fails, in its
answer and in its audit log, and a URL may hold a password.
"""

from typing import Final

from transom.manifests.schema import AGE, NAME, Kind, Rules, column, condition_column
from transom.proxy.objects import EgressProxySpec
from transom.proxy.status import EgressProxyStatus

_URL: Final = {"maxLength": 4096}
_CIDRS: Final = {"maxItems": 64}
_COUNT: Final = {"minimum": 0}
_CIDR: Final = {"minLength": 1, "maxLength": 64}
_RULES: Final = {
    "spec": Rules(
        "What the consumers of an egress proxy get. `cluster` is the base; every other EgressProxy is a layer"
        " for workload clusters."
    ),
    "spec.httpProxy": Rules("The proxy for http URLs: an absolute URL, scheme http.", _URL),
    "spec.httpsProxy": Rules("The proxy for https URLs: an absolute URL, scheme http or https.", _URL),
    "spec.noProxy": Rules(
        "What is reached without the proxy: IPs, CIDRs and DNS names separated by commas, or `*` alone. Added to what the"
        " cluster itself needs.",
        {"maxLength": 30000},
    ),
    "spec.credentialsSecret": Rules(
        "The Secret in Transom's namespace with `username` and `password` for the proxy. They are percent-encoded where a"
        " consumer reads them.",
        required=("name",),
    ),
    "spec.credentialsSecret.name": Rules("The name of the Secret.", NAME),
    "spec.trustedCA": Rules(
        "The ConfigMap in Transom's namespace whose key `ca-bundle.crt` holds the certificates that consumers trust in"
        " addition.",
        required=("name",),
    ),
    "spec.trustedCA.name": Rules("The name of the ConfigMap.", NAME),
    "spec.readinessEndpoints": Rules(
        "URLs that have to be reachable through the proxy: tried before new settings are rolled out, and from each host after.",
        {"maxItems": 32},
        {"maxLength": 2048},
    ),
    "spec.readinessPolicy": Rules(
        "What an endpoint that fails does: Gate (the default) holds the change back like an invalid edit, Report only says so."
    ),
    "spec.windows": Rules("How Windows hosts get the settings. Of the base alone."),
    "spec.windows.services": Rules(
        "The services that get them.",
        {"maxItems": 64},
        {"minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9_.-]+$"},
    ),
    "spec.linux": Rules("How Linux machines of workload clusters get the settings. Of the base alone."),
    "spec.linux.environmentScope": Rules(
        "Where the variables are set: in drop-ins of services, or in both, these and the environment of the machine."
    ),
    "spec.linux.services": Rules(
        "Services that get a drop-in, besides the kubelet and the container runtime that a template names.",
        {"maxItems": 64},
        {"minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9_.-]+$"},
    ),
    "spec.consumers": Rules(
        "Who gets the settings; all of them by default, StaticPods only where the proxy has no credentials.", {"maxItems": 4}
    ),
    "spec.pods": Rules("Which pods get the settings. Of the base alone."),
    "spec.pods.namespaceSelector": Rules("The namespaces whose pods get them."),
    "spec.propagated": Rules("What workload clusters get, with propagate, as their own settings of the same names."),
    "spec.propagated.pods": Rules("Which of their pods get the settings; the highest layer that sets it."),
    "spec.propagated.pods.namespaceSelector": Rules(
        "The namespaces whose pods get them. With credentials no pod there gets a proxy without it."
    ),
    "spec.mode": Rules("Direct: the clusters of this layer have no proxy and no CAs of the layers below it. Not of the base."),
    "spec.values": Rules("The values objects of workload clusters. Of the base alone."),
    "spec.values.names": Rules(
        "Own: <id>-egress-values, beside the <id>-cluster-values of another operator. By default ours have that name."
    ),
    "spec.networks": Rules(
        "The networks of the cluster that this object lives in, where Transom cannot read them. Of the base alone, but for"
        " machineNetwork: in a layer it is added to the lists of its clusters."
    ),
    "spec.networks.dnsDomain": Rules("The cluster's DNS domain, as cluster.local.", {"maxLength": 253}),
    "spec.networks.machineNetwork": Rules("CIDRs of the machines.", _CIDRS, _CIDR),
    "spec.networks.serviceNetwork": Rules("CIDRs of the services.", _CIDRS, _CIDR),
    "spec.networks.podNetwork": Rules("CIDRs of the pods.", _CIDRS, _CIDR),
    "spec.networks.internalAPIHost": Rules("The host of the internal API server URL.", {"maxLength": 253}),
    "spec.networks.platform": Rules("Where the cluster runs: some platforms have addresses that bypass the proxy."),
    "spec.networks.platform.type": Rules("As in OpenShift's Infrastructure: AWS, Azure, GCP …", {"maxLength": 64}),
    "spec.networks.platform.region": Rules("The region of AWS.", {"maxLength": 64}),
    "spec.networks.platform.cloud": Rules(
        "The cloud of Azure: AzurePublicCloud (the default), AzureUSGovernmentCloud, AzureStackCloud …", {"maxLength": 64}
    ),
    "spec.networks.platform.armEndpoint": Rules("The ARM endpoint of Azure Stack.", {"maxLength": 2048}),
    "spec.clusterSelector": Rules(
        "The Cluster API clusters that get the settings, by label; all of them where it is absent. Credentials are sent only"
        " where it is there: `{}` is all clusters."
    ),
    "spec.priority": Rules("Of two layers for one cluster the higher wins; of equal ones the later name."),
    "spec.rollout": Rules("Whether machines of workload clusters are replaced by themselves when their settings change."),
    "spec.propagate": Rules("Whether workload clusters get the settings without being asked."),
    "spec.apps": Rules(
        "Apps and HelmReleases for which `transom render` prints the references to the values of their cluster.",
        {"maxItems": 256},
    ),
    "spec.apps[]": Rules("One object.", required=("kind", "namespace", "name")),
    "spec.apps[].apiVersion": Rules(
        "Its API version; without one application.giantswarm.io/v1alpha1 or helm.toolkit.fluxcd.io/v2.", {"maxLength": 317}
    ),
    "spec.apps[].kind": Rules("Its kind: App or HelmRelease.", {"minLength": 1, "maxLength": 63}),
    "spec.apps[].namespace": Rules("Its namespace.", {"minLength": 1, "maxLength": 63}),
    "spec.apps[].name": Rules("Its name.", NAME),
    "status.httpProxy": Rules("The proxy for http URLs that holds; userinfo is shown as `***@`."),
    "status.httpsProxy": Rules("The proxy for https URLs that holds; userinfo is shown as `***@`."),
    "status.noProxy": Rules("The merged NO_PROXY of the cluster."),
    "status.trustBundle": Rules("The certificates that consumers trust in addition."),
    "status.trustBundle.sha256": Rules("Of the bundle as it is handed on, in lower-case hex."),
    "status.trustBundle.certificates": Rules("How many there are.", _COUNT, default=False),
    "status.trustBundle.earliestExpiry": Rules("When the first of them expires.", {"format": "date-time"}),
    "status.settings": Rules(
        "What the hosts of this cluster are to have, and the endpoints, as a keyed hash: another after each change, also of a "
        "Secret or a ConfigMap. Of EgressProxy/cluster alone."
    ),
    "status.hosts": Rules("The hosts of this cluster that are not paused, by how far they are. Of EgressProxy/cluster alone."),
    "status.hosts.total": Rules("All of them.", _COUNT, default=False),
    "status.hosts.updated": Rules("Those that have the settings that hold.", _COUNT, default=False),
    "status.hosts.waiting": Rules("Those whose turn has not come, or that wait for a boot.", _COUNT, default=False),
    "status.hosts.failed": Rules("Those with which something is wrong.", _COUNT, default=False),
}


def _is(name: str) -> str:
    return f"(has(self.spec.{name}) && self.spec.{name} != '')"


def _base_alone(field: str) -> dict[str, str]:
    return {
        "rule": f"self.metadata.name == 'cluster' || !has(self.spec) || !has(self.spec.{field})",
        "message": "belongs to the EgressProxy named cluster alone: take it out of this layer",
        "fieldPath": f".spec.{field}",
    }


def _when(field: str, rule: str, message: str) -> dict[str, str]:
    return {"rule": f"!has(self.spec) || !{_is(field)} || ({rule})", "message": message, "fieldPath": f".spec.{field}"}


_CHECKS: Final = (
    _when("httpProxy", "self.spec.httpProxy.matches('^[hH][tT][tT][pP]://')", "must begin with http://"),
    _when("httpsProxy", "self.spec.httpsProxy.matches('^[hH][tT][tT][pP][sS]?://')", "must begin with http:// or https://"),
    {
        "rule": "self.metadata.name != 'cluster' || !has(self.spec) ||"
        f" !{_is('noProxy')} || {_is('httpProxy')} || {_is('httpsProxy')}",
        "message": "stands without a proxy: set spec.httpProxy or spec.httpsProxy, or take it out",
        "fieldPath": ".spec.noProxy",
    },
    {
        "rule": f"!has(self.spec) || !has(self.spec.credentialsSecret) || {_is('httpProxy')} || {_is('httpsProxy')}",
        "message": "stands without a proxy: set spec.httpProxy or spec.httpsProxy too",
        "fieldPath": ".spec.credentialsSecret",
    },
    {
        "rule": "!has(self.spec) || !has(self.spec.credentialsSecret) ||"
        f" !({_is('httpProxy')} && self.spec.httpProxy.contains('@') ||"
        f" {_is('httpsProxy')} && self.spec.httpsProxy.contains('@'))",
        "message": "is set, and a proxy URL has a user name in it too: keep one of them, better the Secret",
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
        "message": "but for machineNetwork belongs to the EgressProxy named cluster alone: take it out of this layer",
        "fieldPath": ".spec.networks",
    },
    {
        "rule": "self.metadata.name != 'cluster' || !has(self.spec) || !has(self.spec.mode)",
        "message": "is for layers: to take the proxy away everywhere, take the URLs out of the base",
        "fieldPath": ".spec.mode",
    },
    {
        "rule": f"!has(self.spec) || !has(self.spec.mode) || !{_is('httpProxy')} && !{_is('httpsProxy')}",
        "message": "Direct is no proxy, and this layer sets one: keep one of them",
        "fieldPath": ".spec.mode",
    },
    *(_base_alone(field) for field in ("values", "windows", "linux", "pods", "readinessEndpoints", "readinessPolicy")),
)

EGRESS_PROXY: Final = Kind(
    kind="EgressProxy",
    plural="egressproxies",
    singular="egressproxy",
    short_name="epx",
    scope="Cluster",
    description="The settings of an egress proxy: how the workloads and machines of clusters reach the world outside.",
    spec=EgressProxySpec,
    rules=_RULES,
    checks=_CHECKS,
    status=EgressProxyStatus,
    columns=(
        column("HTTPS Proxy", ".status.httpsProxy"),
        condition_column("Ready", "Ready"),
        column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        column("Hosts", ".status.hosts.total", "integer"),
        column("Updated", ".status.hosts.updated", "integer"),
        condition_column("Valid", "Valid", 1),
        condition_column("Trust", "TrustBundleValid", 1),
        # no date: kubectl shows the age of a date, and of one to come `<invalid>`
        column("CA Expiry", ".status.trustBundle.earliestExpiry", priority=1),
        column("HTTP Proxy", ".status.httpProxy", priority=1),
        column("No Proxy", ".status.noProxy", priority=1),
        AGE,
    ),
    spec_required=False,
)
