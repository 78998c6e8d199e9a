"""Readiness endpoints, tried through the proxy with the CAs that the settings ask for."""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from transom.common.tls_clients import create_client_context
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import format_pem
from transom.proxy.url import parse

if TYPE_CHECKING:
    import aiohttp

TRIES: Final = 3
PAUSE: Final = 1.0
"""Seconds between two tries, as OpenShift's operator waits."""
TIMEOUT: Final = 10.0
"""Seconds for one try."""


class EndpointAnswer(msgspec.Struct, frozen=True):
    """What an endpoint said: None for an answer of 2xx or 3xx, else what went wrong, naming the hop. No secret is in it."""

    endpoint: str
    failure: str | None


async def probe(egress: Egress, pause: float = PAUSE) -> list[EndpointAnswer]:
    """Try every endpoint, side by side, each up to `TRIES` times with `pause` seconds between."""
    # a third of what a command loads that changes nothing, and asks no endpoint
    import aiohttp

    context = create_client_context()
    if egress.trust:
        context.load_verify_locations(cadata=format_pem(egress.trust))
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        tasks = [_probe_one(session, endpoint, egress, context, pause) for endpoint in egress.readiness_endpoints]
        return await asyncio.gather(*tasks)


def has_failures(answers: Sequence[EndpointAnswer]) -> bool:
    """Return True if an endpoint did not answer."""
    return any(answer.failure for answer in answers)


async def _probe_one(
    session: "aiohttp.ClientSession", endpoint: str, egress: Egress, context: ssl.SSLContext, pause: float
) -> EndpointAnswer:
    proxy = egress.select_proxy(endpoint)
    failure: str | None = None
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(pause)
        failure = await _request_endpoint(session, endpoint, proxy, context)
        if failure is None:
            break
    return EndpointAnswer(endpoint, failure)


async def _request_endpoint(
    session: "aiohttp.ClientSession", endpoint: str, proxy: Secret | None, context: ssl.SSLContext
) -> str | None:
    import aiohttp
    from yarl import URL

    through = URL(proxy.reveal()).with_user(None) if proxy else None
    credentials = _build_authorization(proxy) if proxy else {}
    # headers for a proxy go with a plain request itself, and else with CONNECT
    plain = endpoint.lower().startswith("http:")
    headers, proxy_headers = (credentials, {}) if plain else ({}, credentials)
    try:
        async with session.get(
            endpoint, headers=headers, proxy=through, proxy_headers=proxy_headers, ssl=context, allow_redirects=False
        ) as response:
            return _explain_status(response.status)
    # texts of aiohttp's errors may quote the proxy's URL: none of them is passed on
    except aiohttp.ClientHttpProxyError as error:
        return _explain_refusal(error.status)
    except aiohttp.ClientConnectorDNSError:
        # with a proxy, no name but the proxy's is resolved here
        return f"the name of the {'proxy' if through else 'endpoint'} cannot be resolved"
    except aiohttp.ClientProxyConnectionError:
        return "the proxy cannot be reached"
    except aiohttp.ClientConnectorCertificateError:
        return "the certificate of the endpoint is not trusted: is the proxy's CA in trustedCA?"
    except aiohttp.ClientSSLError:
        return "TLS fails: is the proxy's CA in trustedCA?"
    except aiohttp.ClientConnectorError:
        return f"the {'proxy' if through else 'endpoint'} cannot be reached"
    except TimeoutError:
        return f"there was no answer within {TIMEOUT:.0f} s"
    except aiohttp.ServerDisconnectedError:
        return "the connection ended without an answer"
    except (aiohttp.ClientError, OSError, ValueError):
        return "the server does not speak HTTP, or the connection broke"


def _build_authorization(proxy: Secret) -> dict[str, str]:
    """Return the header as hosts send it: Go and curl encode the decoded bytes, while aiohttp converts userinfo to Latin-1."""
    url = parse(proxy.reveal())
    if url.username is None:
        return {}
    text = f"{url.username.reveal()}:{url.password.reveal() if url.password else ''}"
    encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    return {"Proxy-Authorization": f"Basic {encoded}"}


def _explain_status(status: int) -> str | None:
    if 200 <= status < 400:
        return None
    return _explain_refusal(status) if status == 407 else f"it answers {status}"


def _explain_refusal(status: int) -> str:
    return "the proxy asks for other credentials (407)" if status == 407 else f"the proxy answers {status}"
