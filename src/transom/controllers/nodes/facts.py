"""What a host that is to be a node is told of its cluster, and the token by which it joins."""

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from transom.controllers.instance.view import InstanceView, regarding_of
from transom.controllers.join import OPENSHIFT_BOOTSTRAPPER, OPENSHIFT_TOKEN, Members
from transom.controllers.join.cluster_facts import ClusterFacts
from transom.controllers.runtime.cached import HOST_NAME, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.hosts.errors import HostError
from transom.kube import NotFound
from transom.kube.resources import NODES
from transom.proxy.secret import Secret
from transom.windows.payload import BOOTSTRAP_KUBECONFIG, Payload
from transom.windows.payload.variables import at, json_path
from transom.windows.payload.worker import Facts


class TokenMissing(HostError):
    """There is nothing by which a host can join."""


class NodeFacts:
    """Made anew for each pass: a token lasts an hour, and a Node that is Ready needs none."""

    def __init__(self, members: Members, cluster: ClusterFacts) -> None:
        self._members, self._cluster = members, cluster

    def of(self, case: InstanceView, leadership: Leadership) -> Facts:
        """What is known of the cluster, before its host is connected to."""
        takes = case.node.takes if case.node is not None else ()
        found = self._cluster.registries.read()
        for problem in found.problems:
            leadership.recorder.warning(regarding_of(case.cached), "MirrorNotSet", problem)
        return Facts(
            # a host that is a Node has its name
            rename=HOST_NAME in (case.cached.metadata.annotations or {}) and not takes,
            network=self._cluster.network,
            platform=self._cluster.platform,
            variables=self._cluster.variables(),
            provided=self._cluster.provided(),
            registries=found.registries,
            takes=takes,
        )

    async def joining(self, facts: Facts, case: InstanceView, node_ip: str, leadership: Leadership) -> Facts:
        """The facts with those of this host: its Node, as it was recorded, and the token with which it joins.

        Makes a bootstrap token where the host has to join. Raises ApiError, TokenMissing.
        """
        node, whole = case.node, None
        bootstrap = None
        if node is not None and node.is_ready:
            await self._members.tokens.forget(case.cached, leadership)
        else:
            bootstrap = self._cluster.kubeconfig(await self._token(case.cached, leadership))
        if node is not None:
            whole = await self._whole(node, leadership)
        provided = {**facts.provided, BOOTSTRAP_KUBECONFIG: bootstrap}
        return msgspec.structs.replace(facts, node_name=case.identity.name, node_ip=node_ip, node=whole, provided=provided)

    async def node_values(self, node: HostNode, payload: Payload, leadership: Leadership) -> tuple[str | None, ...]:
        """What the Node says now that variables of the payload name. Raises ApiError."""
        paths = [json_path(variable.node) for variable in payload.variables if variable.node]
        whole = await self._whole(node, leadership) if paths else None
        return tuple(at(whole, path) if whole is not None else None for path in paths)

    @staticmethod
    async def _whole(node: HostNode, leadership: Leadership) -> Mapping[str, Any] | None:
        with contextlib.suppress(NotFound):
            found = await leadership.client.get_json(NODES.path(None, node.metadata.name))
            return found if found.get("metadata", {}).get("uid") == node.metadata.uid else None
        return None

    async def _token(self, cached: CachedInstance, leadership: Leadership) -> Secret:
        openshift = self._members.openshift_token
        if openshift is not None:
            encoded = (openshift.value.get("data") or {}).get("token")
            if not encoded:
                raise TokenMissing(f"Secret {OPENSHIFT_BOOTSTRAPPER}/{OPENSHIFT_TOKEN} has no `token`: no host can join by it")
            return Secret(base64.b64decode(encoded).decode())
        return (await self._members.tokens.ensure(cached, leadership)).text
