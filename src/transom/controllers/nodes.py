"""Instances of lifecycle Node to nodes: a host that has nothing but SSH becomes a worker, and stays one."""

from typing import ClassVar

from transom.controllers.controller import Outcome, Surroundings
from transom.controllers.kept import HostNode
from transom.controllers.status import Verdict, Verdicts
from transom.controllers.term import Term
from transom.controllers.windows import Case, WindowsController
from transom.hosts.passes import PassResult
from transom.windows.instance import Lifecycle


class NodesController(WindowsController):
    """What `WindowsController` does for a host, and everything else that makes it a node."""

    lifecycle: ClassVar[Lifecycle] = "Node"

    def __init__(self, on: Surroundings) -> None:
        super().__init__(on.watched, on.settings, pace=on.options.pace, observe=on.observe, now=on.now)
        self._members = on.members

    async def _conclude(
        self,
        case: Case,
        node: HostNode | None,
        found: PassResult,
        verdicts: Verdicts,
        fields: dict[str, str | None],
        term: Term,
    ) -> Outcome:
        if found.error is None:
            verdicts["Configured"] = Verdict(
                "False", "PayloadMissing", "there is no payload to install: run `transom run` with --payload DIR"
            )
        return await super()._conclude(case, node, found, verdicts, fields, term)
