# Containers, and with them the host networking service (HNS). Packer restarts the machine afterwards.
. "$PSScriptRoot\common.ps1"
Install-WindowsFeature -Name 'Containers' | Out-Null
