"""The names of a namespace's Services in NO_PROXY of its pods: which there are, and which would exempt public hosts."""

import importlib.resources
import re
from typing import Any

import msgspec
import pytest
from tests.pods.json_patch import applied
from tests.pods.table import decoded, pod_egress

from transom.pods.namespace_services import (
    MAX_CHARACTERS,
    ShortNames,
    add_service_names,
    build_short_names,
    is_public_suffix,
    with_missing_names_warning,
)
from transom.pods.outdated_pods import is_outdated
from transom.pods.patch import build_patch
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.harms import NO_PROXY_CLIENTS
from transom.proxy.no_proxy import is_harmless, split

SERVICES = pod_egress("services")
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {"containers": [{"name": "app", "image": "x"}]},
}


def test_both_forms_and_the_names_alone_first() -> None:
    wanted = ("redis", "web", "redis.shop-a", "web.shop-a")
    assert build_short_names("shop-a", ["web", "redis"]) == ShortNames(wanted)


@pytest.mark.parametrize(
    ("namespace", "service", "items", "public"),
    [
        ("shop-a", "app", ["app.shop-a"], ["app"]),
        ("dev", "api", ["api"], ["api.dev"]),
        ("dev", "app", [], ["app", "app.dev"]),
        ("team", "om", [], ["om", "om.team"]),
        ("shop-a", "db", ["db.shop-a"], ["db"]),
        ("prod-1", "om", ["om.prod-1"], ["om"]),
        ("x", "xn--p1ai", ["xn--p1ai.x"], ["xn--p1ai"]),
        ("default", "kubernetes", ["kubernetes", "kubernetes.default"], []),
    ],
)
def test_what_is_the_end_of_public_names_is_left_out(namespace: str, service: str, items: list[str], public: list[str]) -> None:
    # `db` is the end of names below .imdb
    short = build_short_names(namespace, [service])
    assert (list(short.items), list(short.public), short.excess) == (items, public, ())
    assert [any(name in warning for name in public) for warning in short.iter_warnings()] == [True] * bool(public)


PUBLIC_HOSTS = ("web.app", "example.com", "whatever.dev", "shop.dev", "github.com", "x.prod", "mail.example.org")


@pytest.mark.parametrize("client", NO_PROXY_CLIENTS)
def test_no_client_exempts_a_public_host_by_an_item(client: str) -> None:
    """Those too that read an item as the end of any name: `om` for example.com."""
    for namespace in ("shop-a", "dev", "prod", "default"):
        short = build_short_names(namespace, ["app", "web", "om", "m", "shop", "api", "dev", "org", "rg", "github"])
        for host in PUBLIC_HOSTS:
            assert not decide(CLIENTS[client], f"http://{host}/", ",".join(short.items)).bypass, (host, short.items)


def test_the_items_are_what_a_resolver_completes() -> None:
    short = build_short_names("shop-a", ["web", "repo-server"])
    for client in ("go", "curl", "urllib", "requests", "undici-7", "fabric8", "dotnet"):
        for host in ("web", "repo-server:8081", "web.shop-a:8080"):
            assert decide(CLIENTS[client], f"http://{host}/", ",".join(short.items)).bypass, (client, host)
    assert all(is_harmless(item) for item in short.items)


@pytest.mark.parametrize("name", ["1", "10", "8080-a", "Web", "a.b", "*", "", "a,b", "x" * 64])
def test_names_that_a_client_may_take_for_something_else(name: str) -> None:
    assert build_short_names("shop-a", [name]) == ShortNames()


def test_names_that_the_list_has_already() -> None:
    assert build_short_names("shop-a", ["web", "redis"], "10.0.0.0/8,web,redis.shop-a").items == ("redis", "web.shop-a")


def test_many_services_keep_the_environment_small() -> None:
    services = [f"service-{number:04}" for number in range(2_000)]
    short = build_short_names("shop-a", services)
    text = ",".join(short.items)
    assert MAX_CHARACTERS - 100 < len(text) <= MAX_CHARACTERS
    assert len(short.items) + len(short.excess) == 2 * len(services)
    assert short.items[:2] == ("service-0000", "service-0001")
    (warning,) = short.iter_warnings()
    assert "more" in warning and len(warning) < 500


def test_a_long_list_leaves_less_room() -> None:
    """Windows holds 32,767 characters in one variable."""
    long = ",".join(f"host-{number:05}.corp.example" for number in range(1_250))
    assert len(long) > 29_000
    short = build_short_names("shop-a", [f"service-{number:04}" for number in range(2_000)], long)
    assert len(",".join((long, *short.items))) <= 30_000
    assert short.excess


def test_pods_get_them_and_the_digest_stays() -> None:
    made = add_service_names(SERVICES, "shop", ["web"])
    assert split(made.no_proxy)[-1:] == ("web",)
    assert made.no_proxy_warnings and "web.shop" in made.no_proxy_warnings[-1]
    made = add_service_names(SERVICES, "shop-a", ["web"])
    assert made.no_proxy == f"{SERVICES.no_proxy},web,web.shop-a"
    assert {entry["value"] for pair in made.pairs if pair.name == "NO_PROXY" for entry in (pair.upper, pair.lower)} == {
        made.no_proxy
    }
    assert made.digest == SERVICES.digest != pod_egress("plain").digest
    assert not made.no_proxy_warnings


def test_a_new_service_makes_no_pod_outdated() -> None:
    pod = applied(POD, build_patch(decoded(POD), "shop", {}, add_service_names(SERVICES, "shop", ["web"])).operations)
    today = add_service_names(SERVICES, "shop", ["web", "db"])
    assert not is_outdated(decoded(pod), {}, SERVICES)
    assert not is_outdated(decoded(pod), {}, today)
    # the option itself does
    assert is_outdated(decoded(pod), {}, pod_egress("plain"))


def test_the_patch_of_a_patched_pod_is_empty() -> None:
    made = add_service_names(SERVICES, "shop-a", ["web", "db"])
    pod = applied(POD, build_patch(decoded(POD), "shop-a", {}, made).operations)
    assert build_patch(decoded(pod), "shop-a", {}, made).operations == ()


@pytest.mark.parametrize("settings", ["plain", "star", "trust-alone", "none", "withheld"])
def test_settings_without_the_option_or_a_list_are_unchanged(settings: str) -> None:
    made = pod_egress(settings)
    assert add_service_names(made, "shop-a", ["web"]) is made
    assert with_missing_names_warning(made, "refused") is made


def test_the_option_with_a_list_that_is_everything() -> None:
    star = msgspec.structs.replace(pod_egress("star"), service_names=True)
    assert add_service_names(star, "shop-a", ["web"]) is star


def test_services_that_may_not_be_read_are_a_warning_at_each_pod() -> None:
    made = build_patch(decoded(POD), "shop", {}, with_missing_names_warning(SERVICES, "services is forbidden"))
    assert [warning for warning in made.warnings if "services is forbidden" in warning]


def test_the_domains_are_those_of_iana() -> None:
    text = (importlib.resources.files("transom.pods") / "top_level_domains.txt").read_text("ascii")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    domains = [line for line in text.splitlines() if not line.startswith("#")]
    assert "data.iana.org/TLD/tlds-alpha-by-domain.txt" in comments[0]
    assert domains == sorted(set(domains))
    assert 1_300 < len(domains) < 2_000
    assert all(re.fullmatch(r"[a-z]{2,63}|xn--[a-z0-9-]+", domain) for domain in domains)
    assert {"com", "org", "app", "dev", "uk", "de", "xn--p1ai"} <= set(domains)
    # names that RFC 2606 and RFC 6762 reserve, and what people call their own domains
    assert not {"local", "internal", "test", "example", "invalid", "localhost", "corp", "svc", "lan"} & set(domains)
    assert not is_public_suffix("monitoring") and not is_public_suffix("a.default")
