# Starts kube-proxy when the pods' network exists: HNS lists it by name, and in an overlay kube-proxy requires an address of the
# node's own subnet (kubernetes v1.36.3, pkg/proxy/winkernel/proxier.go), which the script next to this one prints. In a container
# it becomes kube-proxy; with -Service it writes the configuration of the service and starts it.
param(
    [Parameter(Mandatory = $true)] [string] $Network,
    [string] $ClusterCidr = 'none',
    [string] $Dsr = 'true',
    [string] $Node = $env:NODENAME,
    [switch] $Service
)
$ErrorActionPreference = 'Stop'

while (-not ($found = Get-HnsNetwork | Where-Object { $_.Name -eq $Network } | Select-Object -First 1)) { Start-Sleep -Seconds 2 }
$address = ''
if ($found.Type -eq 'Overlay') {
    while (-not ($address = & "$PSScriptRoot\source-vip.ps1" -Network $Network)) { Start-Sleep -Seconds 2 }
}
if ($Service) {
    $configuration = 'C:\k\kube-proxy.conf'
    $kubeconfig = 'C:\etc\kubernetes\kubelet.conf'
}
else {
    # Go does not see a container's mounts at their own paths: paths in the kubeconfig get the path of the sandbox as prefix
    $mounted = "$env:CONTAINER_SANDBOX_MOUNT_POINT\var\lib\kube-proxy\kubeconfig.conf"
    $kubeconfig = "$env:CONTAINER_SANDBOX_MOUNT_POINT\kube-proxy\kubeconfig.conf"
    $configuration = "$env:CONTAINER_SANDBOX_MOUNT_POINT\kube-proxy\kube-proxy.conf"
    Set-Content -LiteralPath $kubeconfig -Value (Get-Content -LiteralPath $mounted -Raw).Replace(' /var', " $env:CONTAINER_SANDBOX_MOUNT_POINT/var")
}
$lines = @(
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1'
    'kind: KubeProxyConfiguration'
    "clientConnection: {kubeconfig: '$kubeconfig'}"
    "hostnameOverride: '$Node'"
    'mode: kernelspace'
    "winkernel: {enableDSR: $Dsr, networkName: '$Network', sourceVip: '$address'}"
)
if ($ClusterCidr -ne 'none') { $lines += "clusterCIDR: '$ClusterCidr'" }
Set-Content -LiteralPath $configuration -Value $lines -Encoding ascii
if ($Service) {
    Restart-Service -Name 'kube-proxy'
}
else {
    & "$env:CONTAINER_SANDBOX_MOUNT_POINT\kube-proxy\kube-proxy.exe" "--config=$configuration" '--v=2'
    exit $LASTEXITCODE
}
