# At the first boot of every machine: removes the build's remote access.
$ErrorActionPreference = 'Stop'
Set-Item -Path 'WSMan:\localhost\Service\Auth\Basic' -Value $false
Remove-NetFirewallRule -Name 'winrm-https' -ErrorAction SilentlyContinue
