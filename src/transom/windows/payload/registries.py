"""Image registries as containerd reads them: `<directory>\\<registry>\\hosts.toml`, and the CAs next to it.

Source: containerd, docs/hosts.md and core/remotes/docker/config (v2.4.2).
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from transom.proxy.secret import Secret

_DOCKER_HUB: Final = "docker.io"
_DOCKER_HUB_HOST: Final = "registry-1.docker.io"
"""The registry of images of docker.io (containerd, core/remotes/docker/resolver.go, `DefaultHost`)."""
_DOCKER_HUB_NAMES: Final = frozenset((_DOCKER_HUB, "index.docker.io"))
"""Names of Docker Hub in references to images and in logins (github.com/distribution/reference, normalize.go,
`legacyDefaultDomain`; kubernetes, pkg/credentialprovider/keyring.go, `defaultRegistryKey`)."""


def get_registry_name(name: str) -> str:
    """Return the name that normalized references to images have: containerd looks for a directory of this name."""
    return _DOCKER_HUB if name.lower() in _DOCKER_HUB_NAMES else name


def get_registry_host(name: str) -> str:
    """Return host and port that serve the API of a registry: Docker Hub has another host than its name says."""
    return _DOCKER_HUB_HOST if name.lower() in _DOCKER_HUB_NAMES else name


class Mirror(msgspec.Struct, frozen=True):
    """A mirror of a registry: host, port and path, as `mirror.corp.example:5000/quay`.

    `resolve`: whether it may also resolve tags; else it gets only requests for digests. `login` is `user:password`.
    """

    place: str
    resolve: bool = True
    login: Secret | None = None

    @property
    def host(self) -> str:
        """Host and port."""
        return get_registry_host(self.place.partition("/")[0])

    @property
    def url(self) -> str:
        """The root of its API: with a path it is said whole, which is what `override_path` is for."""
        path = self.place.partition("/")[2]
        return f"https://{self.host}" + (f"/v2/{path}" if path else "")


class ImageRegistry(msgspec.Struct, frozen=True):
    """What containerd has to know of a registry, `quay.io` or `registry.corp.example:5000`.

    `mirrors` are asked in order; `fallback`: whether itself may be asked after them. `authorities` are the CAs that it is known
    by in addition to those of the host, as PEM.
    """

    name: str
    mirrors: tuple[Mirror, ...] = ()
    fallback: bool = True
    authorities: str = ""


def format_directory_name(name: str) -> str:
    """Return the name of a registry's directory: on Windows without colons (containerd, config_windows.go)."""
    return name.replace(":", "")


def iter_files(registries: Iterable[ImageRegistry], root: str) -> Iterator[tuple[str, Secret]]:
    """Yield path and content of each file below `root`. Without a hosts.toml, containerd uses the CAs by file name."""
    known = tuple(registries)
    authorities = {item.name: rf"{root}\{format_directory_name(item.name)}\ca.crt" for item in known if item.authorities}
    for entry in known:
        if entry.authorities:
            yield authorities[entry.name], Secret(entry.authorities)
        if entry.mirrors or not entry.fallback:
            yield rf"{root}\{format_directory_name(entry.name)}\hosts.toml", render_hosts_toml(entry, authorities)


def render_hosts_toml(registry: ImageRegistry, authorities: Mapping[str, str] | None = None) -> Secret:
    """Render the file for a registry; `authorities` are paths of files with CAs by host and port."""
    authorities = {get_registry_host(name): path for name, path in (authorities or {}).items()}
    lines = list(_iter_server_lines(registry, authorities))
    for mirror in registry.mirrors:
        operations = ["pull", "resolve"] if mirror.resolve else ["pull"]
        lines += ["", f"[host.{_format_toml_value(mirror.url)}]", f"  capabilities = {_format_toml_value(operations)}"]
        if "/" in mirror.place:
            lines.append("  override_path = true")
        if mirror.host in authorities:
            lines.append(f"  ca = {_format_toml_value(authorities[mirror.host])}")
        if mirror.login is not None:
            encoded = base64.b64encode(mirror.login.reveal().encode()).decode()
            lines += [
                f"  [host.{_format_toml_value(mirror.url)}.header]",
                f"    authorization = {_format_toml_value(f'Basic {encoded}')}",
            ]
    return Secret("\n".join(lines) + "\n")


def _iter_server_lines(registry: ImageRegistry, authorities: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines before the first table: the server to use if no mirror has the image."""
    if registry.fallback:
        host = get_registry_host(registry.name)
        yield f"server = {_format_toml_value(f'https://{host}')}"
        if host in authorities:
            yield f"ca = {_format_toml_value(authorities[host])}"
    elif registry.mirrors:
        # the registry itself must not be used: the first mirror replaces it
        first = registry.mirrors[0]
        yield f"server = {_format_toml_value(first.url)}"
        if not first.resolve:
            yield f"capabilities = {_format_toml_value(['pull'])}"
        if "/" in first.place:
            yield "override_path = true"
        if first.host in authorities:
            yield f"ca = {_format_toml_value(authorities[first.host])}"
    else:
        # no registry may be used: a server that has neither images nor tags
        yield f"server = {_format_toml_value(f'https://{get_registry_host(registry.name)}')}"
        yield f"capabilities = {_format_toml_value(['push'])}"


def _format_toml_value(value: str | list[str]) -> str:
    # a TOML string or list of such is one of JSON, but for DEL, which no name has
    return json.dumps(value)
