# Prints the address that kube-proxy gives to what it sends on for a Service: that of an HNS endpoint of its own.
$ErrorActionPreference = 'Stop'
$network = Get-HnsNetwork | Where-Object { $_.Name -eq 'OVNKubernetesHybridOverlayNetwork' } | Select-Object -First 1
if (-not $network) { exit 0 }
$endpoint = Get-HnsEndpoint | Where-Object { $_.Name -eq 'TransomSourceVip' } | Select-Object -First 1
if (-not $endpoint) { $endpoint = New-HnsEndpoint -NetworkId $network.Id -Name 'TransomSourceVip' }
$endpoint.IPAddress
