"""What pages link to outside the repository: one list, to hosts that are known; `scripts/audit --links` asks for them."""

import http.server
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from website.links import check_links, find_external_links, report

HOSTS = {
    "argo-cd.readthedocs.io",
    "developer.hashicorp.com",
    "docs.astral.sh",
    "docs.pypi.org",
    "docs.redhat.com",
    "docs.sigstore.dev",
    "docs.tigera.io",
    "etcd.io",
    "external-secrets.io",
    "fluxcd.io",
    "github.com",
    "keepachangelog.com",
    "kubernetes.io",
    "learn.microsoft.com",
    "semver.org",
}
"""Publishers of what is said there: a page of anybody else's is no source."""


def test_each_link_is_to_a_known_host_in_the_form_that_lasts() -> None:
    links = {link: urllib.parse.urlsplit(link) for link in find_external_links()}
    assert len(links) > 30
    assert {link.netloc for link in links.values()} == HOSTS
    wrong = [
        link
        for link, item in links.items()
        if item.scheme != "https"
        or item.query
        or not link.isascii()
        # Microsoft chooses the reader's language where none is named
        or item.path.startswith("/en-us/")
        # a line of a branch is another line next week
        or (item.netloc == "github.com" and item.fragment.startswith("L"))
    ]
    assert wrong == []


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/there" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_what_is_gone_is_told_with_the_page_that_links_to_it(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "a.md"
    page.write_text(f"[there]({server}/there#part) `{server}/code`\n\n```\n{server}/block\n```\n\n    {server}/indented\n")
    links = find_external_links(tmp_path)
    assert links == {f"{server}/there#part": ["docs/a.md"]}
    assert report(links, check_links(links)) == 0
    page.write_text(f"Gone: {server}/gone, and {server}/there.")
    assert report(find_external_links(tmp_path), check_links(find_external_links(tmp_path))) == 1
    assert capsys.readouterr().out == f"404: {server}/gone (docs/a.md)\n"
    page.write_text("Nobody: http://127.0.0.1:1/x")
    assert report(find_external_links(tmp_path), check_links(find_external_links(tmp_path))) == 3
