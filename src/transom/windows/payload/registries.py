"""Image registries as containerd reads them: `<directory>\\<registry>\\hosts.toml`, and the CAs beside it.

Source: containerd, docs/hosts.md and core/remotes/docker/config (v2.4.2).
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from transom.proxy.secret import Secret


class Mirror(msgspec.Struct, frozen=True):
    """A place to ask in a registry's stead: host, port and path, as `mirror.corp.example:5000/quay`.

    `resolve`: whether it may say which image a tag is, too; else it is asked for digests alone. `login` is `user:password`.
    """

    place: str
    resolve: bool = True
    login: Secret | None = None

    @property
    def host(self) -> str:
        """Host and port."""
        return self.place.partition("/")[0]

    @property
    def url(self) -> str:
        """The root of its API: with a path it is said whole, which is what `override_path` is for."""
        host, _, path = self.place.partition("/")
        return f"https://{host}" + (f"/v2/{path}" if path else "")


class ImageRegistry(msgspec.Struct, frozen=True):
    """What containerd has to know of a registry, `quay.io` or `registry.corp.example:5000`.

    `mirrors` are asked in order; `fallback`: whether itself may be asked after them. `authorities` are the CAs that it is known
    by beside those of the host, as PEM.
    """

    name: str
    mirrors: tuple[Mirror, ...] = ()
    fallback: bool = True
    authorities: str = ""


def directory(name: str) -> str:
    """The name of a registry's directory: on Windows without colons (containerd, config_windows.go)."""
    return name.replace(":", "")


def files(registries: Iterable[ImageRegistry], root: str) -> Iterator[tuple[str, Secret]]:
    """Path and content of each file below `root`. Where there is no hosts.toml, containerd takes the CAs by their name."""
    known = tuple(registries)
    authorities = {one.name: rf"{root}\{directory(one.name)}\ca.crt" for one in known if one.authorities}
    for one in known:
        if one.authorities:
            yield authorities[one.name], Secret(one.authorities)
        if one.mirrors or not one.fallback:
            yield rf"{root}\{directory(one.name)}\hosts.toml", hosts_toml(one, authorities)


def hosts_toml(registry: ImageRegistry, authorities: Mapping[str, str] | None = None) -> Secret:
    """The file for a registry; `authorities` are paths of files with CAs by host and port."""
    authorities = authorities or {}
    lines = list(_server(registry, authorities))
    for mirror in registry.mirrors:
        operations = ["pull", "resolve"] if mirror.resolve else ["pull"]
        lines += ["", f"[host.{_text(mirror.url)}]", f"  capabilities = {_text(operations)}"]
        if "/" in mirror.place:
            lines.append("  override_path = true")
        if mirror.host in authorities:
            lines.append(f"  ca = {_text(authorities[mirror.host])}")
        if mirror.login is not None:
            encoded = base64.b64encode(mirror.login.reveal().encode()).decode()
            lines += [f"  [host.{_text(mirror.url)}.header]", f"    authorization = {_text(f'Basic {encoded}')}"]
    return Secret("\n".join(lines) + "\n")


def _server(registry: ImageRegistry, authorities: Mapping[str, str]) -> Iterator[str]:
    """Who is asked when no mirror has it: what stands before the first table."""
    if registry.fallback:
        yield f"server = {_text(f'https://{registry.name}')}"
        if registry.name in authorities:
            yield f"ca = {_text(authorities[registry.name])}"
    elif registry.mirrors:
        # the registry itself must not be asked: the first mirror stands in its place
        first = registry.mirrors[0]
        yield f"server = {_text(first.url)}"
        if not first.resolve:
            yield f"capabilities = {_text(['pull'])}"
        if "/" in first.place:
            yield "override_path = true"
        if first.host in authorities:
            yield f"ca = {_text(authorities[first.host])}"
    else:
        # nobody may be asked: a server that neither has images nor knows tags
        yield f"server = {_text(f'https://{registry.name}')}"
        yield f"capabilities = {_text(['push'])}"


def _text(value: str | list[str]) -> str:
    # a TOML string or list of such is one of JSON, but for DEL, which no name has
    return json.dumps(value)
