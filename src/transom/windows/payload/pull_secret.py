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


class Login(msgspec.Struct, frozen=True):
    """`user:password` for a host and what lies below a path there. A part of the host may have a `*`."""

    host: str
    path: str
    text: Secret


class Logins(msgspec.Struct, frozen=True):
    """What could be read, and what could not."""

    logins: tuple[Login, ...] = ()
    problems: tuple[str, ...] = ()

    def of(self, place: str) -> Secret | None:
        """The login for a place, `mirror.corp.example:5000/quay`; the one that says most of it."""
        host, _, path = place.partition("/")
        found = [
            one for one in self.logins if _same(one.host, host) and f"{path}/".startswith(f"{one.path}/" if one.path else "")
        ]
        return max(found, key=lambda one: (len(one.path), "*" not in one.host)).text if found else None


def read(pull_secret: Secret | None) -> Logins:
    """The logins of a `.dockerconfigjson`; an entry that cannot be read is a problem, and the others hold."""
    if pull_secret is None:
        return Logins()
    try:
        value = json.loads(pull_secret.reveal())
    except ValueError:
        return Logins(problems=("the pull secret is no JSON: registry mirrors get no login",))
    auths = value.get("auths") if isinstance(value, Mapping) else None
    if not isinstance(auths, Mapping):
        return Logins(problems=("the pull secret has no `auths`: registry mirrors get no login",))
    logins, problems = [], []
    for name, entry in auths.items():
        text = _login(entry) if isinstance(entry, Mapping) else None
        if text is None:
            problems.append(f"the pull secret's entry {name!r} is no login: neither `auth`, nor `username` and `password`")
            continue
        host, _, path = str(name).removeprefix("https://").removeprefix("http://").partition("/")
        # `https://index.docker.io/v1/` is how docker names its registry
        path = path.strip("/")
        logins.append(Login(host.lower(), "" if path in ("v1", "v2") else path, text))
    return Logins(tuple(logins), tuple(problems))


def _login(entry: Mapping[str, Any]) -> Secret | None:
    auth = entry.get("auth")
    if isinstance(auth, str) and auth:
        try:
            text = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
        except (ValueError, binascii.Error):
            return None
        return Secret(text) if ":" in text else None
    user, password = entry.get("username"), entry.get("password")
    return Secret(f"{user}:{password}") if isinstance(user, str) and user and isinstance(password, str) else None


def _same(pattern: str, host: str) -> bool:
    ours, theirs = pattern.split("."), host.lower().split(".")
    return len(ours) == len(theirs) and all(map(fnmatchcase, theirs, ours))
