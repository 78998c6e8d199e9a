"""Who asks: the value of `Authorization` or a client certificate, and another one where the server refuses the first."""

import asyncio
import base64
import os
import shutil
import string
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import yaml
from yarl import URL

from transom.common.escaping import escape_unprintable
from transom.common.regular_files import read_regular_file, read_regular_text
from transom.kube.errors import ConfigurationError
from transom.kube.kubeconfig import ClusterEntry, InteractiveMode, Plugin, SelectedContext, User
from transom.kube.kubeconfig_fields import KUBECONFIG_FIELDS

_EXEC_SECONDS: Final = 60
_INTERACTIVE_SECONDS: Final = 300
"""Seconds that a person has to type a password or a code."""
_HEADER_KEY: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")
"""Characters of a header's name (RFC 9110, 5.6.2), without the percent sign."""
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ClientCertificate(NamedTuple):
    """A certificate chain and its key, in PEM. The key is a secret."""

    chain: str
    key: str

    def __repr__(self) -> str:
        return "ClientCertificate(***)"


class RequestIdentity(NamedTuple):
    """What a request presents: the value of `Authorization`, a client certificate, both, or nothing."""

    authorization: str | None = None
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return "Identity(***)"


class Credentials(Protocol):
    """What a request says of who asks."""

    async def get(self) -> RequestIdentity:
        """Return what the next request presents. Raises ConfigurationError."""

    async def replace_refused_identity(self, refused: RequestIdentity) -> RequestIdentity | None:
        """Return what to present after the server answered `refused` with 401; None for nothing else. Raises the same."""


def build_credentials(chosen: SelectedContext, server: URL) -> Credentials:
    """By the first of: a token's file, a token, a name and a password, a plugin, the URL's. Raises ConfigurationError.

    As in client-go, a plugin is not asked where the user has a client certificate (plugin/pkg/client/auth/exec/exec.go,
    `UpdateTransportConfig`).
    """
    user, source = chosen.user, chosen.source
    if user.token_file:
        return _FileToken(Path(user.token_file), str.strip)
    if user.token and chosen.user_file is not None:
        return _FileToken(chosen.user_file, lambda text: _read_token(text, chosen.user_name))
    if user.token:
        return _FixedCredentials(_format_bearer(user.token, f"{source}: user.token"))
    if user.username:
        return _FixedCredentials(format_basic(user.username, user.password or ""))
    if user.auth_provider:
        reason = KUBECONFIG_FIELDS["AuthInfo"]["auth-provider"].reason
        raise ConfigurationError(f"{source}: user.auth-provider is not known: {reason}")
    if user.exec is not None and not (user.client_certificate or user.client_certificate_data):
        return PluginCredentials(user.exec, chosen.cluster, source)
    if server.user:
        return _FixedCredentials(format_basic(server.user, server.password or ""))
    return _FixedCredentials(None)


def build_impersonation_headers(user: User, source: str) -> tuple[tuple[str, str], ...]:
    """Return the headers by which a server takes a request as another user's, in client-go's order. Raises ConfigurationError.

    client-go, transport/round_trippers.go, `impersonatingRoundTripper`; the key of an extra value is escaped there, too.
    """
    headers = [("Impersonate-User", user.impersonate)] if user.impersonate else []
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    for key, values in (user.impersonate_user_extra or {}).items():
        headers += [(f"Impersonate-Extra-{_escape_header_key(key)}", value) for value in values or ()]
    for name, value in headers:
        if any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
            raise ConfigurationError(f"{source}: the value for {escape_unprintable(name)} has control characters")
    return tuple(headers)


def _escape_header_key(key: str) -> str:
    """Escape what no header name has, and the percent sign (client-go, transport/round_trippers.go, `headerKeyEscape`)."""
    return "".join(chr(byte) if chr(byte) in _HEADER_KEY else f"%{byte:02X}" for byte in key.encode())


def format_basic(name: str, password: str) -> str:
    """Format a name and a password for the `Authorization` header (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _format_bearer(token: str, what: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(f"{what} has characters that no token has")
    return f"Bearer {token}"


def _read_token(kubeconfig: str, user: str) -> str:
    users = yaml.safe_load(kubeconfig).get("users") or []
    return next((str(item["user"].get("token") or "") for item in users if item.get("name") == user), "")


class _FixedCredentials:
    def __init__(self, value: str | None) -> None:
        self._identity = RequestIdentity(value)

    async def get(self) -> RequestIdentity:
        return self._identity

    async def replace_refused_identity(self, refused: RequestIdentity) -> RequestIdentity | None:
        return None


class _FileToken:
    """A token that others rotate: the file it is in is read again when it changed, and once more after a 401."""

    def __init__(self, path: Path, extract: Callable[[str], str]) -> None:
        self._path = path
        self._extract = extract
        self._seen: tuple[int, int] | None = None
        self._token = ""

    async def get(self) -> RequestIdentity:
        try:
            state = self._path.stat()
            if self._seen != (state.st_mtime_ns, state.st_ino):
                self._token = self._extract(read_regular_text(self._path)) or self._token
                self._seen = (state.st_mtime_ns, state.st_ino)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError) as error:
            # half-written or gone for a moment: the token at hand may still be good
            if not self._token:
                raise ConfigurationError(f"{self._path}: the token cannot be read") from error
        return RequestIdentity(_format_bearer(self._token, f"{self._path}: the token"))

    async def replace_refused_identity(self, refused: RequestIdentity) -> RequestIdentity | None:
        self._seen = None
        return await self.get()


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    """client-go credential plugin, output: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/."""

    api_version: str = ""
    status: _Status | None = None


class PluginCredentials:
    """What a credential plugin prints; Transom asks it again after a 401, and when its answer has expired.

    client-go v0.37.0, plugin/pkg/client/auth/exec/exec.go, `refreshCredsLocked`.
    """

    def __init__(self, plugin: Plugin, cluster: ClusterEntry, source: str) -> None:
        if plugin.api_version not in _EXEC_VERSIONS:
            versions = " and ".join(_EXEC_VERSIONS)
            message = f"users.exec.apiVersion {escape_unprintable(plugin.api_version)} is not known; there are {versions}"
            raise ConfigurationError(f"{source}: {message}")
        self._plugin, self._cluster = plugin, cluster
        self._identity: RequestIdentity | None = None
        self._expiration: datetime | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> RequestIdentity:
        """Return what the plugin printed, and run it where that is missing or expired."""
        async with self._lock:
            if self._identity is None or (self._expiration is not None and self._expiration <= datetime.now(UTC)):
                return await self._refresh()
            return self._identity

    async def replace_refused_identity(self, refused: RequestIdentity) -> RequestIdentity | None:
        """Run the plugin again, unless another request did so after `refused`."""
        async with self._lock:
            if self._identity is None or self._identity == refused:
                return await self._refresh()
            return self._identity

    async def _refresh(self) -> RequestIdentity:
        name = f"users.exec.command {escape_unprintable(self._plugin.command)}"
        status = _parse_plugin_output(await self._run(name), self._plugin.api_version, name)
        authorization = _format_bearer(status.token, f"{name}: the token") if status.token else None
        key = status.client_key_data
        certificate = ClientCertificate(status.client_certificate_data, key) if key else None
        self._identity, self._expiration = RequestIdentity(authorization, certificate), _with_zone(status.expiration_timestamp)
        return self._identity

    async def _run(self, name: str) -> bytes:
        plugin = self._plugin
        interactive = _is_interactive(plugin, name)
        environment = os.environ | {item.name: item.value for item in plugin.env or ()}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                _resolve_program(plugin.command, name),
                *(plugin.args or ()),
                env=environment | {"KUBERNETES_EXEC_INFO": self._build_exec_info(interactive)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=None,
            )
        except OSError as error:
            hint = f". {escape_unprintable(plugin.install_hint.strip())}" if plugin.install_hint else ""
            raise ConfigurationError(f"{name}: {error.strerror}{hint}") from error
        seconds = _INTERACTIVE_SECONDS if interactive else _EXEC_SECONDS
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise ConfigurationError(f"{name} gave no credentials within {seconds} s") from error
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise ConfigurationError(f"{name} ended with exit code {process.returncode}")
        return output

    def _build_exec_info(self, interactive: bool) -> str:
        """Return the value of KUBERNETES_EXEC_INFO; with the cluster if the plugin requests it."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = build_exec_cluster(self._cluster)
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()


def build_exec_cluster(cluster: ClusterEntry) -> dict[str, Any]:
    """Return the `spec.cluster` that a plugin gets, without what is empty.

    client-go, rest/exec.go, `ConfigToExecCluster`: the CA as data, wherever the kubeconfig has it.
    """
    data = cluster.certificate_authority_data
    if not data and cluster.certificate_authority:
        try:
            data = base64.b64encode(read_regular_file(cluster.certificate_authority)).decode()
        except OSError as error:
            raise ConfigurationError(f"{cluster.certificate_authority}: {error.strerror}") from error
    fields = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": data,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": cluster.plugin_configuration,
    }
    return {"server": cluster.server} | {name: value for name, value in fields.items() if value}


def _is_interactive(plugin: Plugin, name: str) -> bool:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode is InteractiveMode.ALWAYS and not terminal:
        raise ConfigurationError(f"{name}: interactiveMode is Always, and standard input is not a terminal")
    return terminal and plugin.interactive_mode is not InteractiveMode.NEVER


def _resolve_program(command: str, name: str) -> str:
    """Refuse a program that PATH has in the working directory, as Go does (os/exec, ErrDot)."""
    if "/" in command:
        return command
    path = shutil.which(command)
    if path is not None and not Path(path).is_absolute():
        raise ConfigurationError(f"{name} is in the working directory: PATH has a relative directory")
    return path or command


def _parse_plugin_output(output: bytes, version: str, name: str) -> _Status:
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError:
        raise ConfigurationError(f"{name} printed no valid ExecCredential") from None
    if credential.api_version != version:
        raise ConfigurationError(f"{name} printed another apiVersion than {version}, which users.exec.apiVersion asks for")
    status = credential.status
    if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
        raise ConfigurationError(f"{name} printed no status.token and no status.clientCertificateData")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigurationError(f"{name} printed only one of status.clientCertificateData and status.clientKeyData")
    return status


def _with_zone(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
