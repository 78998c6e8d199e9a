"""Cases as JSON lines: what was measured, or what a machine asks."""

from typing import Any

import msgspec

from transom.proxy.clients.aliases import find_client
from transom.proxy.clients.decision import Decision, decide
from transom.proxy.clients.profile import ClientProfile

PLACEHOLDERS = {"$P1": "http://127.0.0.1:3128", "$P2": "http://127.0.0.1:3129", "$H1": "127.0.0.1:3128"}
"""The placeholders for proxies in cases: two different ones, and one without `http://`."""

LANGUAGES = ("nonProxyHosts", "ProxyOverride", "chromium")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case. `no_proxy` `None` is not set; `env`, where present, is the whole environment."""

    client: str
    url: str
    no_proxy: str | None = None
    env: dict[str, str] | None = None
    syntax: str | None = None
    resolves: dict[str, str] | None = None


_DECODER = msgspec.json.Decoder(dict[str, Any])


class UnknownClientError(ValueError):
    """A case names a client without a profile. `name` is that name."""

    def __init__(self, name: str):
        super().__init__(f"unknown client {name!r}")
        self.name = name


def read_case(line: bytes) -> tuple[dict[str, Any], Case]:
    """Read one line: all its fields, and the case in them.

    Raises `ValueError` that says what is wrong, `UnknownClientError` for a client without a profile.
    """
    try:
        fields = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a JSON object: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error}") from error
    try:
        case = msgspec.convert(fields, Case)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    client = _require_client(case.client)
    if case.syntax is not None and case.syntax not in LANGUAGES:
        raise ValueError(f"unknown syntax {case.syntax!r}; must be one of {', '.join(LANGUAGES)}")
    if (case.syntax or "NO_PROXY") != client.language:
        raise ValueError(f"client {case.client} reads {client.language}, not {case.syntax or 'NO_PROXY'}")
    return fields, case


def _require_client(name: str) -> ClientProfile:
    client = find_client(name)
    if client is None:
        raise UnknownClientError(name)
    return client


def decide_case(case: Case) -> Decision:
    """Decide one case. Raises `ValueError` when its URL is none, `UnknownClientError` for a client without a profile."""
    environment = None
    if case.env is not None:
        environment = {name: PLACEHOLDERS.get(value, value) for name, value in case.env.items()}
    return decide(_require_client(case.client), case.url, case.no_proxy, environment=environment, resolves=case.resolves)
