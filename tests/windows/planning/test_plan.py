"""Properties of the planner: it converges, it is exact in undo, and it touches nothing foreign."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.windows.authorities import authorities, der, sha1

from transom.windows import ledger
from transom.windows.host.host_state import DesiredState, ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES, STORES
from transom.windows.parts import certificates
from transom.windows.planning.planner import Plan, plan, predict_state
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import Value, ValueType, build_binary, build_expand_sz, build_multi_sz, build_sz

SALT = b"0123456789abcdef"
OURS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
MANAGED = ("containerd", "kubelet", "cloud-node-manager")

texts = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=12)
proxies = st.sampled_from(["http://p.x:3128", "http://alice:hunter2%25%5E@p.x:3128", "http://q.x"])
names = st.sampled_from([*OURS, "http_proxy", "Https_Proxy", "no_proxy", "PATH", "=C:", "plain"])
items = st.one_of(
    st.tuples(names, texts).map("=".join), st.sampled_from(["no equals sign", "=C:=C:\\", "HTTP_PROXY=http://p.x:3128"])
)
environments = st.one_of(
    st.none(),
    st.lists(items, max_size=6).map(build_multi_sz),
    st.just(Value(ValueType.MULTI_SZ, b"")),
    st.just(Value(ValueType.MULTI_SZ, "A=1\0\0B=2\0\0".encode("utf-16-le"))),
)
machine_values = st.one_of(
    texts.map(build_sz),
    texts.map(build_expand_sz),
    st.binary(max_size=5).map(build_binary),
    st.just(build_sz("http://p.x:3128")),
)
# to make a strategy costs more than to draw from it
service_names = st.sets(st.sampled_from([*MANAGED, "other", "antivirus"]))
states = st.sampled_from([ServiceState.RUNNING, ServiceState.STOPPED])
machine_names = st.sets(st.sampled_from(["HTTP_PROXY", "https_proxy", "No_Proxy", "Path"]))
coins = st.booleans()
trusted = st.deferred(lambda: st.sets(st.sampled_from(authorities())))
urls = st.tuples(*[st.one_of(st.just(""), proxies)] * 2, st.sampled_from(["", ".svc", "10.0.0.0/8,.svc"]))
scopes = st.sampled_from(["Services", "Machine", "Both"])
managed = st.sampled_from([MANAGED, MANAGED[:2], ("Containerd",)])


@st.composite
def hosts(draw: st.DrawFn) -> ObservedState:
    """A host that Transom has never seen: services, environments and certificates of other people's."""
    edits: list[Edit] = [CreateKey(ENVIRONMENT), CreateKey(STORES)]
    services = []
    for name in draw(service_names):
        services.append(Service(name, draw(states)))
        edits.append(SetValue(rf"{SERVICES}\{name}", "ImagePath", build_expand_sz(rf"C:\k\{name}.exe")))
        environment = draw(environments)
        if environment is not None:
            edits.append(SetValue(rf"{SERVICES}\{name}", "Environment", environment))
    for name in draw(machine_names):
        edits.append(SetValue(ENVIRONMENT, name, draw(machine_values)))
    for store in (certificates.ROOT, certificates.CA):
        if draw(coins):
            edits.append(CreateKey(certificates.get_store_path(store)))
            edits.extend(
                SetValue(rf"{certificates.get_store_path(store)}\{sha1(c)}", "Blob", certificates.build_blob(der(c), sha1(c)))
                for c in draw(trusted)
            )
    needs = {s.name: tuple(draw(st.sets(st.sampled_from(services or [s])))) for s in services}
    dependencies = {name: tuple(n.name for n in needed if n.name > name) for name, needed in needs.items()}
    return ObservedState(Registry().apply_edits(edits), tuple(services), boot=1, dependencies=dependencies)


@st.composite
def wishes(draw: st.DrawFn) -> DesiredState:
    """What some settings ask for."""
    http, https, no_proxy = draw(urls)
    variables = {n: v for n, v in zip(OURS, (http, https, no_proxy), strict=True) if v}
    scope = draw(scopes)
    edits: list[Edit] = []
    for service in draw(managed):
        edits.append(CreateKey(rf"{SERVICES}\{service}"))
        if variables and scope != "Machine":
            edits.append(
                SetValue(rf"{SERVICES}\{service}", "Environment", build_multi_sz(f"{n}={v}" for n, v in variables.items()))
            )
    if scope != "Services":
        edits.extend(SetValue(ENVIRONMENT, n, build_sz(v)) for n, v in variables.items())
    for c in draw(trusted):
        store = certificates.ROOT if c.subject == c.issuer else certificates.CA
        edits.append(
            SetValue(rf"{certificates.get_store_path(store)}\{sha1(c)}", "Blob", certificates.build_blob(der(c), sha1(c)))
        )
    return DesiredState(Registry().apply_edits(edits))


NOTHING = DesiredState(Registry().apply_edits([CreateKey(rf"{SERVICES}\{service}") for service in MANAGED]))


def applied(desired: DesiredState, actual: ObservedState) -> ObservedState:
    found = predict_state(actual, plan(desired, actual, SALT))
    rest = plan(desired, found, SALT)
    assert rest == Plan(warnings=rest.warnings, reads=rest.reads)
    return found


def booted(host: ObservedState) -> ObservedState:
    return msgspec.structs.replace(host, boot=(host.boot or 0) + 1)


def shown(registry: Registry) -> dict[str, Key]:
    return {key.path.casefold(): key for key in registry}


@given(hosts(), wishes())
def test_a_plan_leaves_nothing_to_plan(actual: ObservedState, desired: DesiredState) -> None:
    applied(desired, actual)


@settings(max_examples=300)
@given(hosts(), st.lists(wishes(), max_size=3), st.lists(st.booleans(), min_size=4, max_size=4))
def test_removal_puts_everything_back(actual: ObservedState, desired: list[DesiredState], boots: list[bool]) -> None:
    host = actual
    for settings_, boot in zip(desired, boots, strict=False):
        host = applied(settings_, host)
        if boot:
            host = booted(host)
    host = applied(NOTHING, host)
    host = applied(NOTHING, booted(host))
    assert shown(host.registry) == shown(actual.registry)


@given(hosts())
def test_nothing_configured_writes_nothing(actual: ObservedState) -> None:
    assert plan(NOTHING, actual, SALT) == Plan()


@given(hosts(), wishes(), wishes())
def test_nothing_foreign_is_in_any_plan(actual: ObservedState, first: DesiredState, second: DesiredState) -> None:
    host = applied(first, actual)
    for edit in plan(second, host, SALT).edits:
        folded = edit.path.casefold()
        if folded.startswith(LEDGER.casefold()):
            continue
        if folded == ENVIRONMENT.casefold():
            assert isinstance(edit, SetValue | DeleteValue)
            assert edit.name.upper() in OURS
        elif folded.startswith(SERVICES.casefold()):
            assert isinstance(edit, SetValue | DeleteValue)
            assert edit.name == "Environment"
            before, now = (
                host.registry.find_value(edit.path, "Environment"),
                second.registry.find_value(edit.path, "Environment"),
            )
            foreign = [i for i in (before.to_texts() if before else ()) if i.split("=")[0].upper() not in OURS]
            kept = edit.value.to_texts() if isinstance(edit, SetValue) else ()
            assert [i for i in kept if i.split("=")[0].upper() not in OURS] == foreign
            assert set(now.to_texts() if now and isinstance(edit, SetValue) else ()) <= set(kept)
        else:
            mine = {key.path.casefold() for key in (*first.registry, *second.registry)}
            assert folded in mine or folded in {k.casefold() for k in ledger.read(host.registry).keys}


@given(hosts(), wishes(), st.sampled_from(MANAGED), st.sampled_from(OURS))
def test_what_a_person_changed_survives_removal(actual: ObservedState, desired: DesiredState, service: str, name: str) -> None:
    host = applied(desired, actual)
    path = rf"{SERVICES}\{service}"
    held = ledger.read(host.registry).environment.services.get(service)
    value = host.registry.find_value(path, "Environment")
    if held is None or name not in held.variables or value is None:
        return
    theirs = f"{name}=http://theirs.x"
    edited = [theirs if item.split("=")[0] == name else item for item in value.to_texts()]
    host = msgspec.structs.replace(
        host, registry=host.registry.apply_edits([SetValue(path, "Environment", build_multi_sz(edited))])
    )
    drift = [s for s in plan(desired, host, SALT).steps if s.target == f"{service}: {name}"]
    assert [("drift" in s.reason, s.action) for s in drift] == [(True, "replace")]
    gone = applied(NOTHING, host)
    left = gone.registry.find_value(path, "Environment")
    assert left is not None
    assert theirs in left.to_texts()
    assert gone.registry.find_key(LEDGER) is None


@given(hosts(), wishes(), st.data())
def test_an_import_cut_anywhere_converges_and_undoes(actual: ObservedState, desired: DesiredState, data: st.DataObject) -> None:
    edits = plan(desired, actual, SALT).edits
    cut = data.draw(st.integers(0, len(edits)))
    torn = msgspec.structs.replace(actual, registry=actual.registry.apply_edits(edits[:cut]))
    assert shown(applied(NOTHING, booted(applied(NOTHING, torn))).registry) == shown(actual.registry)
    applied(desired, torn)


@given(hosts(), wishes())
def test_only_running_services_are_restarted_and_dependants_stop_first(actual: ObservedState, desired: DesiredState) -> None:
    planned = plan(desired, actual, SALT)
    states = {s.name.casefold(): s.state for s in actual.services}
    assert all(states[name.casefold()] is ServiceState.RUNNING for name in planned.stop)
    needs = actual.dependencies or {}
    for at, name in enumerate(planned.stop):
        assert not set(needs.get(name, ())) & set(planned.stop[:at])
    assert planned.start == tuple(reversed(planned.stop))


def test_what_group_policy_holds_is_reported_and_left_until_it_lets_go() -> None:
    root = authorities()[0]
    path, policy = (
        rf"{place('ROOT')}\{sha1(root)}" for place in (certificates.get_store_path, certificates.get_policy_store_path)
    )
    blob = certificates.build_blob(der(root), sha1(root))
    desired = DesiredState(Registry().apply_edits([SetValue(path, "Blob", blob)]))
    bare = ObservedState(
        Registry().apply_edits([CreateKey(certificates.get_store_path("ROOT")), SetValue(policy, "Blob", blob)])
    )
    planned = plan(desired, bare, SALT)
    assert planned.warnings == (f"ROOT: {sha1(root)} CN=Corp Root 1: group policy already holds it; left to the policy",)
    assert [edit.path for edit in planned.edits if not edit.path.startswith(LEDGER)] == []
    assert planned.stop == planned.start == ()
    held = applied(desired, bare)
    assert ledger.read(held.registry).trust["ROOT"][sha1(root)].policy
    assert shown(applied(NOTHING, held).registry) == shown(bare.registry)
    free = msgspec.structs.replace(held, registry=held.registry.apply_edits([DeleteKey(policy)]))
    ours = applied(desired, free)
    assert ours.registry.find_value(path, "Blob") == blob
    gone = applied(NOTHING, ours)
    assert gone.registry.find_key(path) is None and gone.registry.find_key(LEDGER) is None


def test_a_removed_key_is_added_again_and_named_drift() -> None:
    root = authorities()[0]
    path = rf"{certificates.get_store_path('ROOT')}\{sha1(root)}"
    desired = DesiredState(Registry().apply_edits([SetValue(path, "Blob", certificates.build_blob(der(root), sha1(root)))]))
    host = applied(desired, ObservedState(Registry().apply_edits([CreateKey(certificates.get_store_path("ROOT"))])))
    torn = msgspec.structs.replace(host, registry=host.registry.apply_edits([DeleteKey(path)]))
    (step,) = plan(desired, torn, SALT).steps
    assert (step.kind, step.action, "drift" in step.reason) == ("certificate", "add", True)
    assert step.target == f"ROOT: {sha1(root)} CN=Corp Root 1"


def test_a_variable_that_was_set_to_what_it_replaced_is_undone_once() -> None:
    own = SetValue(ENVIRONMENT, "HTTP_PROXY", build_sz("http://second"))
    before = ObservedState(Registry().apply_edits([CreateKey(ENVIRONMENT), CreateKey(STORES), own]), boot=1)
    host = before
    for proxy in ("http://first", "http://second"):
        wish = Registry().apply_edits([SetValue(ENVIRONMENT, "HTTP_PROXY", build_sz(proxy))])
        host = booted(applied(DesiredState(wish), host))
    host = applied(NOTHING, host)
    host = applied(NOTHING, booted(host))
    assert shown(host.registry) == shown(before.registry)


def test_the_order_of_the_wish_counts_in_the_hash_of_the_state() -> None:
    """What was rendered of a wish is kept: one that is equal, in another order, has a hash of its own, as it always had."""
    value = SetValue(ENVIRONMENT, "HTTP_PROXY", build_sz("http://p.x:3128"))
    orders = [[CreateKey(rf"{SERVICES}\{name}") for name in names] for names in (MANAGED, MANAGED[::-1])]
    wishes = [DesiredState(Registry().apply_edits([value, *keys])) for keys in orders]
    hosts = [ObservedState(Registry().apply_edits(plan(wish, ObservedState(Registry()), SALT).edits)) for wish in wishes]
    assert wishes[0] == wishes[1]
    assert len({ledger.read(host.registry).state_hash for host in hosts}) == 2
