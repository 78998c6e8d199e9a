"""Kubeconfigs: which cluster is asked, and as whom. Files are read and merged as kubectl does.

The rules are those of kubectl (client-go, tools/clientcmd/loader.go, `ClientConfigLoadingRules`): of a list of files each entry
counts by its name, the first file that has it wins, a relative path is relative to the file that it stands in, and a file of
the list that is not there is passed over.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from transom.kube.errors import ConfigurationError

if TYPE_CHECKING:
    # a shell completes the names of contexts without it: it takes as long to import as all the rest
    from lightkube.config.kubeconfig import SingleConfig

DEFAULT: Final = "~/.kube/config"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its own (client-go, rest/config.go, `InClusterConfig`)."""
_LISTED: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS: Final = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


class Parts(msgspec.Struct, frozen=True):
    """What one context of a kubeconfig leads to, as plain values."""

    name: str
    context: dict[str, Any]
    cluster: dict[str, Any]
    user: dict[str, Any]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Chosen(msgspec.Struct, frozen=True):
    """A context: lightkube's settings of it, and what lightkube does not read. `source` names it for people."""

    config: "SingleConfig"
    source: str
    context: str = ""
    user_file: Path | None = None
    """The file that the user stands in."""
    cluster: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    @property
    def files(self) -> list[Path]:
        """What TLS is made from, and the kubeconfig itself; a token has a reader of its own."""
        user = self.config.user
        named = (self.config.cluster.certificate_auth, user.client_cert if user else None, user.client_key if user else None)
        found = [Path(name) for name in named if name is not None]
        return found if self.user_file is None else [self.user_file, *found]


class Kubeconfig(msgspec.Struct, frozen=True):
    """All files as one. `origins` has the file of each user, by its name."""

    value: dict[str, Any]
    source: str
    origins: dict[str, Path]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts."""
        return [str(entry.get("name")) for entry in _entries(self.value, "contexts")]

    def choose(self, context: str | None) -> Chosen:
        """By a context's name, else by the current one. Raises ConfigurationError."""
        from lightkube.config.kubeconfig import SingleConfig
        from lightkube.config.models import Cluster, Context, User

        if context is not None and context not in self.contexts:
            raise ConfigurationError(f"{self.source}: there is no context {context!r}; there are {', '.join(self.contexts)}")
        found = parts(self.value, self.source, context, remedy=": name one with --context")
        try:
            config = SingleConfig(
                found.name,
                msgspec.convert(found.context, Context),
                msgspec.convert(found.cluster, Cluster),
                msgspec.convert(found.user, User),
            )
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{self.source}: {error}") from error
        made = Chosen(config, self.source, found.name, self.origins.get(str(found.context.get("user"))), found.cluster)
        return _checked(made)


def choose(kubeconfig: str | None = None, context: str | None = None) -> Chosen:
    """By `kubeconfig`, else by the pod's service account, else by `$KUBECONFIG`. Raises ConfigurationError."""
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.core.exceptions import ConfigError

    if kubeconfig is None and context is None and Path(SERVICE_ACCOUNT, "token").exists():
        try:
            inside = KubeConfig.from_service_account(SERVICE_ACCOUNT).get()
        except (ConfigError, KeyError, OSError) as error:
            raise ConfigurationError(f"{SERVICE_ACCOUNT}: {error}") from error
        assert inside is not None  # it has one context, which is the current one
        return _checked(Chosen(inside, SERVICE_ACCOUNT))
    return read(kubeconfig).choose(context)


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


def parts(config: Any, source: str, context: str | None = None, *, remedy: str = "") -> Parts:
    """What a context leads to, without one the current one; `remedy` is for who has none.

    Raises ConfigurationError; its message holds no value.
    """
    if not isinstance(config, dict):
        raise ConfigurationError(f"{source}: this is no kubeconfig")
    chosen = context or config.get("current-context")
    if not chosen:
        raise ConfigurationError(f"{source}: there is no current context{remedy}")
    named = _named(config, "contexts", chosen, source, "current-context")
    if not named.get("user"):
        raise ConfigurationError(f"{source}: the context names no user")
    cluster = _named(config, "clusters", named.get("cluster"), source, "the context")
    return Parts(str(chosen), named, cluster, _named(config, "users", named.get("user"), source, "the context"))


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
        name: str(path.absolute().parent / part[name]) for name in _PATHS.get(field, ()) if isinstance(part.get(name), str)
    }
    return part | found


def _checked(chosen: Chosen) -> Chosen:
    """Each file that is named has to be there."""
    cluster, user = chosen.config.cluster, chosen.config.user
    files = {
        "certificate-authority": cluster.certificate_auth,
        "client-certificate": user.client_cert if user else None,
        "client-key": user.client_key if user else None,
        "tokenFile": user.token_file if user else None,
    }
    for field, file in files.items():
        if file is not None and not Path(file).is_file():
            raise ConfigurationError(f"{chosen.source}: {field}: there is no file {file}")
    return chosen
