"""How a payload comes into the operator's pods: out of an image, from a volume, or from its publishers."""

from typing import Any, Final

from transom.manifests.templates import Both, Either, Given, Joined, Merged, No, Value, When

MOUNT: Final = "/payload"
"""Where `transom run` looks for a payload where nobody says another place."""
_IMAGE: Final = Value("payload.image")
_VOLUME: Final = Value("payload.volume")
_SHIPPED: Final = Value("payload.kubeadm")
_COPIED: Final = Given(Value("payload.copied"))
"""An init container copies it, which every version can; the image is then made upon Transom's own, whose program does it."""


def mount(spec: dict[str, Any]) -> None:
    """Give the first container of a pod's template the payload, where the values have one.

    An image has `payload.yaml` and its files at its root, as `transom payload build --image` makes it. It is mounted as a
    volume, which Kubernetes 1.35 does where nobody has changed its feature gates (KEP-4639; `ImageVolume` in
    pkg/features/kube_features.go of v1.36.3), with containerd 2.1 or CRI-O 1.31.
    The shipped one for kubeadm is fetched by each pod from its publishers, through the proxy of the settings.
    """
    container = spec["containers"][0]
    container["args"] += [
        When(Given(_SHIPPED), Joined(("--payload-kubeadm=", _SHIPPED))),
        When(Given(_SHIPPED), Joined(("--payload-cni=", Value("payload.cni")))),
    ]
    mounted = {"name": "payload", "mountPath": MOUNT, "readOnly": True}
    container["volumeMounts"].append(When(Either((Given(_IMAGE), Given(_VOLUME))), mounted))
    spec["volumes"] += [
        When(
            Both((Given(_IMAGE), No(_COPIED))),
            {"name": "payload", "image": {"reference": _IMAGE, "pullPolicy": "IfNotPresent"}},
        ),
        When(_COPIED, {"name": "payload", "emptyDir": {"sizeLimit": "4Gi"}}),
        When(Given(_VOLUME), Merged({"name": "payload"}, _VOLUME)),
    ]
    copying = {
        "name": "payload",
        "image": _IMAGE,
        "command": ["transom"],
        "args": ["payload", "copy", "/", MOUNT],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": container["securityContext"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "payload", "mountPath": MOUNT}],
    }
    spec["initContainers"] = When(_COPIED, [copying])
