"""Java's SDKs that read the environment. (The lists of the JVM itself are in `lists`.)"""

from transom.proxy.clients.profile import (
    ClientProfile,
    Covers,
    Credentials,
    Empty,
    Items,
    Names,
    ProfilePass,
    Schemeless,
    Splitting,
    Star,
    Variables,
)
from transom.proxy.clients.urls import HostReading, Ipv4Hosts, TrailingDots

_NAMES = Names(bare=Covers.SUFFIX, dotted=Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False)

ROWS = (
    ClientProfile(
        "fabric8",
        "fabric8 kubernetes-client (Quarkus, Spring Cloud Kubernetes, Jenkins, Strimzi)",
        "6.13.5, 7.3.1, 8.0.0",
        "6.13.5 to 6, 7.1 or later",
        "Java",
        "fabric8 kubernetes-client-api HttpClientUtils.isHostMatchedByNoProxy, IpAddressMatcher, Config",
        (
            ProfilePass(
                splitting=Splitting(trim="", empty_covers_all=True),
                host=HostReading(Ipv4Hosts.SEEN_DECIMAL, brackets=True, lower=False, lower_ipv6=False, unmapped=True),
                star=Star.NEVER,
                names=_NAMES,
                items=Items.FABRIC8,
                fails_when_reached=True,
            ),
        ),
        Variables(("HTTP_PROXY",), ("HTTPS_PROXY",), every=("ALL_PROXY",), no=("NO_PROXY",)),
        resolves=True,
        note="The client cannot be created if it refuses an item. It reads only upper-case variables.",
        unknown="Before 6.13.5, and 7.0: no IPv6, other expressions for addresses (according to the source).",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "aws-java-2",
        "AWS SDK for Java 2, ApacheHttpClient",
        "2.59.1",
        "2.59",
        "Java",
        "aws-sdk-java-v2 SdkHttpUtils.parseNonProxyHostsEnvironmentVariable, SdkProxyRoutePlanner, ProxyEnvironmentSetting",
        (
            ProfilePass(
                splitting=Splitting(separator=r"[,|]", trim=""),
                host=HostReading(brackets=True),
                star=Star.NEVER,
                names=_NAMES,
                items=Items.AWS_PATTERNS,
                fails_when_reached=True,
            ),
        ),
        Variables(("http_proxy", "HTTP_PROXY"), ("http_proxy", "HTTP_PROXY"), empty=Empty.NONE, schemeless=Schemeless.IGNORED),
        note="`.x` covers nothing; `*.x` covers names below it. The client does not read HTTPS_PROXY.",
        credentials=Credentials.UNDECODED,
    ),
    ClientProfile(
        "azure-java",
        "Azure SDK for Java (-Djava.net.useSystemProxies=true)",
        "azure-core 1.61.0, JdkHttpClient 1.1.7",
        "1.61",
        "Java",
        "azure-core ProxyOptions.fromConfiguration, sanitizeNonProxyHosts",
        (
            ProfilePass(
                splitting=Splitting(separator=r"(?<!\\),", trim=""),
                host=HostReading(brackets=True),
                star=Star.NEVER,
                names=_NAMES,
                items=Items.AZURE_PATTERNS,
            ),
        ),
        Variables(
            ("HTTPS_PROXY", "HTTP_PROXY"), ("HTTPS_PROXY", "HTTP_PROXY"), no=("NO_PROXY",), schemeless=Schemeless.IGNORED
        ),
        note="Without that option, the client uses no proxy. `.x` covers every host that ends with it, also without a dot.",
    ),
)
