"""Pods as hypothesis draws them: valid ones, with whatever of their own."""

from typing import Any

from hypothesis import strategies as st

NAMES = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "Http_Proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "PIP_CERT",
    "A",
]
_values = st.sampled_from(["", "x", "$(HTTP_PROXY)", "$(A)", "ä €", "hunter2"])
_reference = st.sampled_from(
    [
        {"secretKeyRef": {"name": "theirs", "key": "url"}},
        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        {"secretKeyRef": {"name": "transom-egress", "key": "HTTP_PROXY", "optional": False}},
    ]
)


@st.composite
def _variable(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    if draw(st.booleans()):
        return {"name": name, "value": draw(_values)}
    return {"name": name, "valueFrom": draw(_reference)}


_env = st.lists(_variable(), max_size=5, unique_by=lambda item: item["name"])
_mounts = st.lists(st.sampled_from(["/tmp", "/etc/transom/ca", "/etc"]), max_size=2, unique=True)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod that the API server takes: names unique, mounts of volumes that are there."""
    count = draw(st.integers(1, 4))
    volumes = draw(st.sampled_from([None, [{"name": "mine", "emptyDir": {}}]]))
    containers = []
    for index in range(count):
        container: dict[str, Any] = {"name": f"c{index}", "image": "registry.corp.example/x:1"}
        if draw(st.booleans()):
            container["env"] = draw(_env)
        if volumes and (mounts := draw(_mounts)):
            container["volumeMounts"] = [{"name": "mine", "mountPath": path} for path in mounts]
        containers.append(container)
    inits = draw(st.integers(0, count - 1))
    spec: dict[str, Any] = {"containers": containers[inits:]}
    if inits:
        spec["initContainers"] = containers[:inits]
    if volumes:
        spec["volumes"] = volumes
    if draw(st.booleans()):
        spec["os"] = {"name": draw(st.sampled_from(["linux", "windows"]))}
    metadata: dict[str, Any] = {"name": "drawn"}
    annotations = draw(
        st.dictionaries(
            st.sampled_from(
                ["transom.dev/inject-proxy", "transom.dev/inject-node-use-env-proxy", "transom.dev/settings-hash", "a"]
            ),
            st.sampled_from(["false", "override", "true", "x"]),
            max_size=3,
        )
    )
    if annotations:
        metadata["annotations"] = annotations
    if draw(st.booleans()):
        metadata["labels"] = {"transom.dev/inject-ca": "true"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
