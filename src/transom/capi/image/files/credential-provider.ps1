# Installs the kubelet's credential provider for a registry; its configuration is in the machine's own files.
. "$PSScriptRoot\common.ps1"
$path = "C:\var\lib\kubelet\credential-provider\$env:CREDENTIAL_PROVIDER_NAME.exe"
Get-CheckedFile -Uri $env:CREDENTIAL_PROVIDER_URL -Hash $env:CREDENTIAL_PROVIDER_SHA256 -Path $path
