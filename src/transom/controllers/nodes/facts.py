"""The facts about the cluster that a future node receives, and the token with which it joins."""

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from transom.controllers.instance_state.view import InstanceView, to_regarding
from transom.controllers.join.cluster_facts import ClusterFacts
from transom.controllers.join.members import OPENSHIFT_BOOTSTRAPPER, OPENSHIFT_TOKEN, Members
from transom.controllers.runtime.cached_objects import HOST_NAME, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.hosts.errors import HostError
from transom.kube.errors import NotFound
from transom.kube.resources import NODES
from transom.proxy.secret import Secret
from transom.windows.payload.payload import BOOTSTRAP_KUBECONFIG, Payload
from transom.windows.payload.variables import find_value, parse_json_path
from transom.windows.payload.worker import Facts


class TokenMissing(HostError):
    """There is nothing by which a host can join."""


class NodeFacts:
    """Created for each pass: a token lasts an hour, and a Node that is Ready needs none."""

    def __init__(self, members: Members, cluster: ClusterFacts) -> None:
        self._members, self._cluster = members, cluster

    def read_facts(self, view: InstanceView, leadership: Leadership) -> Facts:
        """Return the facts of the cluster that are known before the host is connected."""
        takes = view.node.services_to_take_over if view.node is not None else ()
        registries = self._cluster.registries.read()
        for problem in registries.problems:
            leadership.recorder.record_warning(to_regarding(view.cached), "MirrorNotSet", problem)
        return Facts(
            # a host that is a Node has its name
            rename=HOST_NAME in (view.cached.metadata.annotations or {}) and not takes,
            network=self._cluster.network,
            platform=self._cluster.platform,
            variables=self._cluster.build_variables(),
            provided=self._cluster.list_provided_files(),
            registries=registries.registries,
            takes=takes,
        )

    async def add_node_facts(self, facts: Facts, view: InstanceView, node_ip: str, leadership: Leadership) -> Facts:
        """Add the facts of this host: its recorded Node, and the token with which it joins.

        Creates a bootstrap token where the host has to join. Raises ApiError, TokenMissing.
        """
        node, whole = view.node, None
        bootstrap = None
        if node is not None and node.is_ready:
            await self._members.tokens.revoke(view.cached, leadership)
        else:
            bootstrap = self._cluster.build_kubeconfig(await self._ensure_token(view.cached, leadership))
        if node is not None:
            whole = await self._read_node(node, leadership)
        provided = {**facts.provided, BOOTSTRAP_KUBECONFIG: bootstrap}
        return msgspec.structs.replace(facts, node_name=view.identity.name, node_ip=node_ip, node=whole, provided=provided)

    async def read_node_values(self, node: HostNode, payload: Payload, leadership: Leadership) -> tuple[str | None, ...]:
        """Return the Node's current values that variables of the payload name. Raises ApiError."""
        paths = [parse_json_path(variable.node) for variable in payload.variables if variable.node]
        whole = await self._read_node(node, leadership) if paths else None
        return tuple(find_value(whole, path) if whole is not None else None for path in paths)

    @staticmethod
    async def _read_node(node: HostNode, leadership: Leadership) -> Mapping[str, Any] | None:
        with contextlib.suppress(NotFound):
            node_json = await leadership.client.get_json(NODES.build_path(None, node.metadata.name))
            return node_json if node_json.get("metadata", {}).get("uid") == node.metadata.uid else None
        return None

    async def _ensure_token(self, cached: CachedInstance, leadership: Leadership) -> Secret:
        openshift = self._members.openshift_token
        if openshift is not None:
            encoded = (openshift.value.get("data") or {}).get("token")
            if not encoded:
                raise TokenMissing(f"Secret {OPENSHIFT_BOOTSTRAPPER}/{OPENSHIFT_TOKEN} has no `token`: no host can join by it")
            return Secret(base64.b64decode(encoded).decode())
        return (await self._members.tokens.ensure(cached, leadership)).text
