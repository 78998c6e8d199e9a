"""Dependants and the order of stopping, as tables."""

import pytest

from transom.windows.parts.restarts import list_dependants, sort_for_start, sort_for_stop

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
    assert set(list_dependants(names, NEEDS)) == found


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
    assert sort_for_stop(names, NEEDS) == order


def test_a_cycle_keeps_the_given_order() -> None:
    assert sort_for_stop(["a", "b"], {"a": ("b",), "b": ("a",)}) == ("a", "b")


def test_a_chain_of_any_length_has_an_order() -> None:
    chain = {f"s{number}": (f"s{number - 1}",) for number in range(1, 20_000)}
    names = tuple(chain)
    assert list_dependants(("S0",), chain) == names
    assert sort_for_start(reversed(names), chain) == names
    assert sort_for_stop(names, chain) == names[::-1]
