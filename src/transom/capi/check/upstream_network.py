"""What Transom relies on of Calico's operator and of providers' firewalls between nodes; part of the table of `upstream`."""

from transom.capi.check.upstream import CAPA, FLANNEL, Fact, create_fact

CALICO_OPERATOR = ("tigera/operator", "40788b9b6bef9d94e77b2e0d7a5eed7e17e2364c")
CAPO = ("kubernetes-sigs/cluster-api-provider-openstack", "e52de58abe6f70f4ad3ad7f7f51632bfd70354b7")
CAPG = ("kubernetes-sigs/cluster-api-provider-gcp", "5e0bb3b249cab59aa2720f03094a172fd153666b")
_VALIDATION = "pkg/controller/installation/validation.go"

POOL_ENCAPSULATION = create_fact(
    CALICO_OPERATOR,
    _VALIDATION,
    "the only encapsulation of an IP pool, except None, that Calico supports on Windows",
    "VXLAN",
    "v4pool.Encapsulation != operatorv1.EncapsulationVXLAN && v4pool.Encapsulation != operatorv1.EncapsulationNone",
    "IPv4 IPPool encapsulation %s is not supported by Calico for Windows",
)
POOL_WITHOUT_BGP = create_fact(
    CALICO_OPERATOR,
    _VALIDATION,
    "Calico's operator rejects an Installation with IP-in-IP or unencapsulated pools and without BGP",
    "requires that BGP is enabled",
    "IPIP encapsulation requires that BGP is enabled",
    "unencapsulated IP pools require that BGP is enabled",
)
POOL_DEFAULT = create_fact(
    CALICO_OPERATOR,
    "api/v1/installation_types.go",
    "the encapsulation of an IP pool that names none",
    "IPIP",
    "the IP Pool.\n\t// Default: IPIP\n",
)
POOL_BLOCKS = create_fact(
    CALICO_OPERATOR,
    "api/v1/installation_types.go",
    "the block size of an IP pool that names none",
    "26",
    "Default: 26 (IPv4), 122 (IPv6)",
)
TYPHA_PORT = create_fact(
    CALICO_OPERATOR,
    "pkg/awssgsetup/aws_security_group_setup.go",
    "the TCP port of Calico's Typha on the nodes",
    "5473",
    "port:     aws.Int32(5473)",
)
VXLAN_PORT = create_fact(
    FLANNEL,
    "Documentation/backends.md",
    "the UDP port of VXLAN on Windows, the only one that it supports",
    "4789",
    "on Windows, must be 4789",
)
AWS_RULES = create_fact(
    CAPA,
    "api/v1beta2/defaults.go",
    "the CNI ingress rules that CAPA sets if the AWSCluster has none: BGP and IP-in-IP, no VXLAN",
    "179, IP-in-IP",
    "if obj.CNI == nil {",
    'Description: "bgp (calico)"',
    'Description: "IP-in-IP (calico)"',
)
AWS_VXLAN = create_fact(
    CAPA,
    "templates/cluster-template-ipv6.yaml",
    "the CNI ingress rule of an AWSCluster for VXLAN",
    "cniIngressRules",
    "cniIngressRules:",
    "fromPort: 4789",
)
OPENSTACK_RULES = create_fact(
    CAPO,
    "docs/book/src/topics/crd-changes/v1alpha7-to-v1beta1.md",
    "CAPO opens no ports for a CNI automatically",
    "allNodesSecurityGroupRules",
    "Now the user needs to request creation of the security group rules by using the "
    "`managedSecurityGroups.allNodesSecurityGroupRules` feature.",
)
OPENSTACK_RENAMED = create_fact(
    CAPO,
    "docs/book/src/topics/crd-changes/v1beta1-to-v1beta2.md",
    "the name of these rules in v1beta2 of CAPO",
    "clusterNodesSecurityGroupRules",
)
GCP_RULES = create_fact(
    CAPG,
    "cloud/scope/firewall.go",
    "CAPG permits all protocols among the nodes of a cluster",
    "allow-<cluster>-cluster",
    'fmt.Sprintf("allow-%s-cluster", clusterName)',
    'IPProtocol: "all"',
)

FACTS: tuple[Fact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Fact))
"""All of them, in the order above."""
