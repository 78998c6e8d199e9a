"""What people get wrong of `transom capi`: rows of the same table."""

from collections.abc import Iterator

from tests.cli.wrong_inputs import Row, refused


def _of_capi() -> Iterator[Row]:
    yield refused(
        "capi: previous",
        "capi",
        "worker",
        "--cluster",
        "c",
        "--provider",
        "aws",
        "--previous",
        "{d}/nodir",
        told=("{d}/nodir", "no such file or directory"),
    )
    yield refused(
        "capi: provider", "capi", "worker", "--cluster", "c", "--provider", "awss", told=("--provider", "awss", "aws, azure")
    )
    worker = ("capi", "worker", "--cluster", "c", "--provider", "aws")
    for flag, item, choices in (
        ("--cni", "weave", "calico, flannel or none"),
        ("--daemons", "pods", "hostprocess or services"),
        ("--secret-store", "vault", "secrets-manager or ssm-parameter-store"),
        ("--api-version", "v1", "v1beta1 or v1beta2"),
    ):
        yield refused(f"capi: {flag}", *worker, flag, item, told=(f"{flag}: must be {choices}, not '{item}'",))
    in_file = {"i.yaml": "{cluster: c, provider: aws, cni: weave}"}
    told = ("{d}/i.yaml: cni: must be calico, flannel or none, not 'weave'",)
    yield refused("capi: choice in a file", "capi", "worker", "--inputs", "{d}/i.yaml", files=in_file, told=told)
    nested = {"i.yaml": "{cluster: c, provider: aws, users: [{name: a, groups: 3}]}"}
    told = ("{d}/i.yaml: users[0].groups: Expected `array`", "--schema prints what there is")
    yield refused("capi: type in a file", "capi", "worker", "--inputs", "{d}/i.yaml", files=nested, told=told)
    unknown = {"i.yaml": "{cluster: c, provider: aws, cnis: none}"}
    told = ("{d}/i.yaml: Object contains unknown field `cnis`", "--schema prints what there is")
    yield refused("capi: field that is none", "capi", "worker", "--inputs", "{d}/i.yaml", files=unknown, told=told)
    yield refused("capi: no cluster", "capi", "worker", "--provider", "aws", told=("--cluster is missing",))
    image = ("capi", "image", "--provider", "aws", "--daemons", "pods")
    yield refused("capi image: daemons", *image, told=("--daemons: must be hostprocess or services, not 'pods'",))
    yield refused("capi image: provider", "capi", "image", "--provider", "awss", told=("--provider", "awss", "aws, azure"))


CAPI_ROWS = tuple(_of_capi())
