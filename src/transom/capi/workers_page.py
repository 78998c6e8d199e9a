"""The tables of `docs/windows-workers.md`: the providers, as their modules have them, and what other projects say.

Each of the latter stands there with its source: repository, version and file.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from transom.capi import upstream, upstream_image, upstream_pools
from transom.capi.providers import PROVIDERS
from transom.capi.providers.provider import Provider
from transom.capi.upstream import Fact
from transom.capi.user_data import UserDataLimit

FACTS: Final[tuple[Fact, ...]] = (
    *upstream.FACTS,
    *(fact for provider in PROVIDERS.values() for fact in provider.facts),
    *upstream_pools.FACTS,
    *upstream_image.FACTS,
)
"""All that is relied on of other projects: of workers, of single providers, of pools, of an image's choices."""
_PROVIDERS: Final = ("<!-- providers: written by scripts/reference -->", "<!-- /providers -->")
_UPSTREAM: Final = ("<!-- what upstream says -->", "<!-- end -->")


def page_with_tables(page: str) -> str:
    """The page with both tables between their marks written anew."""
    return _between(_between(page, _PROVIDERS, _providers()), _UPSTREAM, _facts())


def _between(page: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    before, _, rest = page.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    table = "\n".join(lines)
    return f"{before}{marks[0]}\n{table}\n{marks[1]}{after}"


def _providers() -> Iterator[str]:
    yield "| `--provider` | of | user data is at most | the worker's image, where you give none |"
    yield "|---|---|---|---|"
    yield from map(_provider, PROVIDERS.values())


def _provider(one: Provider) -> str:
    image = one.image or "none: give `--image`"
    return f"| `{one.name}` | {one.title} | {_limit(one.limit)} | {image} |"


def _limit(limit: UserDataLimit) -> str:
    """As bytes, and as what they are counted: gzipped, in base64, or as they are."""
    how = [text for counted, text in ((limit.gzip, "gzipped"), (limit.base64, "in base64")) if counted]
    return f"{limit.most:,} bytes{' ' * bool(how)}{', '.join(how)}"


def _facts() -> Iterator[str]:
    yield "| what | value | repository and version | file |"
    yield "|---|---|---|---|"
    for fact in FACTS:
        yield f"| {fact.name} | `{fact.value}` | {fact.repository} `{fact.version[:12]}` | `{fact.file}` |"
