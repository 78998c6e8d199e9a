# Starts kube-proxy once the pods' network is there: HNS knows it by name, and in an overlay kube-proxy needs an address of the
# node's own subnet (kubernetes v1.36.3, pkg/proxy/winkernel/proxier.go). In a container it becomes kube-proxy; with -Service it
# writes the service's configuration and starts that.
param(
    [Parameter(Mandatory = $true)] [string] $Network,
    [string] $ClusterCidr = 'none',
    [string] $Dsr = 'true',
    [string] $Node = $env:NODENAME,
    [switch] $Service
)
$ErrorActionPreference = 'Stop'

function Get-Address([object] $Found) {
    # Calico's node agent makes an endpoint for it (sig-windows-tools 401ee6f, hostprocess/calico/kube-proxy/start.ps1)
    if ($Found.Name -eq 'Calico') {
        while (-not ($endpoint = Get-HnsEndpoint | Where-Object { $_.Name -eq 'Calico_ep' } | Select-Object -First 1)) { Start-Sleep -Seconds 2 }
        return $endpoint.IPAddress
    }
    # else host-local notes one, so that no pod gets it (containernetworking/plugins, plugins/ipam/host-local)
    $kept = 'C:\var\lib\cni\kube-proxy-address.json'
    if (-not (Test-Path -LiteralPath $kept)) {
        $range = @{ subnet = $Found.Subnets[0].AddressPrefix }
        $ipam = @{ type = 'host-local'; dataDir = '/var/lib/cni/networks'; ranges = @(, @($range)) }
        $asked = ConvertTo-Json -Depth 6 -Compress -InputObject @{ cniVersion = '0.3.1'; name = $Found.Name; ipam = $ipam }
        $env:CNI_COMMAND = 'ADD'
        $env:CNI_CONTAINERID = 'kube-proxy'
        $env:CNI_NETNS = 'none'
        $env:CNI_IFNAME = 'kube-proxy'
        $env:CNI_PATH = 'C:\opt\cni\bin'
        $answer = $asked | & 'C:\opt\cni\bin\host-local.exe'
        if ($LASTEXITCODE -ne 0) { throw "host-local.exe gives no address of $($Found.Name): $answer" }
        New-Item -ItemType Directory -Force -Path 'C:\var\lib\cni' | Out-Null
        Set-Content -LiteralPath $kept -Value $answer
    }
    $given = ConvertFrom-Json -InputObject (Get-Content -LiteralPath $kept -Raw)
    return $given.ips[0].address.Split('/')[0]
}

while (-not ($found = Get-HnsNetwork | Where-Object { $_.Name -eq $Network } | Select-Object -First 1)) { Start-Sleep -Seconds 2 }
$address = ''
if ($found.Type -eq 'Overlay') { $address = Get-Address $found }
if ($Service) {
    $configuration = 'C:\k\kube-proxy.conf'
    $kubeconfig = 'C:\etc\kubernetes\kubelet.conf'
}
else {
    # Go does not see a container's mounts at their own paths: those of the kubeconfig get the sandbox before them
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
