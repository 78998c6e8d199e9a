"""The rights that the operator's ServiceAccount lacks: a condition, an event and a log line while requests are refused."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from transom.common.counting import format_first
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import Options
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder, Regarding
from transom.kube.refusals import MissingRight
from transom.kube.resources import LEASES
from transom.proxy.layers import BASE

_log: Final = structlog.get_logger("transom.operator")
_RIGHTS: Final = "RightsMissing"
_LISTED: Final = 5
_MAX_REVIEWS: Final = 20
"""Rights in review at a time."""
_SELF_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class RightsWatch:
    """Reports rights that are missing for long. Standbys report them, too."""

    def __init__(self, client: Client, informers: Informers, options: Options, reports: ConditionAggregator) -> None:
        self._client, self._informers, self._options, self._reports = client, informers, options, reports
        self.missing: tuple[MissingRight, ...] = ()
        """The rights that are reported."""

    async def run(self, recorder: EventRecorder) -> None:
        """Report missing rights until the task is cancelled."""
        while True:
            await asyncio.sleep(self._options.pace.rights / 6)
            missing = await self._list_missing()
            if missing == self.missing and not self._must_clear_status():
                continue
            before, self.missing = self.missing, missing
            added = [item for item in missing if item not in before]
            for right in added:
                _log.warning("right missing", right=str(right))
            if before and not missing:
                _log.info("rights complete")
            message = await self._describe_missing(missing) if missing else ""
            if added:
                regarding = Regarding(LEASES.api_version, LEASES.kind, "transom", self._options.namespace)
                recorder.record_warning(regarding, "RightMissing", message)
            condition = (
                Condition("True", "RightMissing", message)
                if missing
                else Condition("False", "RightsComplete", "the API server refuses no request of the operator")
            )
            self._reports.put("rights", {BASE: {_RIGHTS: condition}})

    def _must_clear_status(self) -> bool:
        """Return True if the status still has what an earlier process, or leader, reported."""
        base = self._informers.egress_proxies.take_snapshot().find_named(BASE)
        conditions = (base.value.get("status") or {}).get("conditions") or () if base is not None else ()
        reported = any((item.get("type"), item.get("status")) == (_RIGHTS, "True") for item in conditions)
        return reported and not self.missing and _RIGHTS not in self._reports.get_conditions(BASE)

    async def _describe_missing(self, missing: Sequence[MissingRight]) -> str:
        account = f"system:serviceaccount:{self._options.namespace}:transom"
        message = f"the API server refuses: {format_first(map(str, missing), _LISTED)}"
        if await self._has_lost_binding():
            message += f". ClusterRoleBinding transom does not bind {account} any more: another install of Transom took it"
        return f"{message}. Apply the manifests of this install again (--part rbac); `transom doctor` lists all missing rights"

    async def _list_missing(self) -> tuple[MissingRight, ...]:
        """Return the rights that are missing for long, after asking the API server whether it grants them by now."""
        refusals = self._client.refusals
        for right in refusals.list_lasting(self._options.pace.rights)[:_MAX_REVIEWS]:
            if await self._is_allowed(
                right.verb, right.group, right.resource, right.namespace, refusals.get_last_refused_name(right)
            ):
                refusals.grant(right)
        return refusals.list_lasting(self._options.pace.rights)

    async def _has_lost_binding(self) -> bool:
        """Return True if rights are missing that every ServiceAccount of ClusterRole transom has."""
        for group, resource in (("", "nodes"), ("transom.dev", "egressproxies")):
            if await self._is_allowed("list", group, resource) is not False:
                return False
        return True

    async def _is_allowed(self, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool | None:
        """Return what the API server says of a right of this process; None if it does not say it."""
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}},
        }
        try:
            body = await self._client.request("POST", _SELF_REVIEWS, None, review)
            return msgspec.json.decode(body, type=_Review).status.allowed
        except (ApiError, msgspec.DecodeError) as error:
            _log.info("own rights not read", error=str(error))
            return None
