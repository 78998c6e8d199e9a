"""Kubeconfigs: which cluster is asked, and as whom. Our own files are read as kubectl does; a stranger's text says less.

The rules are those of kubectl (client-go, tools/clientcmd/loader.go, `ClientConfigLoadingRules`). Of a list of files each entry
counts by its name, and the first file that has it wins. A relative path is relative to the file that it stands in. A file of
the list that is not there is passed over.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from transom.kube import ConfigurationError

DEFAULT: Final = "~/.kube/config"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its own (client-go, rest/config.go, `InClusterConfig`)."""
_LISTED: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS: Final = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
_REFUSED: Final = {
    "cluster": ("certificate-authority",),
    "user": ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key"),
}
"""What a stranger may not say: it would be read, or run, where Transom is."""


class _Hidden(msgspec.Struct, frozen=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class ClusterEntry(_Hidden, frozen=True, rename="kebab"):
    """Where the server is, and whom to believe there (client-go, tools/clientcmd/api/v1/types.go, as the classes below)."""

    server: str = "http://localhost:8080"
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None
    tls_server_name: str | None = None


class PluginVariable(_Hidden, frozen=True):
    """A variable of a credential plugin."""

    name: str
    value: str


class Plugin(_Hidden, frozen=True, rename="camel"):
    """A program that prints a token."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[PluginVariable] | None = None


class User(_Hidden, frozen=True, rename="kebab"):
    """Who asks."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: Plugin | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str
    user: str
    namespace: str | None = None


class Chosen(_Hidden, frozen=True):
    """A cluster and a user. `source` says to people where they stand; the names are empty inside a pod."""

    cluster: ClusterEntry
    user: User
    source: str
    namespace: str = "default"
    context: str = ""
    user_name: str = ""
    user_file: Path | None = None
    """The file that the user stands in."""

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


class Kubeconfig(_Hidden, frozen=True):
    """All files as one. `origins` has the file of each user, by its name."""

    value: dict[str, Any]
    source: str
    origins: dict[str, Path]

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts."""
        return [str(entry.get("name")) for entry in _entries(self.value, "contexts")]

    def choose(self, context: str | None) -> Chosen:
        """By a context's name, else by the current one. Raises ConfigurationError."""
        if context is not None and context not in self.contexts:
            raise ConfigurationError(f"{self.source}: there is no context {context!r}; there are {', '.join(self.contexts)}")
        chosen = _chosen(self.value, self.source, context, remedy=": name one with --context")
        return _checked(msgspec.structs.replace(chosen, user_file=self.origins.get(chosen.user_name)))


def choose(kubeconfig: str | None = None, context: str | None = None) -> Chosen:
    """By `kubeconfig`, else by the pod's service account, else by `$KUBECONFIG`. Raises ConfigurationError."""
    if kubeconfig is None and context is None and Path(SERVICE_ACCOUNT, "token").exists():
        return _checked(_inside_a_pod(Path(SERVICE_ACCOUNT)))
    return read(kubeconfig).choose(context)


def choose_foreign(config: Any, source: str) -> Chosen:
    """By the current context of what a stranger wrote, as plain values: only what stands in it itself is used.

    A command, a file or a plugin that it names would run or be read in Transom's own pod: it is refused. Raises
    ConfigurationError; its message names `source` and the field, and no value.
    """
    chosen = _chosen(config, source, refused=_REFUSED)
    if not chosen.cluster.server.startswith("https://"):
        raise ConfigurationError(f"{source}: cluster.server is no https URL")
    if chosen.cluster.insecure_skip_tls_verify:
        raise ConfigurationError(f"{source}: cluster.insecure-skip-tls-verify is not taken: put the CA into the kubeconfig")
    return chosen


def read(kubeconfig: str | None = None) -> Kubeconfig:
    """`kubeconfig`, else the files that `$KUBECONFIG` lists, else `~/.kube/config`. Raises ConfigurationError."""
    listed = [kubeconfig] if kubeconfig else [one for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    listed = list(dict.fromkeys(listed)) or [DEFAULT]
    present = [one for one in listed if Path(one).expanduser().exists()]
    source = os.pathsep.join(present or listed)
    if not present:
        raise ConfigurationError(f"{source}: there is no such file; --kubeconfig or KUBECONFIG can name another")
    merged: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for name in present:
        path = Path(name).expanduser()
        value = _value(path, name)
        for listing, field in _LISTED.items():
            known = {entry.get("name") for entry in merged.setdefault(listing, [])}
            for entry in _entries(value, listing):
                if entry.get("name") not in known:
                    merged[listing].append({**entry, field: _resolved(entry.get(field), field, path)})
                    if listing == "users":
                        origins[str(entry.get("name"))] = path
        if value.get("current-context"):
            merged.setdefault("current-context", value["current-context"])
    return Kubeconfig(merged, source, origins)


def _inside_a_pod(account: Path) -> Chosen:
    try:
        namespace = (account / "namespace").read_text()
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    except KeyError as error:
        raise ConfigurationError(f"{account}: {error.args[0]} is not set") from error
    except OSError as error:
        raise ConfigurationError(f"{account}: {error}") from error
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = ClusterEntry(server, certificate_authority=str(account / "ca.crt"))
    return Chosen(cluster, User(token_file=str(account / "token")), str(account), namespace)


def _chosen(
    config: Any,
    source: str,
    context: str | None = None,
    *,
    remedy: str = "",
    refused: Mapping[str, tuple[str, ...]] | None = None,
) -> Chosen:
    """What a context leads to, without one the current one; `remedy` is for who has none. No error says a value."""
    if not isinstance(config, dict):
        raise ConfigurationError(f"{source}: this is no kubeconfig")
    name = context or config.get("current-context")
    if not name:
        raise ConfigurationError(f"{source}: there is no current context{remedy}")
    found = _named(config, "contexts", name, source, "current-context")
    if not found.get("user"):
        raise ConfigurationError(f"{source}: the context names no user")
    parts = {
        field: _named(config, listing, found.get(field), source, "the context")
        for listing, field in _LISTED.items()
        if field != "context"
    }
    for field, names in (refused or {}).items():
        for one in names:
            if parts[field].get(one):
                raise ConfigurationError(f"{source}: {field}.{one} is not taken: put the data itself into the kubeconfig")
    named = _converted(found, _Context, source)
    cluster, user = _converted(parts["cluster"], ClusterEntry, source), _converted(parts["user"], User, source)
    return Chosen(cluster, user, source, named.namespace or "default", str(name), named.user)


_S = TypeVar("_S", bound=msgspec.Struct)


def _converted(part: Mapping[str, Any], kind: type[_S], source: str) -> _S:
    # kubectl, too, takes a number for a text where a text belongs
    texts = {key: str(value) if type(value) in (int, float) else value for key, value in part.items()}
    try:
        return msgspec.convert(texts, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}") from error


def _named(config: Mapping[str, Any], listing: str, name: Any, source: str, by: str) -> dict[str, Any]:
    field = _LISTED[listing]
    for entry in _entries(config, listing):
        if entry.get("name") == name and isinstance(entry.get(field), dict):
            found: dict[str, Any] = entry[field]
            return found
    raise ConfigurationError(f"{source}: {listing} has no entry of the name that {by} has")


def _entries(config: Mapping[str, Any], listing: str) -> list[dict[str, Any]]:
    entries = config.get(listing)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _value(path: Path, name: str) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{name}: {_reason(error)}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name}: this is no kubeconfig")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _resolved(part: Any, field: str, path: Path) -> Any:
    """A cluster or a user with the paths in it made absolute."""
    if not isinstance(part, dict):
        return part
    found = {
        name: str(path.absolute().parent / part[name])
        for name in _PATHS.get(field, ())
        if isinstance(part.get(name), str) and part[name]
    }
    return part | found


def _checked(chosen: Chosen) -> Chosen:
    """Each file that is named has to be there."""
    for field, file in chosen.named_files.items():
        if not file.is_file():
            raise ConfigurationError(f"{chosen.source}: {field}: there is no file {file}")
    return chosen
