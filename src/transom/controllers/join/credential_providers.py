"""Which of a kubelet's credential providers log in to registries, as OpenShift's machine configuration has it for workers.

Linux nodes get it as a file of the MachineConfig that is rendered for them (openshift/machine-config-operator,
templates/common). There is one for AWS (`ecr-credential-provider`), one for Azure (`acr-credential-provider`) and one for GCP
(`gcr-credential-provider`). The Windows operator takes AWS' alone (WMCO, pkg/ignition; pkg/nodeconfig,
modifyCredentialProviderConfig). So does the payload that is shipped: the others' programs are not in that operator's image.
"""

import asyncio
import base64
import binascii
import json
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import structlog

from transom.common.mappings import get_nested_value
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.objects import Metadata
from transom.kube.resources import Resource
from transom.proxy.secret import Secret
from transom.sources.yaml_text import InvalidText, parse_value
from transom.windows.payload.payload import CREDENTIAL_PROVIDERS, Payload
from transom.windows.payload.worker import Facts

MACHINE_CONFIGS: Final = Resource("machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs", False, Metadata)
MACHINE_CONFIG_POOLS: Final = Resource(
    "machineconfiguration.openshift.io", "v1", "MachineConfigPool", "machineconfigpools", False, Metadata
)
_WORKERS: Final = "worker"
"""The pool whose nodes are workers: `spec.configuration` names the MachineConfig that was rendered for them."""
_DIRECTORY: Final = "/etc/kubernetes/credential-providers/"
_SECONDS: Final = 600.0
_LIMIT: Final = 2**20
"""Bytes of a configuration; the longest that is rendered has some two thousand."""
_log: Final = structlog.get_logger("transom.nodes")


class CredentialProviders:
    """Asked when a host is worked on whose payload has the file; which MachineConfig workers have is looked at now and then."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._known: tuple[str, tuple[str, ...]] | None = None
        """The name of the MachineConfig, and of its content (it may have a megabyte) the files of providers alone."""

    async def add_configuration(self, facts: Facts, payload: Payload, client: Client) -> Facts:
        """Return the facts with the configuration if the payload requires it and the cluster has one."""
        wanted = any(
            f.provided == CREDENTIAL_PROVIDERS and f.when.is_matching(facts.network, facts.platform) for f in payload.files
        )
        if not wanted:
            return facts
        async with self._asking:
            if time.monotonic() >= self._until:
                await self._refresh_provider_files(client)
                self._until = time.monotonic() + _SECONDS
        text = build_configuration(self._known[1], payload) if self._known is not None else None
        if text is None:
            return facts
        return facts.with_provided(CREDENTIAL_PROVIDERS, Secret(text))

    async def _refresh_provider_files(self, client: Client) -> None:
        try:
            pool = await client.get_json(MACHINE_CONFIG_POOLS.build_path(None, _WORKERS))
            rendered = get_nested_value(pool, "spec", "configuration", "name")
            if isinstance(rendered, str) and (self._known is None or self._known[0] != rendered):
                self._known = rendered, list_provider_files(await client.get_json(MACHINE_CONFIGS.build_path(None, rendered)))
        except ApiError as error:
            # a cluster without them (HyperShift) has the payload's own
            _log.debug("no machine configuration", error=str(error))


def build_configuration(files: Iterable[str], payload: Payload) -> str | None:
    """Build the kubelet's CredentialProviderConfig from files (`list_provider_files`), for providers in the payload.

    A provider counts if the payload has its program: a kubelet does not start where it is missing. None if no
    CredentialProviderConfig exists.
    """
    programs = {file.path.rpartition("\\")[2].casefold() for file in payload.files}
    for text in files:
        try:
            read = parse_value(text)
        except InvalidText:
            continue
        listed = read.get("providers") if isinstance(read, Mapping) else None
        providers = (
            [_to_windows_provider(item) for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
        )
        known = [provider for provider in providers if str(provider.get("name")).casefold() in programs]
        if known and isinstance(read, Mapping):
            # JSON is YAML, and has no anchors
            return json.dumps({**read, "providers": known}, indent=1) + "\n"
    return None


def list_provider_files(machine_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of the files below the providers' directory (Ignition's specification 3, `storage.files`)."""
    listed = get_nested_value(machine_config, "spec", "config", "storage", "files")
    files = listed if isinstance(listed, list) else []
    below = (get_nested_value(file, "contents") for file in files if str(get_nested_value(file, "path")).startswith(_DIRECTORY))
    return tuple(text for contents in below if (text := _decode_data_url(contents)) is not None)


def _to_windows_provider(provider: Mapping[str, Any]) -> dict[str, Any]:
    name = str(provider.get("name", ""))
    return {**provider, "name": name if name.endswith(".exe") else f"{name}.exe"}


def _decode_data_url(contents: Any) -> str | None:
    """Return the unpacked content of a `data:` URL (RFC 2397)."""
    head, comma, data = str(get_nested_value(contents, "source") or "").partition(",")
    if not comma or not head.startswith("data:"):
        return None
    try:
        raw = base64.b64decode(unquote_to_bytes(data)) if head.endswith(";base64") else unquote_to_bytes(data)
        if get_nested_value(contents, "compression") == "gzip":
            raw = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, _LIMIT)
        return raw[:_LIMIT].decode()
    except (ValueError, binascii.Error, zlib.error):
        return None
