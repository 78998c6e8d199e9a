"""The profiles predict what was measured, and the page in the docs says how well."""

from tests.proxy.clients import corpus, page

from transom.proxy.clients import CLIENTS


def test_predicts_the_measured_cases(record_property):
    rows = corpus.rows()
    held = tuple(row for row in rows if corpus.is_held_out(row))
    seen = tuple(row for row in rows if not corpus.is_held_out(row))
    figures = {"all": corpus.share(rows), "looked at": corpus.share(seen), "held out": corpus.share(held)}
    for name, figure in figures.items():
        record_property(name, f"{figure:.2f}")
        print(f"{name}: {figure:.2f} % predicted")
    assert 0.17 < len(held) / len(rows) < 0.25
    assert min(figures.values()) >= 99.5


def test_predicts_every_client():
    assert {client: share for client, share in corpus.share_by_client(corpus.rows()).items() if share < 97} == {}


def test_every_client_was_measured():
    assert set(corpus.share_by_client(corpus.rows())) == set(CLIENTS)


def test_every_miss_has_its_cause_in_the_docs():
    assert {row["id"] for row in corpus.misses(corpus.rows())} == set(page.MISS_CAUSES)


def test_the_page_is_current():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run: uv run python tests/proxy/clients/page.py"
