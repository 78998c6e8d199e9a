# Prints the address that kube-proxy gives to what it sends on for a Service: that of Calico's endpoint in its overlay; nothing
# while there is no network. Without an overlay (BGP) kube-proxy asks for none and gets the host's (kubernetes,
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
