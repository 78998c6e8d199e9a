"""Who asks: the value of `Authorization`, and another one where the server refuses the first."""

import asyncio
import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec
import yaml
from yarl import URL

from transom.kube import ConfigurationError
from transom.kube.kubeconfig import Chosen, Plugin

_EXEC_SECONDS: Final = 60
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Credentials(Protocol):
    """What a request says of who asks."""

    async def authorization(self, refused: str | None = None) -> str | None:
        """The value of `Authorization`, None for a request without one. Raises ConfigurationError.

        `refused` is what the server answered with 401; None says then that there is nothing else to try.
        """


def credentials_of(chosen: Chosen, server: URL) -> Credentials:
    """By the first of: a token's file, a token, a plugin, a name and a password, the URL's. Raises ConfigurationError."""
    user, source = chosen.user, chosen.source
    if user.token_file:
        return _FileToken(Path(user.token_file), str.strip)
    if user.token and chosen.user_file is not None:
        return _FileToken(chosen.user_file, lambda text: _token_of(text, chosen.user_name))
    if user.token:
        return _Fixed(_bearer(user.token, f"{source}: user.token"))
    if user.exec is not None:
        return _PluginToken(user.exec, source)
    if user.username:
        return _Fixed(basic(user.username, user.password or ""))
    if user.auth_provider:
        raise ConfigurationError(f"{source}: users.auth-provider is not known: kubectl has none any more")
    if server.user:
        return _Fixed(basic(server.user, server.password or ""))
    return _Fixed(None)


def basic(name: str, password: str) -> str:
    """A name and a password as a header says them (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _bearer(token: str, what: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(f"{what} has characters that no token has")
    return f"Bearer {token}"


def _token_of(kubeconfig: str, user: str) -> str:
    users = yaml.safe_load(kubeconfig).get("users") or []
    return next((str(one["user"].get("token") or "") for one in users if one.get("name") == user), "")


class _Fixed:
    def __init__(self, value: str | None) -> None:
        self._value = value

    async def authorization(self, refused: str | None = None) -> str | None:
        return self._value if refused is None else None


class _FileToken:
    """A token that others rotate: the file it is in is read again when it changed, and once more after a 401."""

    def __init__(self, path: Path, extract: Callable[[str], str]) -> None:
        self._path = path
        self._extract = extract
        self._seen: tuple[int, int] | None = None
        self._token = ""

    async def authorization(self, refused: str | None = None) -> str | None:
        if refused is not None:
            self._seen = None
        try:
            state = self._path.stat()
            if self._seen != (state.st_mtime_ns, state.st_ino):
                self._token = self._extract(self._path.read_text()) or self._token
                self._seen = (state.st_mtime_ns, state.st_ino)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError) as error:
            # half-written or gone for a moment: the token at hand may still be good
            if not self._token:
                raise ConfigurationError(f"{self._path}: the token cannot be read") from error
        return _bearer(self._token, f"{self._path}: the token")


class _Credential(msgspec.Struct, rename="camel"):
    token: str = ""


class _ExecCredential(msgspec.Struct):
    """client-go credential plugin, output: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/."""

    status: _Credential | None = None


class _PluginToken:
    """A token that a credential plugin prints; the plugin is asked again after a 401."""

    def __init__(self, plugin: Plugin, source: str) -> None:
        version = plugin.api_version
        if version not in _EXEC_VERSIONS:
            known = " and ".join(_EXEC_VERSIONS)
            raise ConfigurationError(f"{source}: users.exec.apiVersion {version} is not known; there are {known}")
        self._command = [plugin.command, *(plugin.args or [])]
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        told = {one.name: one.value for one in plugin.env or []}
        self._environment = os.environ | told | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        self._said: str | None = None
        self._lock = asyncio.Lock()

    async def authorization(self, refused: str | None = None) -> str | None:
        async with self._lock:
            if self._said is None or self._said == refused:
                self._said = _bearer(await self._ask(), f"users.exec.command {self._command[0]}: the token")
            return self._said

    async def _ask(self) -> str:
        name = self._command[0]
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=None
            )
        except OSError as error:
            raise ConfigurationError(f"users.exec.command {name}: {error.strerror}") from error
        try:
            async with asyncio.timeout(_EXEC_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise ConfigurationError(f"users.exec.command {name} gave no token within {_EXEC_SECONDS} s") from error
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise ConfigurationError(f"users.exec.command {name} ended with exit code {process.returncode}")
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError:
            credential = _ExecCredential()
        if credential.status is None or not credential.status.token:
            raise ConfigurationError(f"users.exec.command {name} printed no status.token")
        return credential.status.token
