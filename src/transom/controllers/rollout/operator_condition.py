"""OperatorCondition of the Operator Lifecycle Manager: no upgrade of Transom while hosts are being changed.

OLM names the object to the operator's containers by a variable, and gives its ServiceAccount get, update and patch on that one
object (operator-framework/operator-lifecycle-manager v0.46.0, operatorcondition_controller.go). An operator reports in
`spec.conditions` (operator-framework/api v0.45.0, pkg/operators/v2/operatorcondition_types.go).
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import structlog

from transom.common.timestamps import format_timestamp
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import ApiError
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import Resource

_log: Final = structlog.get_logger("transom.olm")
VARIABLE: Final = "OPERATOR_CONDITION_NAME"
"""Of the environment: the name of the object, in the namespace of the operator."""
OPERATOR_CONDITIONS: Final = Resource(
    "operators.coreos.com", "v2", "OperatorCondition", "operatorconditions", True, UnstructuredObject
)
PAUSE: Final = 1.0
"""Seconds between two checks, which send no request."""
AGAIN: Final = 30.0
"""Seconds until what the server did not take is tried again."""


def build_upgradeable_condition(rollouts: Iterable[Rollouts]) -> Condition:
    """Return the condition by which OLM decides whether it may replace the operator with another version."""
    under_way = sorted({rollout.kind.name for rollout in rollouts if rollout.is_active})
    if under_way:
        return Condition("False", "RolloutUnderWay", f"hosts are being changed, or wait for their turn: {', '.join(under_way)}")
    return Condition("True", "NoRollout", "no host is being changed")


async def sync_operator_condition(
    name: str, namespace: str, rollouts: Callable[[], Iterable[Rollouts]], leadership: Leadership, now: Callable[[], datetime]
) -> None:
    """Keep the object's condition right for as long as this is awaited. Raises LeaseLost."""
    last_condition: Condition | None = None
    while True:
        pause = PAUSE
        if (condition := build_upgradeable_condition(rollouts())) != last_condition:
            try:
                await leadership.client.patch(OPERATOR_CONDITIONS, _to_json(condition, now()), name, namespace)
                last_condition = condition
            except ApiError as error:
                _log.warning("OperatorCondition update failed", error=str(error))
                pause = AGAIN
        await asyncio.sleep(pause)


def _to_json(condition: Condition, when: datetime) -> dict[str, Any]:
    words = {"status": condition.status, "reason": condition.reason, "message": condition.message}
    return {"spec": {"conditions": [{"type": "Upgradeable", **words, "lastTransitionTime": format_timestamp(when)}]}}
