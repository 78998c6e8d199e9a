# Prints the address of the host at which others reach the overlay network; nothing while no network exists.
# Get-HnsNetwork: Microsoft Learn, PowerShell module HostNetworkingService.
$ErrorActionPreference = 'Stop'
$network = Get-HnsNetwork | Where-Object { $_.Name -eq 'OVNKubernetesHybridOverlayNetwork' } | Select-Object -First 1
if ($network) { $network.ManagementIP }
