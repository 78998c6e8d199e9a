"""Services that containers call by names which no client of NO_PROXY completes."""

from typing import Any

import pytest
from tests.pods.table import pod_egress

from transom.pods.service_names import find_proxied_services

SERVICES = dict.fromkeys(
    (("shop", "web"), ("shop", "db"), ("monitoring", "loki"), ("default", "kubernetes"), ("proxies", "squid")), ""
)
NO_PROXY = pod_egress("plain").no_proxy


def env(value: Any, name: str = "URL") -> dict[str, Any]:
    return {"name": "app", "env": [{"name": name, "value": value}]}


def args(*values: str) -> dict[str, Any]:
    return {"name": "app", "args": list(values)}


CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("with a scheme", env("http://web"), ["web"]),
    ("with a scheme, a port and a path", env("https://web:8443/x?y=z"), ["web"]),
    ("with a user", env("http://u:p@web/"), ["web"]),
    ("websocket", env("ws://web/socket"), ["web"]),
    ("host and port", env("web:8080"), ["web"]),
    ("host, port and path", env("web:8080/metrics"), ["web"]),
    ("of another namespace", env("http://loki.monitoring:3100"), ["loki.monitoring"]),
    ("of another namespace, by its name alone", env("http://loki:3100"), []),
    ("an argument", args("server", "--repo-server", "web:8081"), ["web"]),
    ("an argument with an equals sign", args("--url=http://web:80"), ["web"]),
    ("in a command", {"name": "app", "command": ["sh", "-c", "curl -s http://web/x && sleep 1"]}, ["web"]),
    ("two in one text", env("http://web,http://loki.monitoring"), ["web", "loki.monitoring"]),
    ("the same twice", args("http://web", "http://web/2"), ["web"]),
    ("of no Service", env("http://other:80"), []),
    ("a word alone", env("web"), []),
    ("with .svc", env("http://web.shop.svc"), []),
    ("with the domain", env("http://web.shop.svc.cluster.local:80"), []),
    ("the API server", env("https://kubernetes.default"), []),
    ("a database", env("db:5432"), []),
    ("a database with its scheme", env("postgres://db:5432/x"), []),
    ("Redis", env("redis://db:6379"), []),
    ("an image with a tag", env("web:latest"), []),
    ("a time", env("12:30"), []),
    ("a reference", env("http://$(WEB_SERVICE_HOST)"), []),
    ("not a text", {"name": "app", "env": [{"name": "URL", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}, []),
    ("no text at all", {"name": "app", "env": None, "args": None, "command": [1]}, []),
    ("a proxy that is a Service", env("http://squid.proxies:3128", "HTTP_PROXY"), []),
    ("an invalid address", env("http://[web"), []),
]


@pytest.mark.parametrize(("container", "names"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_services_that_go_to_the_proxy(container: dict[str, Any], names: list[str]) -> None:
    assert [proxied_service.name for proxied_service in find_proxied_services([container], "shop", SERVICES, NO_PROXY)] == names


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ([], ["web"]),
        ([("HTTP_PROXY", "http://mine:1")], ["web"]),
        ([("HTTP_PROXY", "http://mine:1"), ("NO_PROXY", "web")], []),
        ([("https_proxy", "http://mine:1"), ("no_proxy", ".shop")], ["web"]),
        ([("HTTP_PROXY", ""), ("HTTPS_PROXY", "")], []),
        ([("NO_PROXY", "x.example")], []),
        ([("HTTP_PROXY", "http://mine:1"), ("NO_PROXY", "*")], []),
    ],
)
def test_a_container_with_a_proxy_of_its_own_has_its_own_list(more: list[tuple[str, str]], names: list[str]) -> None:
    container = {"name": "app", "env": [{"name": key, "value": value} for key, value in (("URL", "http://web"), *more)]}
    assert [proxied_service.name for proxied_service in find_proxied_services([container], "shop", SERVICES, NO_PROXY)] == names


def test_the_name_to_write_is_covered() -> None:
    (found,) = find_proxied_services([env("http://loki.monitoring:3100")], "shop", SERVICES, NO_PROXY)
    assert (found.place, found.full_name) == ("env URL", "loki.monitoring.svc")
    assert not list(find_proxied_services([env(f"http://{found.full_name}:3100")], "shop", SERVICES, NO_PROXY))


def test_the_name_to_write_of_a_service_that_leads_outside_is_the_foreign_host() -> None:
    """With `.svc` the request would go around the proxy."""
    services = {("shop", "outside"): "api.example.com"}
    (found,) = find_proxied_services([env("http://outside")], "shop", services, NO_PROXY)
    assert found.full_name == "api.example.com"


@pytest.mark.parametrize("no_proxy", ["*", ".svc,web", "web,loki.monitoring"])
def test_a_list_that_covers_the_name(no_proxy: str) -> None:
    assert not list(find_proxied_services([env("http://web")], "shop", SERVICES, no_proxy))
