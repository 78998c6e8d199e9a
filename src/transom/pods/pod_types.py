"""Pods: which of them get the proxy and the CAs, and the JSON patch that gives them.

A `Pod` here is as far as its environment concerns Transom: projections of core/v1. Go writes an empty list as `null`.
"""

import re
from typing import Any, Final

import msgspec

HOST_OS: Final = "kubernetes.io/os"
"""The label of nodes that a Windows pod's node selector names."""
OS_LABELS: Final = (HOST_OS, "beta.kubernetes.io/os")
"""Its names; kubelets still set the older one (kubernetes v1.36.3, pkg/kubelet/kubelet_node_status.go)."""
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
"""The label that Windows nodes alone have."""
_RUNTIME_CLASS: Final = re.compile(r"windows-20\d\d")
"""The RuntimeClasses of `windows.nodes.scheduling`: on admission, a pod has their node selector already."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of mirror pods: what the kubelet shows of its static pods."""


class _Base(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class PodOwner(_Base, frozen=True):
    """One of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodMeta(_Base, frozen=True):
    """`metadata` of a pod or of a pod template."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[PodOwner] | None = None

    def get_label(self, name: str) -> str | None:
        """Return the value of a label."""
        return self.labels.get(name) if self.labels else None

    def get_annotation(self, name: str) -> str | None:
        """Return the value of an annotation."""
        return self.annotations.get(name) if self.annotations else None


class PodVariable(_Base, frozen=True):
    """One of `env`. Without value and source its value is empty."""

    name: str = ""
    value: str | None = None
    value_from: Any = None


class PodVariables(_Base, frozen=True):
    """One of `envFrom`: each key of a ConfigMap or a Secret is a variable, with this before its name."""

    prefix: str | None = None


class Mount(_Base, frozen=True):
    """One of `volumeMounts`."""

    name: str = ""
    mount_path: str = ""
    read_only: bool | None = None


class WindowsOptions(_Base, frozen=True):
    """`securityContext.windowsOptions`."""

    host_process: bool | None = None
    run_as_user_name: str | None = None
    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None


class SecurityContext(_Base, frozen=True):
    """`securityContext` of a pod or of a container."""

    windows_options: WindowsOptions | None = None

    @property
    def host_process(self) -> bool:
        """Whether it runs on the Windows host itself."""
        return self.windows_options is not None and self.windows_options.host_process is True

    @property
    def windows(self) -> bool:
        """Whether it has an option that Windows alone has."""
        return self.windows_options is not None and self.windows_options != WindowsOptions()


class Container(_Base, frozen=True):
    """A container, an init container or an ephemeral container."""

    name: str = ""
    env: list[PodVariable] | None = None
    env_from: list[PodVariables] | None = None
    volume_mounts: list[Mount] | None = None
    security_context: SecurityContext | None = None


class NamedConfigMap(_Base, frozen=True):
    """`configMap` of a volume."""

    name: str | None = None


class Volume(_Base, frozen=True):
    """One of `volumes`: its name, and those kinds in which the kubelet itself creates the directories of nested mounts."""

    name: str = ""
    config_map: NamedConfigMap | None = None
    secret: Any = None
    projected: Any = None
    downward_api: Any = msgspec.field(default=None, name="downwardAPI")
    empty_dir: Any = None

    @property
    def nests(self) -> bool:
        """Whether the kubelet prepares it for mounts below it.

        kubernetes v1.36.3, pkg/volume/util/nested_volumes.go: MakeNestedMountpoints is called for these kinds alone.
        """
        return any(item is not None for item in (self.config_map, self.secret, self.projected, self.downward_api))


class OperatingSystem(_Base, frozen=True):
    """`os` of a pod."""

    name: str = ""


class NodeRequirement(_Base, frozen=True):
    """One of `matchExpressions` on the labels of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None

    @property
    def windows(self) -> bool:
        """Whether Windows nodes alone meet it."""
        if self.key in OS_LABELS:
            listed = self.values or []
            return listed == ["windows"] if self.operator == "In" else self.operator == "NotIn" and "linux" in listed
        return self.key == WINDOWS_BUILD and self.operator in ("In", "Exists")


class NodeTerm(_Base, frozen=True):
    """A term of a node selector: a node has to meet all of it. A term without anything selects no node."""

    match_expressions: list[NodeRequirement] | None = None
    match_fields: list[Any] | None = None


class NodeSelector(_Base, frozen=True):
    """`requiredDuringSchedulingIgnoredDuringExecution`: a node has to fit one of the terms."""

    node_selector_terms: list[NodeTerm] | None = None

    @property
    def windows(self) -> bool:
        """Whether it selects Windows nodes alone."""
        terms = [
            node_selector_term
            for node_selector_term in self.node_selector_terms or ()
            if node_selector_term.match_expressions or node_selector_term.match_fields
        ]
        return bool(terms) and all(any(each.windows for each in term.match_expressions or ()) for term in terms)


class NodeAffinity(_Base, frozen=True):
    """`nodeAffinity`. Preferred terms are ignored because they do not restrict the pod."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(_Base, frozen=True):
    """`affinity` of a pod."""

    node_affinity: NodeAffinity | None = None


class Spec(_Base, frozen=True):
    """`spec` of a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    os: OperatingSystem | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    security_context: SecurityContext | None = None
    runtime_class_name: str | None = None

    @property
    def windows(self) -> bool:
        """Whether the pod runs on Windows, by the first sign that it has."""
        if self.os is not None and self.os.name:
            return self.os.name == "windows"
        for label in OS_LABELS:
            if self.node_selector is not None and label in self.node_selector:
                return self.node_selector[label] == "windows"
        if self.node_selector is not None and WINDOWS_BUILD in self.node_selector:
            return True
        node = self.affinity.node_affinity if self.affinity is not None else None
        if node is not None and node.required is not None and node.required.windows:
            return True
        if self.runtime_class_name is not None and _RUNTIME_CLASS.fullmatch(self.runtime_class_name):
            return True
        return self._has_windows_options

    @property
    def _has_windows_options(self) -> bool:
        if self.security_context is not None and self.security_context.windows:
            return True
        return any(
            container.security_context is not None and container.security_context.windows
            for containers in (self.containers, self.init_containers)
            for container in containers or ()
        )

    @property
    def host_process(self) -> bool:
        """Whether the pod or one of its containers is a HostProcess container (Windows)."""
        if self.security_context is not None and self.security_context.host_process:
            return True
        for containers in (self.containers, self.init_containers, self.ephemeral_containers):
            for container in containers or ():
                if container.security_context is not None and container.security_context.host_process:
                    return True
        return False


class PodPhase(_Base, frozen=True):
    """`status` of a pod."""

    phase: str | None = None


class Pod(_Base, frozen=True):
    """A pod, or the template of one."""

    metadata: PodMeta = PodMeta()
    spec: Spec = Spec()
    status: PodPhase | None = None

    @property
    def finished(self) -> bool:
        """Whether its containers have ended and will not start again."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")
