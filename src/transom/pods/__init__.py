"""Pods: which of them get the proxy and the CAs, and the JSON patch that gives them.

A `Pod` here is as far as its environment concerns Transom: projections of core/v1. Go writes an empty list as `null`.
"""

from typing import Any, Final

import msgspec

HOST_OS: Final = "kubernetes.io/os"
"""The label of nodes that a Windows pod's node selector names."""
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

    def label(self, name: str) -> str | None:
        """The value of a label."""
        return self.labels.get(name) if self.labels else None

    def annotation(self, name: str) -> str | None:
        """The value of an annotation."""
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


class WindowsOptions(_Base, frozen=True):
    """`securityContext.windowsOptions`."""

    host_process: bool | None = None


class SecurityContext(_Base, frozen=True):
    """`securityContext` of a pod or of a container."""

    windows_options: WindowsOptions | None = None

    @property
    def host_process(self) -> bool:
        """Whether it runs on the Windows host itself."""
        return self.windows_options is not None and self.windows_options.host_process is True


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
    """One of `volumes`: its name, and the ConfigMap where it is one."""

    name: str = ""
    config_map: NamedConfigMap | None = None


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
        return self.key == HOST_OS and self.operator == "In" and self.values == ["windows"]


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
        terms = [one for one in self.node_selector_terms or () if one.match_expressions or one.match_fields]
        return bool(terms) and all(any(each.windows for each in one.match_expressions or ()) for one in terms)


class NodeAffinity(_Base, frozen=True):
    """`nodeAffinity`. What is only preferred binds nobody."""

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

    @property
    def windows(self) -> bool:
        """Whether the pod runs on Windows, as it says itself."""
        if self.os is not None and self.os.name:
            return self.os.name == "windows"
        if self.node_selector is not None and HOST_OS in self.node_selector:
            return self.node_selector[HOST_OS] == "windows"
        node = self.affinity.node_affinity if self.affinity is not None else None
        return node is not None and node.required is not None and node.required.windows

    @property
    def host_process(self) -> bool:
        """Whether the pod or one of its containers is a HostProcess container (Windows)."""
        if self.security_context is not None and self.security_context.host_process:
            return True
        for containers in (self.containers, self.init_containers, self.ephemeral_containers):
            for one in containers or ():
                if one.security_context is not None and one.security_context.host_process:
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
