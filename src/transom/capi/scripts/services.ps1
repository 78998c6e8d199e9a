# Makes the node's daemons Windows services, by scripts that the image has: for each line of services.txt, <name>.ps1 in
# C:\k\services. For clusters where privileged containers are not allowed.
$ErrorActionPreference = 'Stop'
foreach ($name in Get-Content -Path 'C:\k\services.txt' | Where-Object { $_ -ne '' }) {
    $script = Join-Path -Path 'C:\k\services' -ChildPath "$name.ps1"
    if (-not (Test-Path -Path $script)) {
        Write-Error "the image has no ${script}: build it with transom capi image --daemons services"
    }
    & $script
}
