# Removes everything of the build: its proxy, CA, downloads and keys. Sysprep is next.
. "$PSScriptRoot\common.ps1"
foreach ($name in 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY') {
    if ($null -ne [Environment]::GetEnvironmentVariable($name, 'Machine')) {
        throw "$name is set in the machine's environment: proxies of the build are no proxies of the machines"
    }
}
Stop-Service -Name 'containerd'
if (Test-Path -Path 'C:\k\image\trusted-by-build.txt') {
    foreach ($thumbprint in Get-Content -Path 'C:\k\image\trusted-by-build.txt' | Where-Object { $_ -match '^[0-9A-F]{40}$' }) { Remove-Item -Path "Cert:\LocalMachine\Root\$thumbprint" }
}
Remove-Item -Path 'C:\var\log\kubelet\*' -Recurse -Force
if ($env:SHUT_DOWN_BY_SYSPREP -eq 'true') {
    # Packer runs it after the last script; it removes itself
    Move-Item -Path "$PSScriptRoot\sysprep.ps1" -Destination 'C:\k\sysprep.ps1' -Force
    Remove-Item -Path 'C:\k\image' -Recurse -Force
}
else {
    Get-ChildItem -Path 'C:\k\image' -Exclude 'sysprep.ps1' | Remove-Item -Recurse -Force
}
