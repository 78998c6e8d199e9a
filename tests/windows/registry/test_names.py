"""Names that Windows compares without case."""

import pytest

from transom.windows.registry.names import FoldedDict, is_listed, is_same, is_within, is_within_any, without_names


def test_a_name_is_found_in_any_spelling_and_given_as_it_was_spelled_last() -> None:
    named = FoldedDict({"Kubelet": 1, "containerd": 2})
    assert named["KUBELET"] == 1 and "kubelet" in named and named.get("csi") is None
    named["KUBELET"] = 3
    assert dict(named) == {"containerd": 2, "KUBELET": 3}
    assert named.pop("Containerd") == 2 and len(named) == 1


def test_names_alone() -> None:
    assert r"C:\K" in FoldedDict.from_names([r"c:\k"])
    assert r"C:\K" not in FoldedDict.from_names([])


@pytest.mark.parametrize(
    ("path", "above", "lies"),
    [
        (r"C:\K\a.exe", r"c:\k", True),
        (r"C:\k", r"C:\K", True),
        (r"C:\kube", r"C:\k", False),
        (r"C:\k", r"C:\k\a", False),
        ("C:", r"C:\k", False),
    ],
)
def test_a_path_lies_within_itself_and_what_is_above_it(path: str, above: str, lies: bool) -> None:
    assert is_within(path, above) is lies
    assert is_within_any(path, FoldedDict.from_names([r"D:\other", above])) is lies


def test_names_are_compared_without_case() -> None:
    assert is_same("Kubelet", "KUBELET") and not is_same("kubelet", "kubelet ")
    assert is_listed("KUBELET", ["csi", "kubelet"]) and not is_listed("kube", ["kubelet"])
    assert without_names(["Kubelet", "CSI"], ["kubelet", "x"]) == ("CSI",)
