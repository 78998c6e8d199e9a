# The host networking service must start with the machine: kube-proxy and CNI make their networks with it.
. "$PSScriptRoot\common.ps1"
Set-Service -Name 'hns' -StartupType Automatic
Start-Service -Name 'hns'
