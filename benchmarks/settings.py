"""Speed of the settings: `uv run python -m benchmarks.settings` prints the figures of benchmarks/README.md, "Settings".

CPU time is of this process (or the child), the least of several runs: other work on the machine only adds to it.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml
from benchmarks.pairs import Pair, alternating, cpu_of
from cryptography import x509
from tests.sources.bad_input import BAD, LIMITED
from tests.support.bundles import certificate, cluster, config_map, egress_proxy, secret, write

from transom.proxy.trust import parse_bundle
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

RUNS = 7
CLUSTERS = 1_000


def least(work: Callable[[], object], runs: int = RUNS) -> float:
    """Seconds of CPU of the fastest run."""
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def fleet(directory: Path) -> str:
    """1,000 clusters, a base with credentials and 20 certificates, three layers that select a part of them each."""
    bundle = "".join(certificate(f"Root {number}") for number in range(20))
    items = ",".join(f"n{number}.corp.example" for number in range(50))
    spec = {
        "httpProxy": "http://p.x:1",
        "httpsProxy": "http://p.x:1",
        "credentialsSecret": {"name": "creds"},
        "clusterSelector": {},
        "trustedCA": {"name": "ca"},
        "noProxy": items,
    }
    layers = [
        egress_proxy({"noProxy": f"l{n}.x", "priority": n, "clusterSelector": {"matchLabels": {"group": str(n)}}}, f"layer-{n}")
        for n in range(3)
    ]
    clusters = [cluster(f"c{number}", {"group": str(number % 5)}) for number in range(CLUSTERS)]
    credentials = secret("creds", stringData={"username": "u", "password": "hunter2%"})
    return write(directory, egress_proxy(spec), *layers, credentials, config_map("ca", {"ca-bundle.crt": bundle}), *clusters)


def pairs() -> Iterator[Pair]:
    """A bundle beside `cryptography` alone; 1,000 clusters beside PyYAML's C loader, which reads the same file."""
    data = "".join(certificate(f"CA {number}") for number in range(150))

    def often(work: Callable[[], object], times: int = 40) -> float:
        return cpu_of(lambda: [work() for _ in range(times)])

    encoded = data.encode()
    yield from alternating(
        "a bundle of 150 certificates",
        lambda: often(lambda: parse_bundle(data)),
        lambda: often(lambda: x509.load_pem_x509_certificates(encoded)),
        rounds=9,
    )
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as place:
        path = fleet(Path(place))
        text = Path(path, "manifests.yaml").read_bytes()
        yield from alternating(
            "settings of 1,000 clusters, read, merged and validated",
            lambda: cpu_of(lambda: examine_objects(load_objects([path]), now)),
            lambda: cpu_of(lambda: list(yaml.load_all(text, yaml.CSafeLoader))),  # the safe one
        )


def child(command: list[str], runs: int = RUNS) -> tuple[float, float]:
    """Seconds on the clock and of CPU of the fastest run of a command."""
    clock, cpu = [], []
    for _ in range(runs):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        clock.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(clock), min(cpu)


def main() -> None:
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "fleet").mkdir()
        path = fleet(directory / "fleet")
        objects = load_objects([path])
        assert not examine_objects(objects, now).errors
        print(f"merge and validate {CLUSTERS:,} clusters: {least(lambda: examine_objects(objects, now)):.3f} s of CPU")
        print(f"the same, files read too: {least(lambda: examine_objects(load_objects([path]), now), 3):.3f} s of CPU")

        bundle = "".join(certificate(f"CA {number}") for number in range(150))
        data = bundle.encode()
        ours, theirs = least(lambda: parse_bundle(bundle), 200), least(lambda: x509.load_pem_x509_certificates(data), 200)
        print(f"150 certificates: {ours * 1e3:.2f} ms, cryptography {theirs * 1e3:.2f} ms, ratio {ours / theirs:.2f}")

        (directory / "one").mkdir()
        spec = {"httpProxy": "http://p.x:1", "noProxy": "a.x", "trustedCA": {"name": "ca"}}
        write(directory / "one", egress_proxy(spec), config_map("ca", {"ca-bundle.crt": certificate("CA")}))

        worst = ("", 0.0)
        (directory / "bad").mkdir()
        write(directory / "bad", egress_proxy({"trustedCA": {"name": "ca"}}))
        idle = child([sys.executable, "-c", LIMITED, str(directory / "one")], 5)[1]
        for bad, (content, _) in BAD.items():
            (directory / "bad" / "bad.yaml").write_bytes(content)
            cpu = child([sys.executable, "-c", LIMITED, str(directory / "bad")], 2)[1]
            worst = max(worst, (bad, cpu), key=lambda entry: entry[1])
        print(f"bad input, the slowest ({worst[0]}): {worst[1]:.2f} s of CPU, of which starting takes {idle:.2f} s")


if __name__ == "__main__":
    main()
