import pytest

from transom.windows.nodes.skew import refusal, warning


@pytest.mark.parametrize(
    ("kubelet", "server", "said"),
    [
        ("v1.36.3", "v1.36.3", None),
        ("v1.36.9", "v1.36.3", None),
        ("v1.33.0", "v1.36.3", None),
        ("v1.32.9", "v1.36.3", "older"),
        ("v1.37.0", "v1.36.3", "newer"),
        ("v1.36.3", "v1.36.3+k3s1", None),
        ("nonsense", "v1.36.3", "cannot be read"),
        ("v1.36.3", "nonsense", None),
    ],
)
def test_skew(kubelet: str, server: str, said: str | None) -> None:
    found = refusal(kubelet, server)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


def test_another_minor_version_than_the_linux_nodes_is_a_warning() -> None:
    assert warning("v1.36.3", set()) is None
    assert warning("v1.36.3", {"v1.36.1", "v1.35.0"}) is None
    assert "1.34, 1.35" in (warning("v1.36.3", {"v1.34.1", "v1.35.0"}) or "")
