"""Fetches URLs with one of Python's clients, named by the first argument.

Each line of standard input is a JSON array of the proxy variables and a URL. Says "done" after each.
"""

import contextlib
import json
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable

SECONDS = 5


def fetch_requests(url: str) -> None:
    import requests

    requests.get(url, timeout=SECONDS)


def fetch_httpx(url: str) -> None:
    import httpx

    with httpx.Client(timeout=SECONDS, verify=False) as client:
        client.get(url)


def fetch_httpx2(url: str) -> None:
    import httpx2

    with httpx2.Client(timeout=SECONDS, verify=False) as client:
        client.get(url)


def fetch_aiohttp(url: str) -> None:
    import asyncio

    import aiohttp

    async def fetch() -> None:
        async with aiohttp.ClientSession(trust_env=True, timeout=aiohttp.ClientTimeout(SECONDS)) as session:
            await session.get(url)

    asyncio.run(fetch())


def fetch_httplib2(url: str) -> None:
    import httplib2

    httplib2.Http(timeout=SECONDS).request(url)


def fetch_websocket(url: str) -> None:
    import websocket

    websocket.create_connection(f"ws{url.removeprefix('http')}", timeout=SECONDS)


def fetch_kubernetes(url: str) -> None:
    from kubernetes import client

    configuration = client.Configuration(host=url.rstrip("/"))
    configuration.verify_ssl = False
    configuration.retries = False
    client.CoreV1Api(client.ApiClient(configuration)).list_namespace(_request_timeout=SECONDS)


def fetch_grpc(url: str) -> None:
    """Connect a channel: port 80 of an http URL, 443 of an https one, as no port is in a target by itself."""
    import grpc

    match = re.match(r"(https?)://([^/]*)", url)
    target = match[2] if re.search(r":[0-9]+\Z", match[2]) else f"{match[2]}:{443 if match[1] == 'https' else 80}"
    settled = threading.Event()
    states = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.READY)
    # closing it takes 0.2 s, so it is left to the end of the process
    channel = grpc.insecure_channel(f"dns:///{target}")
    CHANNELS.append(channel)
    channel.subscribe(lambda state: settled.set() if state in states else None, try_to_connect=True)
    settled.wait(SECONDS)


CHANNELS: list[object] = []
CLIENTS: dict[str, Callable[[str], None]] = {
    "requests": fetch_requests,
    "httpx": fetch_httpx,
    "httpx2": fetch_httpx2,
    "aiohttp": fetch_aiohttp,
    "httplib2": fetch_httplib2,
    "websocket-client": fetch_websocket,
    "kubernetes-python": fetch_kubernetes,
    "grpc-core": fetch_grpc,
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    fetch, kept = CLIENTS[sys.argv[1]], dict(os.environ)
    for line in sys.stdin:
        settings, url = json.loads(line)
        for name in os.environ.keys() - kept:
            del os.environ[name]
        os.environ.update(settings)
        # refused, no such name, or no such list: the recorder knows whether the proxy was asked
        with contextlib.suppress(Exception):
            fetch(url)
        print("done", flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
