"""Names that Windows compares without case."""

from transom.windows.registry.names import FoldedDict


def test_a_name_is_found_in_any_spelling_and_given_as_it_was_spelled_last() -> None:
    named = FoldedDict({"Kubelet": 1, "containerd": 2})
    assert named["KUBELET"] == 1 and "kubelet" in named and named.get("csi") is None
    named["KUBELET"] = 3
    assert dict(named) == {"containerd": 2, "KUBELET": 3}
    assert named.pop("Containerd") == 2 and len(named) == 1


def test_names_alone() -> None:
    assert r"C:\K" in FoldedDict.of([r"c:\k"])
    assert r"C:\K" not in FoldedDict.of([])
