# Prints the address of the host by which others reach the overlay's network; nothing while there is no network.
# Get-HnsNetwork: Microsoft Learn, PowerShell module HostNetworkingService.
$ErrorActionPreference = 'Stop'
$network = Get-HnsNetwork | Where-Object { $_.Name -eq 'OVNKubernetesHybridOverlayNetwork' } | Select-Object -First 1
if ($network) { $network.ManagementIP }
