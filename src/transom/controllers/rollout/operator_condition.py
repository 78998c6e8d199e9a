"""OperatorCondition of the Operator Lifecycle Manager: no upgrade of Transom while hosts are being changed.

OLM names the object to the operator's containers by a variable, and gives its ServiceAccount get, update and patch on that one
object (operator-framework/operator-lifecycle-manager v0.46.0, operatorcondition_controller.go). What an operator says stands in
`spec.conditions` (operator-framework/api v0.45.0, pkg/operators/v2/operatorcondition_types.go).
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import structlog

from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.conditions import Condition, timestamp
from transom.controllers.runtime.controller import Leadership
from transom.kube import ApiError
from transom.kube.objects import Whole
from transom.kube.resources import Resource

_log: Final = structlog.get_logger("transom.olm")
VARIABLE: Final = "OPERATOR_CONDITION_NAME"
"""Of the environment: the name of the object, in the namespace of the operator."""
OPERATOR_CONDITIONS: Final = Resource("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions", True, Whole)
PAUSE: Final = 1.0
"""Seconds between two looks, which ask nobody."""
AGAIN: Final = 30.0
"""Seconds until what the server did not take is tried again."""


def upgradeable(rollouts: Iterable[Rollouts]) -> Condition:
    """Whether OLM may put another version into the operator's place."""
    under_way = sorted({one.subject.kind for one in rollouts if one.under_way})
    if under_way:
        return Condition("False", "RolloutUnderWay", f"hosts are being changed, or wait for their turn: {', '.join(under_way)}")
    return Condition("True", "NoRollout", "no host is being changed")


async def tell(
    name: str, namespace: str, rollouts: Callable[[], Iterable[Rollouts]], leadership: Leadership, now: Callable[[], datetime]
) -> None:
    """Keep the object's condition right for as long as this is awaited. Raises LeaseLost."""
    said: Condition | None = None
    while True:
        pause = PAUSE
        if (condition := upgradeable(rollouts())) != said:
            try:
                await leadership.client.patch(OPERATOR_CONDITIONS, _written(condition, now()), name, namespace)
                said = condition
            except ApiError as error:
                _log.warning("OLM was not told whether an upgrade may come", error=str(error))
                pause = AGAIN
        await asyncio.sleep(pause)


def _written(condition: Condition, when: datetime) -> dict[str, Any]:
    words = {"status": condition.status, "reason": condition.reason, "message": condition.message}
    return {"spec": {"conditions": [{"type": "Upgradeable", **words, "lastTransitionTime": timestamp(when)}]}}
