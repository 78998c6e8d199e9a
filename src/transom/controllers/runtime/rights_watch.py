"""Requests that fail for long: a condition, an event, a log line and a note on the lease while it lasts.

A right that the operator's ServiceAccount lacks is one cause; a quota, an admission webhook of others, or a namespace that is
being deleted is another. A kind that cannot be read leaves the operator with the objects of before.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from transom.common.counting import format_first
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.lease_annotations import FAILED_READS, MISSING_RIGHTS, REFUSED_WRITES
from transom.controllers.runtime.options import Options
from transom.kube.client import Client
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder, Regarding
from transom.kube.refusals import MissingRight
from transom.kube.refused_writes import RefusedWrite
from transom.kube.resources import LEASES
from transom.kube.watch_failures import FailedRead
from transom.proxy.layers import BASE

_log: Final = structlog.get_logger("transom.operator")
_RIGHTS: Final = "RightsMissing"
_WRITES: Final = "WritesRefused"
_READS: Final = "ReadsFailed"
_LISTED: Final = 5
_NOTED: Final = 100
"""Missing rights that the lease names."""
_MAX_REVIEWS: Final = 50
"""Rights that one round reviews; the next round continues with the others."""
_SELF_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _format_several(items: Sequence[object]) -> str:
    return format_first(map(str, items), _LISTED, "; ")


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class RightsWatch:
    """Reports rights that are missing, writes that are refused, and reads that fail for long. Standbys report them, too.

    `retry` is called when the server grants a right, or admits a write, that it refused.
    """

    def __init__(
        self,
        client: Client,
        informers: Informers,
        options: Options,
        reports: ConditionAggregator,
        retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._informers, self._options, self._reports = client, informers, options, reports
        self._retry = retry
        self._reviewed = 0
        self.missing: tuple[MissingRight, ...] = ()
        """The rights that are reported."""
        self.refused: tuple[RefusedWrite, ...] = ()
        """The writes that are reported."""
        self.unread: tuple[FailedRead, ...] = ()
        """The kinds that are reported because the server does not return them."""

    @property
    def lease_annotations(self) -> Mapping[str, str]:
        """What the leader notes on its lease, which it can write even if the server refuses statuses and events."""
        notes = {
            MISSING_RIGHTS: "; ".join(map(str, self.missing[:_NOTED])),
            REFUSED_WRITES: _format_several(self.refused),
            FAILED_READS: _format_several(self.unread),
        }
        return {name: text for name, text in notes.items() if text}

    async def run(self, recorder: EventRecorder) -> None:
        """Report missing rights, refused writes and failed reads until the task is cancelled."""
        while True:
            await asyncio.sleep(self._options.pace.rights / 6)
            missing, refused, unread = await self._list_missing(), self._list_refused(), self._list_unread()
            before = (self.missing, self.refused, self.unread)
            if (missing, refused, unread) == before and not self._must_clear_status():
                continue
            self.missing, self.refused, self.unread = missing, refused, unread
            rights = await self._describe_missing(missing) if missing else ""
            writes = f"the API server refuses writes: {_format_several(refused)}" if refused else ""
            reads = f"the operator cannot read, and works with older objects: {_format_several(unread)}" if unread else ""
            self._report_new_problems("right missing", "RightMissing", rights, before[0], missing, recorder)
            self._report_new_problems("write refused", "WriteRefused", writes, before[1], refused, recorder)
            # the log has them already (`cannot follow`)
            self._report_new_problems("", "ReadFailed", reads, before[2], unread, recorder)
            conditions = {
                _RIGHTS: Condition("True", "RightMissing", rights)
                if rights
                else Condition("False", "RightsComplete", "the API server refuses no request of the operator"),
                _WRITES: Condition("True", "WriteRefused", writes)
                if writes
                else Condition("False", "WritesAccepted", "the API server accepts the operator's writes"),
                _READS: Condition("True", "ReadFailed", reads)
                if reads
                else Condition("False", "ReadsSucceed", "the operator reads all kinds"),
            }
            self._reports.set_conditions("rights", {BASE: conditions})
            if before[1] and set(before[1]) - set(refused):
                self._retry()

    def _report_new_problems(
        self,
        log_event: str,
        reason: str,
        message: str,
        before: Sequence[object],
        now: Sequence[object],
        recorder: EventRecorder,
    ) -> None:
        """Log what was added, and record one event about it."""
        added = [item for item in now if item not in before]
        if log_event:
            for item in added:
                _log.warning(log_event, request=str(item))
            if before and not now:
                _log.info(f"{log_event} no more")
        if added:
            regarding = Regarding(LEASES.api_version, LEASES.kind, "transom", self._options.namespace)
            recorder.record_warning(regarding, reason, message)

    def _must_clear_status(self) -> bool:
        """Return True if the status still has what an earlier process, or leader, reported."""
        base = self._informers.egress_proxies.take_snapshot().find_named(BASE)
        conditions = (base.value.get("status") or {}).get("conditions") or () if base is not None else ()
        reported = {item.get("type") for item in conditions if item.get("status") == "True"}
        ours = self._reports.get_conditions(BASE)
        return any(
            type_ in reported and not lasting and type_ not in ours
            for type_, lasting in ((_RIGHTS, self.missing), (_WRITES, self.refused), (_READS, self.unread))
        )

    def _list_refused(self) -> tuple[RefusedWrite, ...]:
        """Return the writes that are refused for long. A write that is reported already keeps its reason, which may count."""
        reported = {(item.namespace, item.resource, item.verb): item for item in self.refused}
        lasting = self._client.refused_writes.list_lasting(self._options.pace.rights)
        return tuple(reported.get((item.namespace, item.resource, item.verb), item) for item in lasting)

    def _list_unread(self) -> tuple[FailedRead, ...]:
        """Return the kinds that cannot be read for long. One that is reported already keeps its reason, which may count."""
        reported = {item.kind: item for item in self.unread}
        lasting = self._client.watch_failures.list_lasting(self._options.pace.rights)
        return tuple(reported.get(item.kind, item) for item in lasting)

    async def _describe_missing(self, missing: Sequence[MissingRight]) -> str:
        account = f"system:serviceaccount:{self._options.namespace}:transom"
        message = f"the API server refuses: {format_first(map(str, missing), _LISTED)}"
        if await self._has_lost_binding():
            message += f". ClusterRoleBinding transom does not bind {account} any more: another install of Transom took it"
        return f"{message}. Apply the manifests of this install again (--part rbac); `transom doctor` lists all missing rights"

    async def _list_missing(self) -> tuple[MissingRight, ...]:
        """Return the rights that are missing for long, after asking the API server whether it grants them by now."""
        refusals = self._client.refusals
        granted = False
        # also those that are not reported yet: keys and kinds that failed meanwhile wait up to minutes for their next try
        due = refusals.list_lasting(self._options.pace.rights / 6)
        start = self._reviewed % len(due) if len(due) > _MAX_REVIEWS else 0
        self._reviewed += _MAX_REVIEWS
        for right in (*due[start:], *due[:start])[:_MAX_REVIEWS]:
            if await self._is_allowed(
                right.verb, right.group, right.resource, right.namespace, refusals.get_last_refused_name(right)
            ):
                refusals.forget_granted_right(right)
                granted = True
        if granted or any(right not in refusals for right in self.missing):
            self._retry()
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
