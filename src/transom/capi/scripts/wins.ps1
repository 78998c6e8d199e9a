# Deprecated: starts wins, which runs the programs of its whitelist (C:\etc\rancher\wins\config) and no others.
# Administrators and SYSTEM alone may change that list, or the programs.
$ErrorActionPreference = 'Stop'
& "$env:SystemRoot\System32\icacls.exe" 'C:\etc\rancher\wins' '/inheritance:r' '/grant:r' '*S-1-5-18:(OI)(CI)F' '*S-1-5-32-544:(OI)(CI)F'
& 'C:\k\wins.exe' srv app run --register
Start-Service -Name 'rancher-wins'
