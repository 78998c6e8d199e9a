# Prints the source address that kube-proxy uses for Services: the address of the Calico endpoint in the overlay; nothing
# while no network exists. Without an overlay (BGP) kube-proxy requires none and uses the address of the host (kubernetes,
# pkg/proxy/winkernel/proxier.go); Calico_ep: sig-windows-tools, hostprocess/calico/kube-proxy/start.ps1.
param([string] $Network = 'Calico')
$ErrorActionPreference = 'Stop'
$found = Get-HnsNetwork | Where-Object { $_.Name -eq $Network } | Select-Object -First 1
if (-not $found) { exit 0 }
if ($found.Type -ne 'Overlay') {
    $found.ManagementIP
    exit 0
}
$endpoint = Get-HnsEndpoint | Where-Object { $_.Name -eq 'Calico_ep' } | Select-Object -First 1
if ($endpoint) { $endpoint.IPAddress }
