"""What a part of a host is: a module with these functions, which `ledger.PARTS` names.

No part knows another. What one of them finds and another one, or the plan, has to heed goes through the `PlanBuilder`.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from transom.proxy.settings import Egress
from transom.windows.host.host_state import DesiredState
from transom.windows.host.queries import Queries
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.registry import Registry

Entry = TypeVar("Entry")
"""The ledger's entry for a part: true if it has values of Transom's, or pending ones."""


class Assumption(msgspec.Struct, frozen=True):
    """An unverified assumption of a part about Windows; `check` is a one-line test for a real machine."""

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
        """Read the entry from a host's ledger. Raises LedgerError."""
        ...

    def iter_ledger_values(self, entry: Entry, /) -> Iterable[SetValue]:
        """Yield the entry as values below the ledger's key, first those that an interrupted import must have written."""
        ...

    def build_follow_up_queries(self, entry: Entry, draft: PlanBuilder, /) -> Queries:
        """Build the queries that the draft also depends on; called once every part has planned."""
        ...

    def plan(self, entry: Entry, draft: PlanBuilder, /) -> Entry:
        """Add the steps to the desired state to the draft, and returns the new entry of the ledger."""
        ...


class Setting(Part[Entry], Protocol[Entry]):
    """A part that the egress settings configure."""

    ABOUT: About

    def iter_desired_edits(self, egress: Egress, /) -> Iterable[Edit]:
        """Yield the registry values that the settings require; none if they do not use this part."""
        ...

    def build_initial_queries(self, desired: DesiredState, /, *, change_expected: bool) -> Queries:
        """Build the queries that show whether this part of a host is as desired."""
        ...
