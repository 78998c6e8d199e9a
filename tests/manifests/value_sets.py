"""Values of an install: each that there is stands in one of these, otherwise than by default."""

from typing import Any

IMAGE = f"registry.example/team/kube-rbac-proxy:v0.20.2@sha256:{0:064}"
TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}

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
    "one-of-openshift": {"controllers": ["keys"], "openshift": True, "metrics": {"serviceMonitor": True}},
}
