"""The profiles predict what was measured, and the page in the docs says how well."""

from collections import Counter

from tests.proxy.clients import corpus, page

from transom.proxy.clients.aliases import ALIASES, find_client
from transom.proxy.clients.client_table import CLIENTS


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
    measured = set(corpus.share_by_client(corpus.rows()))
    assert measured <= {*CLIENTS, *ALIASES}
    assert measured | {ALIASES[name].row for name in measured if name in ALIASES} >= set(CLIENTS)


def test_an_alias_is_no_row_and_has_one():
    assert set(ALIASES).isdisjoint(CLIENTS)
    assert {alias.row for alias in ALIASES.values()} <= set(CLIENTS)
    assert find_client("boto3").passes == CLIENTS["urllib"].passes
    assert find_client("nobody") is None


def test_a_row_says_for_which_versions_it_holds():
    """Two rows of one program hold for different versions; a row that was measured names the version, others say so."""
    seen = Counter((row.title, row.versions, row.language) for row in CLIENTS.values())
    assert [row for row, count in seen.items() if count > 1] == []
    for row in CLIENTS.values():
        assert row.measured or "not measured" in row.note or row.family == "Windows lists", row.name


def test_every_miss_has_its_cause_in_the_docs():
    assert {row["id"] for row in corpus.misses(corpus.rows())} == set(page.MISS_CAUSES)


def test_the_page_is_current():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run: uv run python tests/proxy/clients/page.py"
