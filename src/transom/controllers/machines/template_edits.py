"""The edits of templates and control planes that let Transom edit them: what there is to do, and doing it once."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.injection import (
    CLUSTER_CLASS,
    CONFIG_SPEC,
    CONTROL_PLANE_SPEC,
    TEMPLATE_SPEC,
    EntriesPatch,
    build_entries_patch,
    find_managing_tool,
    is_for_windows,
    is_injection_requested,
    list_secret_names,
)
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import CA_STEM, build_linux_entries, find_runtime_service
from transom.capi.values.cluster_identity import build_systemd_name, build_systemd_names
from transom.controllers.machines.machine_objects import (
    CONFIGS,
    CONTROL_PLANES,
    TEMPLATES,
    CachedControlPlane,
    CachedDeployment,
    CachedPoolConfig,
    CachedTemplate,
)
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.errors import StatusError
from transom.kube.resources import Resource
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.machines")
_UNPROCESSABLE: Final = 422

Held = CachedTemplate | CachedControlPlane | CachedPoolConfig
_KINDS: Final[dict[type[Held], tuple[Resource[Any], tuple[str, ...]]]] = {
    CachedTemplate: (TEMPLATES, TEMPLATE_SPEC),
    CachedControlPlane: (CONTROL_PLANES, CONTROL_PLANE_SPEC),
    CachedPoolConfig: (CONFIGS, CONFIG_SPEC),
}
"""Of each kind what it is called, and where it has its KubeadmConfigSpec."""


class ExaminedTemplate(msgspec.Struct, frozen=True):
    """What there is to do in one template or control plane.

    `wanted` are the entries it should have, None if it requires none and never was edited. `affected`: it has entries from
    Transom, or should have. `taken_back`: another writer removed the entries for this `wanted`.
    """

    cached: Held
    wanted: Entries | None
    edit: EntriesPatch
    kept: str | None
    affected: bool
    taken_back: bool

    @property
    def kind(self) -> str:
        """KubeadmConfigTemplate, KubeadmControlPlane, or KubeadmConfig of a MachinePool."""
        return _KINDS[type(self.cached)][0].kind

    @property
    def name(self) -> str:
        """Kind, namespace and name, as in messages."""
        return f"{self.kind} {self.cached.metadata.namespace}/{self.cached.metadata.name}"

    @property
    def needs_edit(self) -> bool:
        """Whether there is an edit that may be tried."""
        return bool(self.edit.operations) and not self.taken_back


class TemplateEditor:
    """Edits templates and remembers its edits, so that an edit that a person reverted is not repeated."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._edited: dict[str, tuple[str, int]] = {}

    def forget(self, uid: str | None) -> None:
        """Forget a deleted object."""
        self._edited.pop(uid or "", None)

    def restore_record(self, text: str | None) -> None:
        """Take over what `note` said before a restart."""
        try:
            noted = msgspec.json.decode(text or "{}", type=dict[str, tuple[str, int]])
        except msgspec.DecodeError:
            return
        for uid, (digest, generation) in noted.items():
            self._edited.setdefault(uid, (digest, generation))

    def format_record(self, examined: Sequence[ExaminedTemplate]) -> str | None:
        """Return the edits of these objects as a string to store; None if there are none."""
        uids = sorted(item.cached.metadata.uid or "" for item in examined)
        noted = {uid: self._edited[uid] for uid in uids if uid in self._edited}
        return msgspec.json.encode(noted).decode() if noted else None

    def examine(self, cached: Held, egress: Egress, cluster_id: str, *, is_requested: bool = False) -> ExaminedTemplate:
        """Compare an object of the cluster with that ID with the settings.

        `is_requested`: the Cluster itself requests the entries for the objects that its class creates.
        """
        control_plane = isinstance(cached, CachedControlPlane)
        spec = cached.configuration
        secrets = frozenset((*build_systemd_names(cluster_id), windows_proxy.build_secret_name(cluster_id)))
        meta = cached.metadata
        metadata = msgspec.to_builtins(meta)
        kept = find_managing_tool(metadata)
        wanted: Entries | None
        if is_injection_requested(metadata) or (is_requested and kept == CLUSTER_CLASS):
            wanted = build_entries(spec or {}, egress, cluster_id, control_plane=control_plane)
        else:
            # its label was taken away: so are our entries, if they are ours
            wanted = Entries() if meta.last_own_edit_time else None
        at = _KINDS[type(cached)][1]
        template_edit = (
            build_entries_patch(spec, wanted, secrets, at, meta.generation) if wanted is not None else EntriesPatch()
        )
        files = (spec or {}).get("files") or ()
        refers = bool(list_secret_names(spec or {}) & secrets) or any(
            str(file.get("path")).startswith(CA_STEM) for file in files
        )
        return ExaminedTemplate(
            cached,
            wanted,
            template_edit,
            find_managing_tool(metadata),
            refers or bool(wanted and wanted.files),
            self._was_reverted(cached, wanted),
        )

    async def patch(self, client: Client, examined: ExaminedTemplate) -> bool:
        """Edit it; False where it was another by then. Raises ApiError."""
        resource: Resource[Any] | None = self._informers.get_served_resource(_KINDS[type(examined.cached)][0])
        if resource is None or examined.wanted is None:
            return False
        meta = examined.cached.metadata
        try:
            after = await client.apply_json_patch(resource, examined.edit.operations, meta.name, meta.namespace)
        except StatusError as error:
            if error.code == _UNPROCESSABLE:
                _log.info("not edited", object=examined.name, error=str(error))
                return False
            raise
        self._edited[meta.uid or ""] = (_hash_entries(examined.wanted), after.metadata.generation or 0)
        _log.info("edited", object=examined.name)
        return True

    def _was_reverted(self, cached: Held, wanted: Entries | None) -> bool:
        """Return True if Transom added these entries and the object changed since: an edit now would be the second."""
        digest, generation = self._edited.get(cached.metadata.uid or "", ("", 0))
        return wanted is not None and digest == _hash_entries(wanted) and (cached.metadata.generation or 0) > generation


def build_entries(spec: dict[str, object], egress: Egress, cluster_id: str, *, control_plane: bool) -> Entries:
    """Return the entries of a KubeadmConfigSpec for its machines."""
    if not is_for_windows(spec):
        secret = build_systemd_name(cluster_id, own_name=egress.own_drop_in)
        return build_linux_entries(secret, egress, control_plane=control_plane, runtime=find_runtime_service(spec))
    if "Nodes" not in egress.consumers or not egress.configured:
        return Entries()
    return windows_proxy.build_windows_entries(windows_proxy.build_secret_name(cluster_id))


def find_deployment_manager(deployment: CachedDeployment) -> str | None:
    """Return the other manager that writes a MachineDeployment."""
    return find_managing_tool(msgspec.to_builtins(deployment.metadata))


def _hash_entries(entries: Entries) -> str:
    return hashlib.sha256(msgspec.json.encode(entries)).hexdigest()[:16]
