"""What a part of a host is: a module with these functions, which `ledger.PARTS` names.

No part knows another. What one of them finds and another one, or the plan, has to heed goes through the `PlanBuilder`.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from transom.proxy.settings import Egress
from transom.windows.host import DesiredState
from transom.windows.host.queries import Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry import Registry
from transom.windows.registry.edits import Edit, SetValue

Entry = TypeVar("Entry")
"""What the ledger has of a part: true where there is something of Transom's, or owed."""


class Assumption(msgspec.Struct, frozen=True):
    """What a part takes for granted of Windows and nobody has seen there; `check` is one line for a real machine."""

    claim: str
    source: str
    check: str


class About(msgspec.Struct, frozen=True):
    """What the pages of `docs` say of a part, as Markdown: where on a host it writes, what, and who can read it there."""

    place: str
    content: str
    readers: str
    assumptions: tuple[Assumption, ...] = ()


class Part(Protocol[Entry]):
    """What is asked, planned and recorded of a part."""

    def read(self, registry: Registry, /) -> Entry:
        """The entry in the ledger of a host. Raises LedgerError."""
        ...

    def lines(self, entry: Entry, /) -> Iterable[SetValue]:
        """The entry as values below the ledger's key, those first that have to be there when an import is cut short."""
        ...

    def more(self, entry: Entry, draft: PlanBuilder, /) -> Queries:
        """What has to be read as well before the draft can be relied on: asked once every part has planned."""
        ...

    def plan(self, entry: Entry, draft: PlanBuilder, /) -> Entry:
        """Enters into the draft what brings the host to what is wanted, and gives what the ledger has to say then."""
        ...


class Setting(Part[Entry], Protocol[Entry]):
    """A part that the egress settings speak of."""

    ABOUT: About

    def wish(self, egress: Egress, /) -> Iterable[Edit]:
        """The registry values that the settings ask for; nothing where they do not ask for it."""
        ...

    def asks(self, desired: DesiredState, /, *, change_expected: bool) -> Queries:
        """What has to be read of it to see whether a host is as desired."""
        ...
