"""Programs that read the list as a client does that has a row: what people run, and whose rules it has."""

from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.profile import ClientProfile


class Alias(msgspec.Struct, frozen=True):
    """One program. `row` is the name of the client in `CLIENTS`."""

    row: str
    title: str
    """The program and its versions, as people say it."""
    evidence: str
    """How that is known."""


_LANGUAGE: Final = "its language and library, not measured"

ALIASES: Final = MappingProxyType(
    {
        "containerd": Alias("go", "containerd", "Go's net/http"),
        "docker": Alias("go", "Docker", "Go's net/http"),
        "kubelet": Alias("go", "kubelet", "Go's net/http"),
        "kubectl": Alias("go", "kubectl, client-go", "Go's net/http"),
        "helm": Alias("go", "Helm", _LANGUAGE),
        "terraform": Alias("go", "Terraform", _LANGUAGE),
        "grpc-go": Alias("go", "grpc-go", _LANGUAGE),
        "botocore": Alias("urllib", "botocore 1.44", "measured, 1.44.8: no difference"),
        "boto3": Alias("urllib", "boto3", "botocore makes its requests"),
        "aws": Alias("urllib", "AWS CLI 1 and 2", "botocore makes its requests"),
        "cloud-init": Alias("requests", "cloud-init", "requests makes its requests"),
        "openai": Alias("httpx", "OpenAI's SDK for Python", "httpx makes its requests"),
        "anthropic": Alias("httpx", "Anthropic's SDK for Python", "httpx makes its requests"),
        "mcp": Alias("httpx", "Model Context Protocol's SDK for Python", "httpx makes its requests"),
        "gcloud": Alias("httplib2", "gcloud", "httplib2 makes its requests"),
        "google-api-python-client": Alias("httplib2", "google-api-python-client", "httplib2 makes its requests"),
        "kubernetes-python-35": Alias("kubernetes-python-34", "kubernetes (Python) 35", "measured, 35.0.0: no difference"),
        "reqwest": Alias("uv", "reqwest (Rust)", "uv uses it"),
        "proxy-agent": Alias("proxy-from-env-2", "proxy-agent 8", "measured, 8.0.3: no difference"),
        "axios-1.7": Alias("proxy-from-env-2", "axios 0.28 to 0.30, 1.0 to 1.14", "measured, 1.7.9 and 1.14.0: no difference"),
        "node26-http": Alias("node24-http", "Node.js 26 http (NODE_USE_ENV_PROXY=1)", "measured, 26.7.0: no difference"),
        "node26-fetch": Alias("node24-fetch", "Node.js 26 fetch (NODE_USE_ENV_PROXY=1)", "measured, 26.7.0: no difference"),
        "fabric8-6": Alias("fabric8", "fabric8 kubernetes-client 6.13.5 (okhttp)", "measured: no difference"),
        "fabric8-7": Alias("fabric8", "fabric8 kubernetes-client 7.3.1 (vertx)", "measured: no difference"),
        "fabric8-8": Alias("fabric8", "fabric8 kubernetes-client 8.0.0 (vertx-5)", "measured: no difference"),
        "kubernetes-client-java": Alias("java-env", "kubernetes-client/java 27", "its jar contains no proxy variable"),
        "guzzle": Alias("php-guzzle", "Guzzle", "same program"),
        "powershell": Alias("dotnet", "PowerShell 7", ".NET HttpClient makes its requests"),
    }
)
"""By the names that `transom no-proxy --client` accepts in addition to those of the rows."""


@lru_cache(maxsize=64)
def find_client(name: str) -> ClientProfile | None:
    """Return the profile of a client, by its own name or by one that reads as it does; None for an unknown name."""
    if name in CLIENTS:
        return CLIENTS[name]
    alias = ALIASES.get(name)
    return None if alias is None else msgspec.structs.replace(CLIENTS[alias.row], name=name)
