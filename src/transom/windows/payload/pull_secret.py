"""Logins for registries, as a pull secret has them: a Secret's `.dockerconfigjson`.

Source of the forms: kubernetes, pkg/credentialprovider/config.go and keyring.go; Kubernetes, "Images", "Interpretation of
config.json".
"""

import base64
import binascii
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from transom.proxy.secret import Secret
from transom.windows.payload.registries import get_registry_host


class Login(msgspec.Struct, frozen=True):
    """`user:password` for a host and what lies below a path there. A part of the host may have a `*`."""

    host: str
    path: str
    text: Secret


class Logins(msgspec.Struct, frozen=True):
    """What could be read, and what could not."""

    logins: tuple[Login, ...] = ()
    problems: tuple[str, ...] = ()

    def find_login(self, place: str) -> Secret | None:
        """Return the most specific login for a place (`mirror.corp.example:5000/quay`), or None."""
        name, _, path = place.partition("/")
        host = get_registry_host(name)
        matches = [
            login
            for login in self.logins
            if _is_matching_host(login.host, host) and f"{path}/".startswith(f"{login.path}/" if login.path else "")
        ]
        return max(matches, key=lambda item: (len(item.path), "*" not in item.host)).text if matches else None


def parse_logins(pull_secret: Secret | None) -> Logins:
    """Parse the logins of a `.dockerconfigjson`; an invalid entry is a problem and does not affect the others."""
    if pull_secret is None:
        return Logins()
    try:
        value = json.loads(pull_secret.reveal())
    except ValueError:
        return Logins(problems=("the pull secret is not valid JSON: registry mirrors get no login",))
    auths = value.get("auths") if isinstance(value, Mapping) else None
    if not isinstance(auths, Mapping):
        return Logins(problems=("the pull secret has no `auths`: registry mirrors get no login",))
    logins, problems = [], []
    for name, entry in auths.items():
        text = _parse_login(entry) if isinstance(entry, Mapping) else None
        if text is None:
            problems.append(f"the pull secret's entry {name!r} is not a login: no `auth`, nor `username` and `password`")
            continue
        host, _, path = str(name).removeprefix("https://").removeprefix("http://").partition("/")
        # `https://index.docker.io/v1/` is how docker names its registry
        path = path.strip("/")
        logins.append(Login(get_registry_host(host.lower()), "" if path in ("v1", "v2") else path, text))
    return Logins(tuple(logins), tuple(problems))


def _parse_login(entry: Mapping[str, Any]) -> Secret | None:
    auth = entry.get("auth")
    if isinstance(auth, str) and auth:
        try:
            text = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
        except (ValueError, binascii.Error):
            return None
        return Secret(text) if ":" in text else None
    user, password = entry.get("username"), entry.get("password")
    return Secret(f"{user}:{password}") if isinstance(user, str) and user and isinstance(password, str) else None


def _is_matching_host(pattern: str, host: str) -> bool:
    ours, theirs = pattern.split("."), host.lower().split(".")
    return len(ours) == len(theirs) and all(map(fnmatchcase, theirs, ours))
