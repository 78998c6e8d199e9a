"""Which proxy and which list a client takes from its environment."""

from collections.abc import Mapping

import msgspec

from transom.proxy.clients.profile import Cgi, ClientProfile, Empty, Schemeless, Source, Variables

PROXY = "http://proxy:3128"


class ClientSettings(msgspec.Struct, frozen=True):
    """What the environment gives a client for one scheme."""

    proxy: str | None
    """The variable that names the proxy; `None` when the client goes direct whatever the list says."""
    no_proxy: str | None
    fails: str | None = None
    """Why the client fails on these settings, if it does."""
    fails_when_used: str | None = None
    """Why requests fail that are not bypassed."""


def read_environment(client: ClientProfile, environment: Mapping[str, str], scheme: str) -> ClientSettings:
    """Find the proxy for `scheme` (`http` or `https`) and the list, as `client` does."""
    variables = client.variables
    if client.source is Source.NOWHERE:
        return ClientSettings(None, None)
    in_cgi = bool(environment.get("REQUEST_METHOD"))
    if variables.cgi is Cgi.ALL_IGNORED and "REQUEST_METHOD" in environment:
        return ClientSettings(None, None)
    hidden: set[str] = set()
    if variables.cgi is Cgi.HTTP_IGNORED and "REQUEST_METHOD" in environment:
        hidden |= {"http_proxy", "HTTP_PROXY"}
    names = variables.http if scheme == "http" else variables.https
    if (variables.cgi in (Cgi.UPPER_IGNORED, Cgi.UPPER_IGNORED_CGI_READ) and "REQUEST_METHOD" in environment) or (
        variables.cgi is Cgi.GATEWAY_UPPER_IGNORED and "GATEWAY_INTERFACE" in environment
    ):
        hidden.add("HTTP_PROXY")
        if variables.cgi is Cgi.UPPER_IGNORED_CGI_READ and scheme == "http":
            names = (*names, "CGI_HTTP_PROXY")
    first, second = (variables.every, names) if variables.every_first else (names, variables.every)
    name, value = _find_first(environment, first, variables.empty, hidden, any_case=variables.any_case)
    if not value and second and not (value == "" and variables.empty is Empty.OFF):
        name, value = _find_first(environment, second, variables.empty, hidden, any_case=variables.any_case)
    _, no_proxy = _find_first(
        environment, variables.no, variables.empty_list or variables.empty, set(), any_case=variables.any_case
    )
    fails = _find_broken_proxy(environment, variables) if variables.schemeless is Schemeless.FAILS else None
    if not value:
        return ClientSettings(None, no_proxy, fails=fails)
    if variables.cgi is Cgi.FAILS and in_cgi and scheme == "http":
        fails = f"it refuses {name} while REQUEST_METHOD is set"
    if variables.schemeless is Schemeless.IGNORED and "://" not in value:
        return ClientSettings(None, no_proxy)
    when_used = None
    if variables.schemeless is Schemeless.FAILS_WHEN_USED and "://" not in value:
        when_used = f"{name} has no http:// in front"
    return ClientSettings(name, no_proxy, fails=fails, fails_when_used=when_used)


def _find_first(
    environment: Mapping[str, str], names: tuple[str, ...], empty: Empty, hidden: set[str], *, any_case: bool
) -> tuple[str, str | None]:
    candidates = [name for name in names if name in environment and name not in hidden]
    if any_case and not candidates:
        wanted = {name.lower() for name in names}
        candidates = [name for name in environment if name.lower() in wanted and name not in hidden and name not in names]
    for name in candidates:
        if environment[name] or empty is not Empty.NOT_SET:
            return name, environment[name]
    return (names[0] if names else ""), None


def _find_broken_proxy(environment: Mapping[str, str], variables: Variables) -> str | None:
    for names in (variables.http, variables.https):
        name, value = _find_first(environment, names, variables.empty, set(), any_case=False)
        if value and "://" not in value:
            return f"{name} has no http:// in front"
    return None
