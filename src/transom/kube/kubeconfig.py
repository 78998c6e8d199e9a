"""Kubeconfigs: the cluster and the user. Local files are read as kubectl does; untrusted content is restricted.

The rules are those of kubectl (client-go, tools/clientcmd/loader.go, `ClientConfigLoadingRules`). Of a list of files each entry
counts by its name, and the first file that has it wins. A relative path is relative to its file. A file of
the list that does not exist is skipped.
"""

import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from transom.common.regular_files import read_regular_text
from transom.kube.errors import ConfigurationError
from transom.kube.kubeconfig_fields import build_refused_foreign_fields

DEFAULT: Final = "~/.kube/config"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its own (client-go, rest/config.go, `InClusterConfig`)."""
_LISTED: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS: Final = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that a credential plugin gets (client-go, pkg/apis/clientauthentication/v1/types.go)."""


class _RedactedStruct(msgspec.Struct, frozen=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class NamedExtension(_RedactedStruct, frozen=True):
    """A value that another program keeps in a kubeconfig."""

    name: str
    extension: Any = None


class ClusterEntry(_RedactedStruct, frozen=True, rename="kebab"):
    """The address of a server and the CAs to trust.

    This and the classes below follow client-go, tools/clientcmd/api/v1/types.go.
    """

    server: str = "http://localhost:8080"
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None
    tls_server_name: str | None = None
    disable_compression: bool = False
    extensions: list[NamedExtension] | None = None

    @property
    def plugin_configuration(self) -> Any:
        """What the cluster has for credential plugins; None for nothing."""
        named = (item.extension for item in self.extensions or () if item.name == EXEC_EXTENSION)
        return next(named, None)


class PluginVariable(_RedactedStruct, frozen=True):
    """A variable of a credential plugin."""

    name: str
    value: str


class InteractiveMode(enum.StrEnum):
    """Whether a credential plugin reads from the terminal."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


class Plugin(_RedactedStruct, frozen=True, rename="camel"):
    """A program that prints a token, a client certificate, or both."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[PluginVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode = InteractiveMode.IF_AVAILABLE


class User(_RedactedStruct, frozen=True, rename="kebab"):
    """Who asks."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    impersonate: str | None = msgspec.field(default=None, name="as")
    impersonate_uid: str | None = msgspec.field(default=None, name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_user_extra: dict[str, list[str] | None] | None = msgspec.field(default=None, name="as-user-extra")
    exec: Plugin | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str
    user: str
    namespace: str | None = None


class SelectedContext(_RedactedStruct, frozen=True):
    """A cluster and a user. `source` says to people where they stand; the names are empty inside a pod."""

    cluster: ClusterEntry
    user: User
    source: str
    namespace: str = "default"
    context: str = ""
    user_name: str = ""
    user_file: Path | None = None
    """The file that contains the user."""

    @property
    def named_files(self) -> dict[str, Path]:
        """The files that are named, by their fields."""
        named = {
            "certificate-authority": self.cluster.certificate_authority,
            "client-certificate": self.user.client_certificate,
            "client-key": self.user.client_key,
            "tokenFile": self.user.token_file,
        }
        return {field: Path(name) for field, name in named.items() if name}

    @property
    def tls_files(self) -> list[Path]:
        """What TLS is made from, and the kubeconfig itself; a token has a reader of its own."""
        named = [path for field, path in self.named_files.items() if field != "tokenFile"]
        return named if self.user_file is None else [self.user_file, *named]


class Kubeconfig(_RedactedStruct, frozen=True):
    """All files as one. `origins` has the file of each user, by its name."""

    value: dict[str, Any]
    source: str
    origins: dict[str, Path]

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts."""
        return [str(entry.get("name")) for entry in _list_entries(self.value, "contexts")]

    def choose(self, context: str | None) -> SelectedContext:
        """By a context's name, else by the current one. Raises ConfigurationError."""
        if context is not None and context not in self.contexts:
            raise ConfigurationError(f"{self.source}: no context {context!r}; the contexts are {', '.join(self.contexts)}")
        chosen = _resolve_context(self.value, self.source, context, remedy=": name one with --context")
        return _check_files(msgspec.structs.replace(chosen, user_file=self.origins.get(chosen.user_name)))


def select_context(kubeconfig: str | None = None, context: str | None = None) -> SelectedContext:
    """By `kubeconfig`, else by the pod's service account, else by `$KUBECONFIG`. Raises ConfigurationError."""
    if kubeconfig is None and context is None and Path(SERVICE_ACCOUNT, "token").exists():
        return _check_files(_read_service_account(Path(SERVICE_ACCOUNT)))
    return read_kubeconfig(kubeconfig).choose(context)


def choose_untrusted_context(config: Any, source: str) -> SelectedContext:
    """Choose the current context of an untrusted kubeconfig (plain values): only its inline data is used.

    A command, a file or a plugin that it names would run or be read in Transom's own pod: it is refused. Raises
    ConfigurationError; its message names `source` and the field, and no value.
    """
    chosen = _resolve_context(config, source, refused=build_refused_foreign_fields())
    if not chosen.cluster.server.startswith("https://"):
        raise ConfigurationError(f"{source}: cluster.server is not an https URL")
    return chosen


def read_kubeconfig(kubeconfig: str | None = None) -> Kubeconfig:
    """`kubeconfig`, else the files that `$KUBECONFIG` lists, else `~/.kube/config`. Raises ConfigurationError."""
    listed = [kubeconfig] if kubeconfig else [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    listed = list(dict.fromkeys(listed)) or [DEFAULT]
    present = [item for item in listed if Path(item).expanduser().exists()]
    source = os.pathsep.join(present or listed)
    if not present:
        raise ConfigurationError(f"{source}: no such file; --kubeconfig or KUBECONFIG can name another")
    merged: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for name in present:
        path = Path(name).expanduser()
        value = _read_kubeconfig_file(path, name)
        for listing, field in _LISTED.items():
            known = {entry.get("name") for entry in merged.setdefault(listing, [])}
            for entry in _list_entries(value, listing):
                if entry.get("name") not in known:
                    merged[listing].append({**entry, field: _resolve_paths(entry.get(field), field, path)})
                    if listing == "users":
                        origins[str(entry.get("name"))] = path
        if value.get("current-context"):
            merged.setdefault("current-context", value["current-context"])
    return Kubeconfig(merged, source, origins)


def _read_service_account(account: Path) -> SelectedContext:
    try:
        namespace = read_regular_text(account / "namespace")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    except KeyError as error:
        raise ConfigurationError(f"{account}: {error.args[0]} is not set") from error
    except OSError as error:
        raise ConfigurationError(f"{account}: {error}") from error
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = ClusterEntry(server, certificate_authority=str(account / "ca.crt"))
    return SelectedContext(cluster, User(token_file=str(account / "token")), str(account), namespace)


def _resolve_context(
    config: Any,
    source: str,
    context: str | None = None,
    *,
    remedy: str = "",
    refused: Mapping[str, Mapping[str, str]] | None = None,
) -> SelectedContext:
    """Resolve a context, by default the current one; `remedy` is the hint if none is set. Errors quote no values."""
    if not isinstance(config, dict):
        raise ConfigurationError(f"{source}: not a valid kubeconfig")
    name = context or config.get("current-context")
    if not name:
        raise ConfigurationError(f"{source}: no current context is set{remedy}")
    context_entry = _get_named(config, "contexts", name, source, "current-context")
    if not context_entry.get("user"):
        raise ConfigurationError(f"{source}: the context names no user")
    parts = {
        field: _get_named(config, listing, context_entry.get(field), source, "the context")
        for listing, field in _LISTED.items()
        if field != "context"
    }
    for field, names in (refused or {}).items():
        for item, reason in names.items():
            if parts[field].get(item):
                raise ConfigurationError(f"{source}: {field}.{item} is not taken: {reason}")
    named = _convert_part(context_entry, _Context, source)
    cluster, user = _convert_part(parts["cluster"], ClusterEntry, source), _convert_part(parts["user"], User, source)
    _check_impersonation(user, source)
    return SelectedContext(cluster, user, source, named.namespace or "default", str(name), named.user)


def _check_impersonation(user: User, source: str) -> None:
    """Refuse what kubectl refuses (client-go, tools/clientcmd/validation.go, `validateAuthInfo`)."""
    others = {
        "as-uid": user.impersonate_uid,
        "as-groups": user.impersonate_groups,
        "as-user-extra": user.impersonate_user_extra,
    }
    if not user.impersonate and (names := [name for name, value in others.items() if value]):
        raise ConfigurationError(f"{source}: user.{names[0]} is set without user.as: name the user to impersonate in user.as")


_S = TypeVar("_S", bound=msgspec.Struct)


def _convert_part(part: Mapping[str, Any], kind: type[_S], source: str) -> _S:
    # kubectl, too, takes a number for a text where a text belongs
    texts = {key: str(value) if type(value) in (int, float) else value for key, value in part.items()}
    try:
        return msgspec.convert(texts, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}") from error


def _get_named(config: Mapping[str, Any], list_name: str, name: Any, source: str, referrer: str) -> dict[str, Any]:
    field = _LISTED[list_name]
    for entry in _list_entries(config, list_name):
        if entry.get("name") == name and isinstance(entry.get(field), dict):
            part: dict[str, Any] = entry[field]
            return part
    raise ConfigurationError(f"{source}: {list_name} has no entry of the name that {referrer} has")


def _list_entries(config: Mapping[str, Any], list_name: str) -> list[dict[str, Any]]:
    entries = config.get(list_name)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _read_kubeconfig_file(path: Path, name: str) -> dict[str, Any]:
    try:
        value = yaml.safe_load(read_regular_text(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{name}: {_format_reason(error)}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name}: not a valid kubeconfig")
    return value


def _format_reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _resolve_paths(part: Any, field: str, path: Path) -> Any:
    """Return a cluster or a user with absolute paths."""
    if not isinstance(part, dict):
        return part
    absolute_paths = {
        name: str(path.absolute().parent / part[name])
        for name in _PATHS.get(field, ())
        if isinstance(part.get(name), str) and part[name]
    }
    command = _resolve_command(part.get("exec"), path) if field == "user" else None
    return part | absolute_paths | ({} if command is None else {"exec": {**part["exec"], "command": command}})


def _resolve_command(plugin: Any, path: Path) -> str | None:
    """Resolve a command with a slash relative to the kubeconfig; PATH finds the others (client-go, loader.go)."""
    command = plugin.get("command") if isinstance(plugin, dict) else None
    return str(path.absolute().parent / command) if isinstance(command, str) and "/" in command else None


def _check_files(chosen: SelectedContext) -> SelectedContext:
    """Each file that is named has to be there."""
    for field, file in chosen.named_files.items():
        if not file.is_file():
            raise ConfigurationError(f"{chosen.source}: {field}: {file} does not exist or is not a file")
    return chosen
