# At the first boot of every machine: the way in that the build used is closed.
$ErrorActionPreference = 'Stop'
Set-Item -Path 'WSMan:\localhost\Service\Auth\Basic' -Value $false
Remove-NetFirewallRule -Name 'winrm-https' -ErrorAction SilentlyContinue
