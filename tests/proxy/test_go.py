"""Real Go reads proxy URLs as we do: net/url and golang.org/x/net/http/httpproxy, on 2,000 drawn URLs."""

import base64
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from transom.proxy import no_proxy, proxy_url
from transom.proxy.secret import Secret
from transom.proxy.url import URL, InvalidURL, parse

pytestmark = pytest.mark.lab

DRAWN = 2_000
SCHEMES = (
    "http://",
    "https://",
    "HTTP://",
    "socks5://",
    "http:",
    "http:/",
    "//",
    "",
    "1http://",
    "ht tp://",
    "://",
    "http:///",
)
USERS = ("", "u", "user.name", "DOM%5Cuser", "a:b", "u^", "é", "%41", "%zz", "%", "u v", "u/", "u@v", "u;v")
PASSWORDS = (
    "hunter2",
    "hunter2%25",
    "hunter2%",
    "hunter2#x",
    "hunter2/x",
    "hunter2?x",
    "hunter2@x",
    "hunter2é",
    "",
    "h:2",
    "[",
    "]",
)
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t\x7fé"
HOSTS = (
    "p.x",
    "10.0.0.1",
    "[2001:db8::1]",
    "2001:db8::1",
    "[fe80::1%25eth0]",
    "[::ffff:10.0.0.1]",
    "[10.0.0.1]",
    "",
    "p_x",
    "é.x",
)
HOSTS += (
    "p%41x",
    "p%C3%A9x",
    "p x",
    "p<x>",
    'p"x',
    "[p.x]",
    "[",
    "[::1",
    "::1]",
    "p.x,q.x",
    "p\\x",
    "p|x",
    "xn--p.x",
    "[::1]x",
    "p^x",
)
PORTS = ("", ":3128", ":", ":0", ":65536", ":abc", ":-1", ":80:80", ":٣", ":%31")
ENDS = ("", "/", "/path?q=1", "?q", "?", "#f", "/%zz", "/a b", "/%41#x", "*")


def drawn() -> list[str]:
    """The same URLs each time: three of four put together of parts that matter, the others with a character anywhere."""
    choose = random.Random(20261121)
    urls: dict[str, None] = {}
    while len(urls) < DRAWN:
        scheme = choose.choice(SCHEMES if choose.random() < 0.2 else SCHEMES[:2])
        user = choose.choice(USERS) + (":" + choose.choice(PASSWORDS) if choose.random() < 0.7 else "")
        userinfo = user + "@" if choose.random() < 0.7 else ""
        port = choose.choice(PORTS if choose.random() < 0.4 else PORTS[:3])
        url = (
            scheme
            + userinfo
            + choose.choice(HOSTS if choose.random() < 0.5 else HOSTS[:3])
            + port
            + choose.choice(ENDS if choose.random() < 0.3 else ENDS[:2])
        )
        if choose.random() < 0.25:
            at = choose.randrange(len(url) + 1)
            url = url[:at] + choose.choice(PUNCTUATION) + url[at:]
        urls.setdefault(url)
    return list(urls)


ADDRESSES = (
    "10.0.0.1",
    "10.0.0.256",
    "010.0.0.1",
    "10.0.0",
    "2001:db8::1",
    "::",
    "::ffff:10.0.0.1",
    "fe80::1%eth0",
    "1::2::3",
    "",
)
ADDRESSES += (
    "10.0.0.1.",
    "0x0a.0.0.1",
    "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7::",
    "::1.2.3",
    "12345::",
    "[::1]",
    "١.1.1.1",
    "0.0.0.0",
)
LENGTHS = (
    "",
    "/",
    "/0",
    "/8",
    "/08",
    "/32",
    "/33",
    "/128",
    "/129",
    "/-1",
    "/+8",
    "/8x",
    "/٨",
    "/255.0.0.0",
    "/8/8",
    "/1000000000",
)


def items() -> list[str]:
    """Addresses and CIDRs: each with each, and each with a character put in somewhere."""
    choose = random.Random(20261121)
    drawn = dict.fromkeys(address + length for address in ADDRESSES for length in LENGTHS)
    while len(drawn) < DRAWN:
        item = choose.choice(ADDRESSES) + choose.choice(LENGTHS)
        at = choose.randrange(len(item) + 1)
        drawn.setdefault(item[:at] + choose.choice("0123456789abf:./%- ") + item[at + choose.randrange(2) :])
    return list(drawn)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("go") / "proxyurl"
    subprocess.run(["go", "build", "-o", str(built), "."], cwd=Path(__file__).parent / "go", check=True)
    return built


def asked(program: Path, questions: list[dict[str, str]]) -> list[Any]:
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    result = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def answers(program: Path) -> list[tuple[str, dict[str, Any]]]:
    urls = drawn()
    return list(zip(urls, asked(program, [{"url": url} for url in urls]), strict=True))


def test_addresses_and_cidrs(program: Path) -> None:
    texts = items()
    said = asked(program, [{"item": item} for item in texts])
    ours = [{"ip": no_proxy.is_ip(item), "cidr": no_proxy.is_cidr(item)} for item in texts]
    assert [(text, mine, gos) for text, mine, gos in zip(texts, ours, said, strict=True) if mine != gos] == []


def ours(url: URL) -> dict[str, Any]:
    def encoded(text: str | None) -> str | None:
        return None if text is None else base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()

    def revealed(secret: Secret | None) -> str | None:
        return None if secret is None else secret.reveal()

    return {
        "scheme": url.scheme,
        "host": encoded(url.host),
        "port": url.port,
        "username": encoded(revealed(url.username)),
        "password": encoded(revealed(url.password)),
        "has_user": url.username is not None,
    }


def test_net_url_parses_as_we_do(answers: list[tuple[str, dict[str, Any]]]) -> None:
    assert len(answers) == DRAWN
    differ = []
    for text, answer in answers:
        try:
            mine = ours(parse(text))
        except InvalidURL:
            mine = None
        if mine != answer["parsed"]:
            differ.append((text, mine, answer["parsed"]))
    assert not differ
    refused = sum(answer["parsed"] is None for _, answer in answers)
    assert 200 < refused < 1_800, "the drawn URLs are to have both kinds"


def test_httpproxy_uses_what_we_take_and_nothing_else_of_it(answers: list[tuple[str, dict[str, Any]]]) -> None:
    valid = [(text, answer["proxy"]) for text, answer in answers if not proxy_url.list_url_faults(text, ("http", "https"))]
    assert len(valid) > 200
    assert [(text, proxy) for text, proxy in valid if proxy != ours(parse(text))] == []
