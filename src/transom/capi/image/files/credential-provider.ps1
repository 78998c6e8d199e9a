# The kubelet's program for a registry's logins; its configuration comes with the machine's own files.
. "$PSScriptRoot\common.ps1"
$path = "C:\var\lib\kubelet\credential-provider\$env:CREDENTIAL_PROVIDER_NAME.exe"
Get-CheckedFile -Uri $env:CREDENTIAL_PROVIDER_URL -Hash $env:CREDENTIAL_PROVIDER_SHA256 -Path $path
