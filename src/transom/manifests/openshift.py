"""What Windows nodes of OpenShift have in the cluster: an account for the cloud's node managers, and their hosts' metrics."""

from typing import Any, Final

from transom.manifests.conditions import AllTests
from transom.manifests.grants import LABELS, RBAC, SYSTEM
from transom.manifests.roles import OPENSHIFT, build_controller_test
from transom.manifests.templates import OWN

NODES: Final = AllTests((OPENSHIFT, build_controller_test("nodes")))
"""Whether hosts become nodes of OpenShift."""
NODE_MANAGER: Final = "transom-cloud-node-manager"
EXPORTER: Final = "windows-exporter"
EXPORTER_SECRET: Final = f"{EXPORTER}-tls"
EXPORTER_PORT: Final = 9182
MONITORED: Final = {"openshift.io/cluster-monitoring": "true"}
"""The label of a namespace whose ServiceMonitors OpenShift's own Prometheus reads (cluster-monitoring-operator)."""
_MONITORING: Final = "monitoring.coreos.com/v1"
_CLIENT: Final = "/etc/prometheus/secrets/metrics-client-certs"
"""The certificate of OpenShift's Prometheus, of the CA that kubelets know their clients by (cluster-monitoring-operator)."""
_RECORDED: Final = {
    "instance:node_cpu_utilisation:rate1m": '1 - avg without (core, mode)(rate(windows_cpu_time_total{mode="idle"}[1m]))',
    "instance:node_cpu:rate:sum": 'sum(rate(windows_cpu_time_total{mode!="idle"}[3m])) BY (instance)',
    "node_filesystem_size_bytes": "windows_logical_disk_size_bytes",
    "node_filesystem_avail_bytes": "windows_logical_disk_free_bytes",
    "node_filesystem_free_bytes": "windows_logical_disk_free_bytes",
    "node_network_receive_bytes_total": "rate(windows_net_bytes_received_total[1m])",
    "node_network_transmit_bytes_total": "rate(windows_net_bytes_sent_total[1m])",
    "node_memory_MemAvailable_bytes": "windows_memory_available_bytes",
    "node_memory_MemTotal_bytes": "windows_memory_physical_total_bytes",
    "node_cpu_info": "windows_cpu_info",
    "pod:container_cpu_usage:sum": (
        "sum(rate(windows_container_cpu_usage_seconds_total[5m]) * on(container_id) group_left(namespace, pod, container) "
        'kube_pod_container_info{container_id!=""}) by (pod,namespace)'
    ),
    "container_memory_working_set_bytes": (
        "label_replace(windows_container_memory_usage_private_working_set_bytes * on(container_id) "
        'group_left(namespace, pod, container) kube_pod_container_info{container_id!=""},"container","","","")'
    ),
    "pod_interface_network:container_network_receive_bytes:irate5m": (
        "sum(irate(windows_container_network_receive_bytes_total[5m]) * on(container_id) group_left(namespace, pod, interface) "
        'kube_pod_container_info{container_id!=""}) by (pod,namespace)'
    ),
    "pod_interface_network:container_network_transmit_bytes_total:irate5m": (
        "sum(irate(windows_container_network_transmit_bytes_total[5m]) * on(container_id) "
        'group_left(namespace, pod, interface) kube_pod_container_info{container_id!=""}) by (pod,namespace)'
    ),
}
"""What the console draws, by the names that it asks for (WMCO, bundle/manifests, windows-prometheus-k8s-rules at 0be4b9ccb).

WMCO's `instance:node_cpu:rate:sum` there is the time in which the CPU had nothing to do.
"""


def build_node_manager() -> list[dict[str, Any]]:
    """Build the account of cloud-node-manager on Azure's hosts, its rights, and a Secret for its token.

    Rights as in kubernetes-sigs/cloud-provider-azure, examples/out-of-tree/cloud-node-manager.yaml. A kubelet's own are not
    enough: it may not remove a taint from its Node (NodeRestriction).
    """
    metadata = {"name": NODE_MANAGER, "labels": LABELS}
    own = {**metadata, "namespace": OWN}
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["watch", "list", "get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    token = {**own, "annotations": {"kubernetes.io/service-account.name": NODE_MANAGER}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {"apiVersion": "v1", "kind": "Secret", "metadata": token, "type": "kubernetes.io/service-account-token"},
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NODE_MANAGER},
            "subjects": [{"kind": "ServiceAccount", "name": NODE_MANAGER, "namespace": OWN}],
        },
    ]


def build_monitoring() -> list[dict[str, Any]]:
    """Service, ServiceMonitor, rules, and what OpenShift's Prometheus may read for them.

    The Service exists for its certificate: Prometheus finds the hosts as it finds their kubelets (WMCO,
    controllers/metric_controller.go).
    """
    own = {"name": EXPORTER, "namespace": OWN, "labels": {**LABELS, "name": EXPORTER}}
    certified = {**own, "annotations": {"service.beta.openshift.io/serving-cert-secret-name": EXPORTER_SECRET}}
    ports = [{"name": "metrics", "port": EXPORTER_PORT, "protocol": "TCP", "targetPort": EXPORTER_PORT}]
    reader = {**own, "name": f"{EXPORTER}-prometheus"}
    rules = [
        {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
    ]
    recorded = [{"record": name, "expr": expression} for name, expression in _RECORDED.items()]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": certified, "spec": {"ports": ports}},
        {"apiVersion": RBAC, "kind": "Role", "metadata": reader, "rules": rules},
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": reader,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": reader["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "openshift-monitoring"}],
        },
        {"apiVersion": _MONITORING, "kind": "ServiceMonitor", "metadata": own, "spec": _build_scrape_endpoint()},
        {
            "apiVersion": _MONITORING,
            "kind": "PrometheusRule",
            "metadata": own,
            "spec": {"groups": [{"name": "windows.rules", "rules": recorded}]},
        },
    ]


def _build_scrape_endpoint() -> dict[str, Any]:
    relabelings = [
        {
            "action": "replace",
            "regex": "(.*)",
            "replacement": "$1",
            "sourceLabels": ["__meta_kubernetes_endpointslice_endpoint_target_name"],
            "targetLabel": "instance",
        },
        {"action": "keep", "regex": "windows", "sourceLabels": ["__meta_kubernetes_node_label_kubernetes_io_os"]},
        {
            "action": "replace",
            "regex": r"(.+)(?::\d+)",
            "replacement": f"$1:{EXPORTER_PORT}",
            "sourceLabels": ["__address__"],
            "targetLabel": "__address__",
        },
        {"action": "replace", "replacement": EXPORTER, "targetLabel": "job"},
    ]
    endpoint = {
        "honorLabels": True,
        "interval": "30s",
        "path": "/metrics",
        "port": "https-metrics",
        "scheme": "https",
        "tlsConfig": {
            "caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt",
            "certFile": f"{_CLIENT}/tls.crt",
            "keyFile": f"{_CLIENT}/tls.key",
            "serverName": f"{EXPORTER}.{OWN}.svc",
        },
        "relabelings": relabelings,
    }
    return {
        "attachMetadata": {"node": True},
        "endpoints": [endpoint],
        "namespaceSelector": {"matchNames": [SYSTEM]},
        "selector": {"matchLabels": {"k8s-app": "kubelet"}},
        "serviceDiscoveryRole": "EndpointSlice",
    }
