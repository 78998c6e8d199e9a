"""Dependants and the order of stopping, as tables."""

import pytest

from transom.windows.restarts import dependants, stop_order

NEEDS = {"kubelet": ("containerd",), "containerd": (), "kube-proxy": ("KUBELET", "+NetGroup"), "log": ("kubelet",), "other": ()}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["containerd"], {"kubelet", "kube-proxy", "log"}),
        (["Containerd"], {"kubelet", "kube-proxy", "log"}),
        (["kubelet"], {"kube-proxy", "log"}),
        (["other"], set()),
        (["containerd", "kubelet"], {"kube-proxy", "log"}),
        ([], set()),
    ],
)
def test_dependants(names: list[str], found: set[str]) -> None:
    assert set(dependants(names, NEEDS)) == found


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["containerd", "kubelet"], ("kubelet", "containerd")),
        (["kube-proxy", "containerd", "kubelet"], ("kube-proxy", "kubelet", "containerd")),
        (["containerd"], ("containerd",)),
        ([], ()),
    ],
)
def test_stop_order(names: list[str], order: tuple[str, ...]) -> None:
    assert stop_order(names, NEEDS) == order


def test_a_cycle_keeps_the_given_order() -> None:
    assert stop_order(["a", "b"], {"a": ("b",), "b": ("a",)}) == ("a", "b")
