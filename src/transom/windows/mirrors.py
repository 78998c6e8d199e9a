"""Registry mirrors as containerd reads them: `<directory>\\<registry>\\hosts.toml` (containerd: "docs/hosts.md")."""

import base64
import json

import msgspec

from transom.proxy.secret import Secret


class Mirror(msgspec.Struct, frozen=True):
    """A registry, the places to ask in its stead, in order, and whether itself may be asked after them.

    `credentials` are `user:password` by mirror, for those that want them.
    """

    registry: str
    mirrors: tuple[str, ...]
    fallback: bool = True
    credentials: dict[str, Secret] = {}


def directory(mirror: Mirror) -> str:
    """The name of a registry's directory: on Windows the colon before the port is left out (containerd, config_windows.go)."""
    return mirror.registry.replace(":", "")


def hosts_toml(mirror: Mirror) -> Secret:
    """The file for a registry."""
    lines = [f"server = {_text(_server(mirror))}"]
    for place in mirror.mirrors:
        host, _, path = place.partition("/")
        lines += ["", f"[host.{_text(f'https://{host}' + (f'/v2/{path}' if path else ''))}]"]
        lines.append('  capabilities = ["pull", "resolve"]')
        if path:
            lines.append("  override_path = true")
        if place in mirror.credentials:
            encoded = base64.b64encode(mirror.credentials[place].reveal().encode()).decode()
            lines += [f"  [host.{_text(f'https://{host}' + (f'/v2/{path}' if path else ''))}.header]"]
            lines.append(f"    authorization = {_text(f'Basic {encoded}')}")
    return Secret("\n".join(lines) + "\n")


def _server(mirror: Mirror) -> str:
    if mirror.fallback or not mirror.mirrors:
        return f"https://{mirror.registry}"
    # where the registry itself must not be asked, the last mirror stands in its place
    host, _, path = mirror.mirrors[-1].partition("/")
    return f"https://{host}" + (f"/v2/{path}" if path else "")


def _text(text: str) -> str:
    # a TOML basic string is a JSON string, but for DEL
    return json.dumps(text)
