"""How a cluster stands once the objects of a verification are there; what it can be asked then, and the answers."""

import msgspec

from transom.verification.objects import Node


class StandingPod(msgspec.Struct, frozen=True):
    """A pod of the verification, as it stood when all were awaited. `waiting` is why its container does not run."""

    name: str
    node: str
    os: str
    address: str = ""
    ready: bool = False
    image_id: str = ""
    waiting: str = ""

    @property
    def runs(self) -> bool:
        """Whether there is a container that can be asked."""
        return bool(self.image_id) and not self.waiting


class StandingService(msgspec.Struct, frozen=True):
    """A Service. `public` is the address that a load balancer gave it."""

    name: str
    address: str = ""
    public: str = ""


class Standing(msgspec.Struct, frozen=True):
    """The cluster, once pods and Services have come as far as they came."""

    nodes: tuple[Node, ...]
    pods: tuple[StandingPod, ...] = ()
    services: tuple[StandingService, ...] = ()
    load_balancer: bool = False
    egress: str = ""
    direct: str = ""

    @property
    def windows(self) -> tuple[StandingPod, ...]:
        """The pods of Windows nodes."""
        return tuple(one for one in self.pods if one.os == "windows")

    @property
    def linux(self) -> tuple[StandingPod, ...]:
        """The pod of a Linux node, if there is one."""
        return tuple(one for one in self.pods if one.os == "linux")

    def running(self, os: str) -> tuple[StandingPod, ...]:
        """The pods of this system that can be asked."""
        return tuple(one for one in self.pods if one.os == os and one.runs)

    def service(self, name: str) -> StandingService:
        """The Service of that name; without an address where there is none."""
        return next((one for one in self.services if one.name == name), StandingService(name))


class Log(msgspec.Struct, frozen=True):
    """The log of a pod is asked for."""

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
