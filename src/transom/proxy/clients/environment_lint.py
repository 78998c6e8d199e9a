"""What is wrong with a whole environment: variables that some clients do not read, that differ, or that make requests fail.

Each rule is evaluated with the profiles: what a client finds in the environment is compared with what it would find in another.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from transom.proxy.clients.client_table import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.environment import ClientSettings, read_environment
from transom.proxy.clients.lint import Level, LintFinding, lint
from transom.proxy.clients.profile import ClientProfile, Credentials, Source

_PAIRS: Final = (("http_proxy", "HTTP_PROXY"), ("https_proxy", "HTTPS_PROXY"), ("no_proxy", "NO_PROXY"))
_LIST: Final = ("no_proxy", "NO_PROXY")
_CASES: Final = ("REQUEST_METHOD", "GATEWAY_INTERFACE")
ENVIRONMENT_CLIENTS: Final = tuple(name for name, client in CLIENTS.items() if client.source is Source.ENVIRONMENT)
"""The clients that read variables at all."""


def keep_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that clients read here."""
    return {
        name: value
        for name, value in environment.items()
        if name.lower().endswith("_proxy") or name.lower() == "proxy" or name in _CASES
    }


def read_environment_text(text: str) -> dict[str, str]:
    """Read what `env` prints: `NAME=value`, a line each; `export` in front and quotes around a value are removed."""
    variables: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.isidentifier():
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            variables[name] = value[1:-1] if quoted else value
    return keep_proxy_variables(variables)


def lint_environment(
    environment: Mapping[str, str], clients: Sequence[str] = NODE_CLIENTS, readers: Sequence[str] = ENVIRONMENT_CLIENTS
) -> list[LintFinding]:
    """Return what is wrong with the variables, as `readers` take them, and with the list in them, as `clients` read it.

    The `item` of what concerns a variable is its name, and its position 0. No value of a variable but the list is shown.
    """
    known = keep_proxy_variables(environment)
    rows = [CLIENTS[name] for name in readers if CLIENTS[name].source is Source.ENVIRONMENT]
    findings = [
        *_find_unread_variables(known, rows),
        *_find_case_differences(known, rows),
        *_find_proxies_without_scheme(known, rows),
    ]
    findings += [*_find_missing_variables(known, rows), *_find_credentials(known, rows)]
    for value in dict.fromkeys(known[name] for name in _LIST if known.get(name)):
        findings += lint(value, clients)
    return findings


def _read_both_schemes(client: ClientProfile, environment: Mapping[str, str]) -> tuple[ClientSettings, ClientSettings]:
    return read_environment(client, environment, "http"), read_environment(client, environment, "https")


def _build_finding(variable: str, clients: Sequence[ClientProfile], problem: str, level: Level = "warning") -> LintFinding:
    return LintFinding(variable, 0, tuple(client.name for client in clients), problem, None, level)


def _find_unread_variables(variables: Mapping[str, str], rows: Sequence[ClientProfile]) -> Iterator[LintFinding]:
    """Variables that are set in one case alone, and who does not read them then."""
    for pair in _PAIRS:
        filled = [name for name in pair if variables.get(name)]
        if len(filled) != 1:
            continue
        name, other = filled[0], pair[1] if filled[0] == pair[0] else pair[0]
        whole = {**variables, **dict.fromkeys(pair, variables[name])}
        misses = [client for client in rows if _is_missing_values(client, variables, whole, is_list=pair == _LIST)]
        if misses:
            why = "is empty, which counts for them" if other in variables else "is not set, and they do not read the other case"
            yield _build_finding(name, misses, f"{other} {why}: set both to the same value")


def _is_missing_values(
    client: ClientProfile, variables: Mapping[str, str], completed: Mapping[str, str], *, is_list: bool
) -> bool:
    for item, full in zip(_read_both_schemes(client, variables), _read_both_schemes(client, completed), strict=True):
        if is_list and full.proxy is not None and item.no_proxy != full.no_proxy:
            return True
        if not is_list and item.proxy is None and full.proxy is not None:
            return True
    return False


def _find_case_differences(variables: Mapping[str, str], rows: Sequence[ClientProfile]) -> Iterator[LintFinding]:
    """Variables whose two cases have different values: each client takes one of them."""
    for lower, upper in _PAIRS:
        if not (variables.get(lower) and variables.get(upper)) or variables[lower] == variables[upper]:
            continue
        if lower == "no_proxy":
            takes = [client for client in rows if _read_both_schemes(client, variables)[0].no_proxy == variables[upper]]
        else:
            scheme = lower == "https_proxy"
            takes = [client for client in rows if _read_both_schemes(client, variables)[scheme].proxy == upper]
        yield _build_finding(
            upper, takes, f"differs from {lower}: these read {upper}, others {lower}; set both to the same value"
        )


def _find_proxies_without_scheme(variables: Mapping[str, str], rows: Sequence[ClientProfile]) -> Iterator[LintFinding]:
    for pair in _PAIRS[:2]:
        for name in pair:
            value = variables.get(name)
            if not value or "://" in value:
                continue
            corrected = {
                **variables,
                **{item: f"http://{variables[item]}" for item in pair if variables.get(item) and "://" not in variables[item]},
            }
            fails = [client for client in rows if _is_improved_by(client, variables, corrected)]
            yield _build_finding(name, fails, "has no http:// in front: these fail, or ask no proxy", "error")


def _is_improved_by(client: ClientProfile, variables: Mapping[str, str], corrected: Mapping[str, str]) -> bool:
    for item, other in zip(_read_both_schemes(client, variables), _read_both_schemes(client, corrected), strict=True):
        if other.proxy is not None and other.fails is None and (item.proxy is None or item.fails or item.fails_when_used):
            return True
    return False


def _find_missing_variables(variables: Mapping[str, str], rows: Sequence[ClientProfile]) -> Iterator[LintFinding]:
    """One scheme without a proxy; proxies without a list; a list without proxies."""
    proxies = [name for pair in _PAIRS[:2] for name in pair if variables.get(name)]
    has_list = any(variables.get(name) for name in _LIST)
    if not proxies:
        if has_list and not (variables.get("all_proxy") or variables.get("ALL_PROXY")):
            yield _build_finding("NO_PROXY", [], "no proxy is set: the list has no effect", "note")
        return
    for scheme, (lower, upper) in zip(("http", "https"), _PAIRS[:2], strict=True):
        if not (variables.get(lower) or variables.get(upper)):
            direct = [client for client in rows if read_environment(client, variables, scheme).proxy is None]
            yield _build_finding(lower, direct, f"is not set in either case: {scheme} requests go direct")
    if not has_list:
        yield _build_finding("NO_PROXY", [], "is not set in either case: requests within the cluster go to the proxy")


_HANDLING: Final = (
    (Credentials.UNDECODED, "are sent as written: the proxy answers 407"),
    (Credentials.CUT, "are cut at a colon"),
)


def _find_credentials(variables: Mapping[str, str], rows: Sequence[ClientProfile]) -> Iterator[LintFinding]:
    for name in (name for pair in _PAIRS[:2] for name in pair if "@" in variables.get(name, "")):
        userinfo = variables[name].rpartition("@")[0]
        for handling, text in _HANDLING:
            clients = [client for client in rows if client.credentials is handling]
            if "%" in userinfo and clients:
                yield _build_finding(
                    name, clients, f"escapes in its user name or password {text}; letters and digits do", "note"
                )
        unsent = [client for client in rows if client.credentials is Credentials.NOT_SENT]
        if unsent:
            yield _build_finding(name, unsent, "its user name and password are not sent", "note")
