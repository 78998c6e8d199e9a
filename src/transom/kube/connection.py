"""How an API server is reached: by what a kubeconfig says, or from inside a pod.

The environment decides nothing about the way there: a process that manages proxies must not be cut off from its API server by
the variables it manages. A proxy is used where the kubeconfig's cluster has a `proxy-url`, as kubectl does.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import structlog
import yaml
from lightkube.config import client_adapter
from lightkube.core.exceptions import ConfigError

from transom.kube.errors import ConfigurationError
from transom.kube.exchange import Exchange
from transom.kube.kubeconfig import Chosen, choose
from transom.kube.rotation import RotatedFiles

_log: Final = structlog.get_logger("transom.kube.connection")
USER_AGENT: Final = "transom"
NO_ANSWER: Final = "none"
"""Stands for the status of a request that was not answered, or not in time."""
_MAX_CONNECTIONS: Final = 128
_TIMEOUT: Final = httpx2.Timeout(30, connect=10)
"""Of one step, in seconds; a request as a whole has a deadline of its own (`transom.kube.client`)."""
_RETIRED_SECONDS: Final = 1800.0
"""Longer than any watch lasts."""
_EXEC_SECONDS: Final = 60
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass
class Connection:
    """A server and the client that reaches it.

    `namespace` is the context's own, `source` where the settings came from, `context` its name (none in a pod).

    Requests go through `exchange` where there is one, else through `http`, by which the certificate has to name `server_name`
    where there is one.
    """

    http: httpx2.AsyncClient
    server: str
    namespace: str
    source: str
    exchange: Exchange | None = None
    renewal: "Renewal | None" = None
    server_name: str | None = None
    context: str = ""
    answers: "Counter[str]" = field(default_factory=lambda: Counter({NO_ANSWER: 0}))
    """How often a request was answered how: by HTTP status."""

    def renew(self) -> None:
        """Go on over new connections where the files that these were made from have been rotated.

        What is under way ends on the old ones. Files that cannot be used, because they are half-written, are looked at again.
        """
        if self.renewal is None or not self.renewal.due():
            return
        try:
            made = self.renewal.connect()
        except ConfigurationError as error:
            _log.warning("the way to the API server changed and cannot be used: going on as before", error=str(error))
            return
        self.renewal.retire(self.http, self.exchange)
        _log.info("credentials of the API server were read again", source=self.source)
        self.http, self.server, self.exchange = made.http, made.server, made.exchange
        if made.renewal is not None:
            self.renewal.files = made.renewal.files

    async def close(self) -> None:
        """Close all connections."""
        if self.renewal is not None:
            await self.renewal.close()
        await _close(self.http, self.exchange)


class Renewal:
    """How connections are made anew, and those that were in use before."""

    def __init__(self, files: RotatedFiles, connect: Callable[[], Connection]) -> None:
        self.files = files
        self.connect = connect
        self._retired: list[tuple[httpx2.AsyncClient, Exchange | None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    def due(self) -> bool:
        """Whether a file changed."""
        return self.files.changed()

    def retire(self, http: httpx2.AsyncClient, exchange: Exchange | None) -> None:
        """Close these when every watch that was begun on them has ended."""
        self._retired.append((http, exchange))
        asyncio.get_running_loop().call_later(_RETIRED_SECONDS, self._close_oldest)

    def _close_oldest(self) -> None:
        if self._retired:
            task = asyncio.ensure_future(_close(*self._retired.pop(0)))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all of them now."""
        retired, self._retired = self._retired, []
        for http, exchange in retired:
            await _close(http, exchange)


async def _close(http: httpx2.AsyncClient, exchange: Exchange | None) -> None:
    await http.aclose()
    if exchange is not None:
        await exchange.close()


def connect(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """A connection by `kubeconfig`, else the pod's service account, else `$KUBECONFIG`, else `~/.kube/config`.

    Nothing is sent yet. Raises ConfigurationError.
    """
    chosen = choose(kubeconfig, context)
    config, source = chosen.config, chosen.source
    files = RotatedFiles(chosen.files)
    proxy, server_name = (str(chosen.cluster.get(field) or "") or None for field in ("proxy-url", "tls-server-name"))
    try:
        parameters = client_adapter.ConnectionParams(timeout=_TIMEOUT, trust_env=False, proxy=proxy)
        arguments: dict[str, Any] = parameters.httpx_params(config)
        arguments["auth"] = _authentication(chosen, arguments["auth"])
        http = httpx2.AsyncClient(
            **arguments,
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=32, keepalive_expiry=60),
        )
    except (ConfigError, OSError, ValueError) as error:
        raise ConfigurationError(f"{source}: {error}") from error
    server = config.cluster.server
    exchange = Exchange(http, server, arguments["verify"], arguments["auth"], proxy, _MAX_CONNECTIONS, server_name)
    renewal = Renewal(files, lambda: connect(kubeconfig, context))
    return Connection(http, server, config.namespace, source, exchange, renewal, context=chosen.context)


def _authentication(chosen: Chosen, ready: Any) -> Any:
    user = chosen.config.user
    if user is not None and user.token_file is not None:
        return _FileToken(Path(user.token_file), str.strip)
    if user is not None and user.token is not None and chosen.user_file is not None:
        name = chosen.config.context.user
        return _FileToken(chosen.user_file, lambda text: _token_of(text, name))
    if user is not None and user.exec is not None and user.token is None:
        return _CommandToken(user.exec.apiVersion, [user.exec.command, *(user.exec.args or [])], _variables(user.exec.env))
    return ready


def _token_of(kubeconfig: str, user: str | None) -> str:
    users = yaml.safe_load(kubeconfig).get("users") or []
    return next((str(one["user"].get("token") or "") for one in users if one.get("name") == user), "")


def _variables(extra: Any) -> dict[str, str]:
    return dict(os.environ) | {one.name: one.value for one in extra or []}


class _FileToken(httpx2.Auth):
    """A token that others rotate: the file it is in is read again when it changed, and once more after a 401."""

    def __init__(self, path: Path, extract: Callable[[str], str]) -> None:
        self._path = path
        self._extract = extract
        self._seen: tuple[int, int] | None = None
        self._token = ""

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        self._read()
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == 401:
            self._seen = None
            self._read()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _read(self) -> None:
        try:
            state = self._path.stat()
            if self._seen != (state.st_mtime_ns, state.st_ino):
                self._token = self._extract(self._path.read_text()) or self._token
                self._seen = (state.st_mtime_ns, state.st_ino)
        except (OSError, yaml.YAMLError, AttributeError, KeyError) as error:
            # half-written or gone for a moment: the token at hand may still be good
            if not self._token:
                raise ConfigurationError(f"{self._path}: the token cannot be read") from error


class _Credential(msgspec.Struct, rename="camel"):
    token: str = ""


class _ExecCredential(msgspec.Struct):
    """client-go credential plugin, output: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/."""

    status: _Credential | None = None


class _CommandToken(httpx2.Auth):
    """A token that a credential plugin prints; asked again after a 401. lightkube's own does not know version v1."""

    def __init__(self, version: str, command: list[str], environment: dict[str, str]) -> None:
        if version not in _EXEC_VERSIONS:
            raise ConfigError(f"users.exec.apiVersion {version} is not known; there are {' and '.join(_EXEC_VERSIONS)}")
        self._command = command
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        self._environment = environment | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        self._token = ""
        self._lock = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        used = await self._get("")
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = f"Bearer {await self._get(used)}"
            yield request

    async def _get(self, refused: str) -> str:
        """The token; a new one where the one at hand was refused."""
        async with self._lock:
            if not self._token or self._token == refused:
                self._token = await self._ask()
            return self._token

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
