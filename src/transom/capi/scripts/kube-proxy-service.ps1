# Makes kube-proxy a Windows service, for clusters that do not allow privileged containers. A task at each start of the machine
# waits for the pods' network, which exists after the join, and starts the service: Windows gives up on a service after 30 s.
param(
    [Parameter(Mandatory = $true)] [string] $Network,
    [string] $ClusterCidr = 'none',
    [string] $Dsr = 'true'
)
$ErrorActionPreference = 'Stop'
foreach ($program in 'C:\k\kube-proxy.exe', 'C:\k\kube-log-runner.exe') {
    if (-not (Test-Path -LiteralPath $program)) { throw "the image has no ${program}: build it with transom capi image --daemons services" }
}
$node = (Get-Content -Path 'C:\run\kubeadm\kubeadm-join-config.yaml' | Select-String -Pattern '^\s+name:\s*["'']?([A-Za-z0-9.-]+)' | Select-Object -First 1).Matches[0].Groups[1].Value
New-Item -ItemType Directory -Force -Path 'C:\var\log\kube-proxy' | Out-Null
$command = 'C:\k\kube-log-runner.exe -log-file=C:\var\log\kube-proxy\kube-proxy.log C:\k\kube-proxy.exe --windows-service --config=C:\k\kube-proxy.conf'
New-Service -Name 'kube-proxy' -BinaryPathName $command -StartupType Manual -DependsOn 'hns' | Out-Null
& "$env:SystemRoot\System32\sc.exe" failure kube-proxy reset= 0 actions= restart/10000
if ($LASTEXITCODE -ne 0) { throw "sc.exe failure kube-proxy: exit code $LASTEXITCODE" }
# a task's command has at most 261 characters (Microsoft: "schtasks create")
$start = "powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\k\kube-proxy-start.ps1 -Service -Network $Network -ClusterCidr $ClusterCidr -Dsr $Dsr -Node $node"
Set-Content -LiteralPath 'C:\k\kube-proxy-start.cmd' -Value "@$start" -Encoding ascii
& "$env:SystemRoot\System32\schtasks.exe" /create /f /tn kube-proxy /sc onstart /ru SYSTEM /rl highest /tr 'C:\k\kube-proxy-start.cmd'
if ($LASTEXITCODE -ne 0) { throw "schtasks.exe /create kube-proxy: exit code $LASTEXITCODE" }
& "$env:SystemRoot\System32\schtasks.exe" /run /tn kube-proxy
if ($LASTEXITCODE -ne 0) { throw "schtasks.exe /run kube-proxy: exit code $LASTEXITCODE" }
