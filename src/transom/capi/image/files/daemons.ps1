# For clusters without privileged containers: scripts that make kube-proxy and the network's agent Windows services.
. "$PSScriptRoot\common.ps1"
if ("$env:CALICO_URL" -ne '') {
    Get-CheckedFile -Uri $env:CALICO_URL -Hash $env:CALICO_SHA256 -Path 'C:\k\image\calico.zip'
    Expand-Archive -Path 'C:\k\image\calico.zip' -DestinationPath 'C:\' -Force
}
if ("$env:FLANNEL_URL" -ne '') {
    Get-CheckedFile -Uri $env:FLANNEL_URL -Hash $env:FLANNEL_SHA256 -Path 'C:\k\flanneld.exe'
}
New-Item -ItemType Directory -Force -Path 'C:\k\services' | Out-Null
Copy-Item -Path "$PSScriptRoot\service-*.ps1" -Destination 'C:\k\services' -Force
Get-ChildItem -Path 'C:\k\services\service-*.ps1' | ForEach-Object { Move-Item -Path $_.FullName -Destination $_.FullName.Replace('service-', '') -Force }
