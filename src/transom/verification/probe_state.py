"""The state of a cluster with the objects of a verification, the questions to it, and the answers."""

import msgspec

from transom.verification.objects import HOST, REBOOT, STORE, Node


class ProbePod(msgspec.Struct, frozen=True):
    """A pod of the verification, as it stood when all were awaited. `waiting` is why its container does not run."""

    name: str
    node: str
    os: str
    address: str = ""
    ready: bool = False
    image_id: str = ""
    waiting: str = ""
    app: str = ""
    """What it is for: a HostProcess pod is `host` or `reboot`, one with volumes `store`, others are web servers."""
    container_id: str = ""
    """Of its container, which is another one after each start."""

    @property
    def serves(self) -> bool:
        """Whether it is a web server."""
        return self.app not in (HOST, REBOOT, STORE)

    @property
    def runs(self) -> bool:
        """Whether there is a container that can be asked."""
        return bool(self.image_id) and not self.waiting


class ProbeService(msgspec.Struct, frozen=True):
    """A Service. `public` is the address that a load balancer gave it."""

    name: str
    address: str = ""
    public: str = ""
    node_port: int = 0


class ProbeState(msgspec.Struct, frozen=True):
    """The cluster, once pods and Services have come as far as they came."""

    nodes: tuple[Node, ...]
    pods: tuple[ProbePod, ...] = ()
    services: tuple[ProbeService, ...] = ()
    load_balancer: bool = False
    egress: str = ""
    direct: str = ""
    node_port: bool = False
    host_process: bool = False

    @property
    def windows(self) -> tuple[ProbePod, ...]:
        """The web servers of Windows nodes."""
        return tuple(pod for pod in self.pods if pod.os == "windows" and pod.serves)

    def list_pods(self, app: str) -> tuple[ProbePod, ...]:
        """Return the pods of that kind."""
        return tuple(pod for pod in self.pods if pod.app == app)

    @property
    def linux(self) -> tuple[ProbePod, ...]:
        """The pod of a Linux node, if there is one."""
        return tuple(pod for pod in self.pods if pod.os == "linux")

    def list_running(self, os: str) -> tuple[ProbePod, ...]:
        """Return the pods of this operating system that can run questions."""
        return tuple(pod for pod in self.pods if pod.os == os and pod.runs and pod.serves)

    def get_service(self, name: str) -> ProbeService:
        """Return the Service of that name; without an address if it does not exist."""
        return next((item for item in self.services if item.name == name), ProbeService(name))


class Log(msgspec.Struct, frozen=True):
    """The log of a pod is required."""

    pod: str
    what: str


class Exec(msgspec.Struct, frozen=True):
    """A command is run in a pod."""

    pod: str
    command: tuple[str, ...]
    what: str


class Fetch(msgspec.Struct, frozen=True):
    """A URL is fetched from where the verification runs."""

    url: str
    what: str


Question = Log | Exec | Fetch


class Answer(msgspec.Struct, frozen=True):
    """What came of a question: 0 where it was answered as a program ends that is content; the text is what it said."""

    question: Question
    code: int
    text: str = ""
