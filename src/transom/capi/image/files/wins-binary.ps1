# Deprecated: wins, which starts programs on the host for containers. Its whitelist comes with the machine's first boot.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:WINS_URL -Hash $env:WINS_SHA256 -Path 'C:\k\wins.exe'
