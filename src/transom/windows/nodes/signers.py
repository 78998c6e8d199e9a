"""Who signs the certificates of kubelets, and the group of those who may ask for their first one.

Names of Kubernetes (kubernetes.io, "Certificates and Certificate Signing Requests"). Roles are made of them, too, and read no
certificate.
"""

from typing import Final

CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING: Final = "kubernetes.io/kubelet-serving"
BOOTSTRAPPERS: Final = "system:bootstrappers:transom"
