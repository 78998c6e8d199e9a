"""An admission server in this process, and a client of it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from lab.authority import Authority
from tests.pods.table import CASES, pod_egress

from transom.pods.patch import PodPatcher
from transom.webhook import review
from transom.webhook.server import AdmissionServer

PATCHER = PodPatcher(pod_egress("plain"))


def respond(body: bytes, path: str) -> bytes:
    request = review.parse_review_request(body)
    if request.namespace == "broken":
        raise RuntimeError("hunter2")
    return review.build_answer(request, review.build_request_patch(request, {}, PATCHER))


def reviewed(**request: Any) -> dict[str, Any]:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    pod = CASES[0].pod
    made = {"uid": "u1", "kind": kind, "namespace": "shop", "operation": "CREATE", "object": pod, "oldObject": None, **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": made}


class Caller:
    """A client of a server that answers with the settings `plain`."""

    def __init__(self, directory: Path, port: int, session: aiohttp.ClientSession, context: ssl.SSLContext) -> None:
        self.directory, self.port, self.session, self.context = directory, port, session, context

    async def post(self, body: bytes, path: str = "/pods", **more: Any) -> tuple[int, Any]:
        async with self.session.post(f"https://127.0.0.1:{self.port}{path}", data=body, **more) as response:
            return response.status, json.loads(await response.read())

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)

    async def works(self) -> None:
        code, answered = await self.post(json.dumps(reviewed()).encode())
        assert code == 200
        assert answered["response"]["allowed"] is True
        assert answered["response"]["patchType"] == "JSONPatch"


def of(value: Any) -> bytes:
    return json.dumps(value).encode()


@asynccontextmanager
async def calling(directory: Path) -> AsyncIterator[Caller]:
    authority = Authority(directory)
    authority.issue("server", "transom-webhook", addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    trusting = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    connector = aiohttp.TCPConnector(ssl=trusting)
    async with (
        AdmissionServer(respond).serve(("127.0.0.1", 0), context) as port,
        aiohttp.ClientSession(connector=connector, trust_env=False) as session,
    ):
        yield Caller(directory, port, session, trusting)
