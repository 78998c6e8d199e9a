# Prints the address that kube-proxy gives to what it sends on for a Service: one of the node's own subnet, which nobody else gets
# since host-local, the CNI program that gives out addresses, has noted it (containernetworking/plugins, plugins/ipam/host-local;
# kubernetes/kubernetes#96996). Nothing is printed while there is no such network.
param([string] $Network = 'flannel.4096')
$ErrorActionPreference = 'Stop'
$found = Get-HnsNetwork | Where-Object { $_.Name -eq $Network } | Select-Object -First 1
if (-not $found) { exit 0 }
$kept = 'C:\var\lib\cni\kube-proxy-address.json'
if (-not (Test-Path -LiteralPath $kept)) {
    $range = @{ subnet = $found.Subnets[0].AddressPrefix }
    $ipam = @{ type = 'host-local'; dataDir = '/var/lib/cni/networks'; ranges = @(, @($range)) }
    $asked = ConvertTo-Json -Depth 6 -Compress -InputObject @{ cniVersion = '0.3.1'; name = $Network; ipam = $ipam }
    $env:CNI_COMMAND = 'ADD'
    $env:CNI_CONTAINERID = 'kube-proxy'
    $env:CNI_NETNS = 'none'
    $env:CNI_IFNAME = 'kube-proxy'
    $env:CNI_PATH = 'C:\opt\cni\bin'
    $answer = $asked | & 'C:\opt\cni\bin\host-local.exe'
    if ($LASTEXITCODE -ne 0) { throw "host-local.exe gives no address: $answer" }
    New-Item -ItemType Directory -Force -Path 'C:\var\lib\cni' | Out-Null
    Set-Content -LiteralPath $kept -Value $answer
}
$given = ConvertFrom-Json -InputObject (Get-Content -LiteralPath $kept -Raw)
$given.ips[0].address.Split('/')[0]
