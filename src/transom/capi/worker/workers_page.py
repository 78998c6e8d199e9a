"""The tables of `docs/windows-workers.md`: the providers, as their modules have them, and what other projects say.

Each of the latter has its source: repository, version and file.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from transom.capi.check import upstream, upstream_image, upstream_network, upstream_pools
from transom.capi.check.upstream import Fact
from transom.capi.providers.provider import Provider
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker.user_data import UserDataLimit

FACTS: Final[tuple[Fact, ...]] = (
    *upstream.FACTS,
    *(fact for provider in PROVIDERS.values() for fact in provider.facts),
    *upstream_pools.FACTS,
    *upstream_image.FACTS,
    *upstream_network.FACTS,
)
"""All that is relied on of other projects: of workers, of single providers, of pools, of an image's choices, of networks."""
_PROVIDERS: Final = ("<!-- providers: written by scripts/reference -->", "<!-- /providers -->")
_UPSTREAM: Final = ("<!-- what upstream says -->", "<!-- end -->")


def update_workers_page(page: str) -> str:
    """Return the page with both tables between their marks updated."""
    return _replace_between(_replace_between(page, _PROVIDERS, _iter_provider_lines()), _UPSTREAM, _iter_fact_lines())


def _replace_between(page: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    before, _, rest = page.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    table = "\n".join(lines)
    return f"{before}{marks[0]}\n{table}\n{marks[1]}{after}"


def _iter_provider_lines() -> Iterator[str]:
    yield "| `--provider` | platform | maximum size of user data | default image of a worker |"
    yield "|---|---|---|---|"
    yield from map(_format_provider, PROVIDERS.values())


def _format_provider(provider: Provider) -> str:
    image = provider.image or "none: set `--image`"
    return f"| `{provider.name}` | {provider.title} | {_format_limit(provider.limit)} | {image} |"


def _format_limit(limit: UserDataLimit) -> str:
    """Return the limit in bytes and how they are counted: gzipped, in base64, or unchanged."""
    how = [text for counted, text in ((limit.gzip, "gzipped"), (limit.base64, "in base64")) if counted]
    return f"{limit.most:,} bytes{' ' * bool(how)}{', '.join(how)}"


def _iter_fact_lines() -> Iterator[str]:
    yield "| what | value | repository and version | file |"
    yield "|---|---|---|---|"
    for fact in FACTS:
        yield f"| {fact.name} | `{fact.value}` | {fact.repository} `{fact.version[:12]}` | `{fact.file}` |"
