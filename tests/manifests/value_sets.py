"""Values of an install: each that there is stands in one of these, otherwise than by default."""

from typing import Any

IMAGE = f"registry.example/team/kube-rbac-proxy:v0.20.2@sha256:{0:064}"
TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}

AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
        }
    }
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "transom"}},
}

VALUE_SETS: dict[str, dict[str, Any]] = {
    "default": {},
    "image": {
        "image": {
            "registry": "registry.example:5000/team",
            "name": "egress",
            "tag": "1.2.3",
            "digest": f"sha256:{1:064}",
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "registry-key"}],
        "payload": {"image": f"registry.example/payload@sha256:{2:064}"},
    },
    "copied": {
        "image": {"registry": "registry.example"},
        "payload": {"image": "registry.example/payload:1", "copied": True},
        "controllers": ["egress", "windows"],
    },
    "operator": {
        "operator": {
            "replicas": 1,
            "resources": {"requests": {"cpu": 1, "memory": None}, "limits": {"memory": "1Gi"}},
            "nodeSelector": {"node-role.kubernetes.io/infra": ""},
            "tolerations": [TOLERATION],
            "priorityClassName": "system-cluster-critical",
            "arguments": ["--check-interval=1h", "--max-unavailable=3"],
            "environment": [
                {"name": "TRANSOM_LOG_LEVEL", "value": "debug {{ .Values }}"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
        },
        "requireHostKeys": True,
        "payload": {"volume": {"persistentVolumeClaim": {"claimName": "payload", "readOnly": True}}},
    },
    "webhook": {
        "webhook": {
            "replicas": 3,
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 2}},
            "nodeSelector": {"kubernetes.io/os": None, "kubernetes.io/arch": "amd64"},
            "tolerations": [TOLERATION],
            "priorityClassName": "",
            "arguments": ["--log-format=console"],
            "environment": [{"name": "TRANSOM_LOG_LEVEL", "value": "debug"}],
            "failurePolicy": "Fail",
            "issuer": {"name": "corp", "kind": "ClusterIssuer", "group": "cert-manager.io"},
        },
    },
    "kubeadm": {"payload": {"kubeadm": "v1.36.3", "cni": "flannel"}, "controllers": ["windows"]},
    "windows": {"controllers": ["egress", "windows"], "definitions": False, "podSecurity": "", "networkPolicy": False},
    "asked-for": {"controllers": ["hosts"], "webhook": {"always": True}, "admissionPolicies": False},
    "metrics": {"metrics": {"proxy": IMAGE, "serviceMonitor": True, "alerts": True}, "podSecurity": "baseline"},
    "everything": {
        "controllers": ["egress", "windows", "fleet", "pods"],
        "openshift": True,
        "metrics": {"proxy": IMAGE, "serviceMonitor": True},
    },
    "as-people-expect": {
        "global": {"imageRegistry": "registry.example/all", "imagePullSecrets": ["key", {"name": "other-key"}]},
        "enabled": True,
        "aggregatedRoles": False,
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"example.com/owner": "platform@corp.example"},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "corp-ca", "namespace": "egress-system"},
                "data": {"note": "{{ not a template }}"},
            }
        ],
        "operator": {
            "annotations": {"reloader.stakater.com/auto": "true"},
            "podAnnotations": {"sidecar.istio.io/inject": "false"},
            "podLabels": {"azure.workload.identity/use": "true", "team": "network"},
            "serviceAccount": {"create": False, "name": "existing", "annotations": {"a/b": "c"}},
            "podDisruptionBudget": False,
            "affinity": AFFINITY,
            "topologySpreadConstraints": [SPREAD],
            "podSecurityContext": {"fsGroup": 2000},
            "securityContext": {"runAsUser": 1000},
            "livenessProbe": {"periodSeconds": 60},
            "readinessProbe": {"periodSeconds": 10},
            "startupProbe": {"failureThreshold": 90},
            "extraVolumes": [{"name": "secrets", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}],
            "extraVolumeMounts": [{"name": "secrets", "mountPath": "/secrets"}],
            "extraContainers": [{"name": "side", "image": "registry.example/side:1"}],
            "extraInitContainers": [{"name": "first", "image": "registry.example/first:1"}],
        },
        "webhook": {
            "annotations": {"reloader.stakater.com/auto": "true"},
            "podAnnotations": {"sidecar.istio.io/inject": "false"},
            "podLabels": {"azure.workload.identity/use": "true"},
            "serviceAccount": {"create": True, "name": "transom-admission", "annotations": {"a/b": "c"}},
            "podDisruptionBudget": False,
            "affinity": AFFINITY,
            "topologySpreadConstraints": [SPREAD],
            "podSecurityContext": {"fsGroup": 2000},
            "securityContext": {"runAsUser": 1000},
            "livenessProbe": {"periodSeconds": 60},
            "readinessProbe": {"periodSeconds": 10},
            "startupProbe": {"failureThreshold": 90},
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "extraContainers": [{"name": "side", "image": "registry.example/side:1"}],
            "extraInitContainers": [{"name": "first", "image": "registry.example/first:1"}],
            "timeoutSeconds": 3,
            "port": 10250,
            "metricsPort": 18080,
            "hostNetwork": True,
        },
        "podSecurity": "privileged",
        "metrics": {
            "serviceMonitor": True,
            "alerts": True,
            "labels": {"release": "kube-prometheus-stack"},
            "annotations": {"a/b": "c"},
            "namespace": "monitoring",
            "interval": "30s",
            "runbookUrl": "https://docs.corp.example/transom/runbooks",
            "dashboard": True,
            "dashboardLabels": {"grafana_dashboard": "yes"},
            "dashboardAnnotations": {"grafana_folder": "Egress"},
        },
    },
    "shared-registry": {
        "image": {"registry": ""},
        "global": {"imageRegistry": "registry.example/all", "storageClass": "of another chart"},
        "webhook": {"hostNetwork": True, "port": 10250},
        "podSecurity": "",
        "metrics": {"proxy": IMAGE, "dashboard": True},
    },
    "one-of-openshift": {"controllers": ["keys"], "openshift": True, "metrics": {"serviceMonitor": True}},
}
