# Checks the image before it is generalised: names each row that fails, and ends the build.
. "$PSScriptRoot\common.ps1"
$init = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init\conf"
$kubelet = "$((Get-CimInstance -ClassName Win32_Service -Filter "Name = 'kubelet'").PathName)"
$images = "$(& "$env:ProgramFiles\containerd\ctr.exe" '--namespace' 'k8s.io' 'images' 'list' '--quiet')"
$rows = [ordered]@{
    'the kubelet is told where containerd is' = $kubelet.Contains('--container-runtime-endpoint=npipe:////./pipe/containerd-containerd')
    'the kubelet keeps its log' = $kubelet.Contains('kube-log-runner.exe')
    'Setup is not restarted by cloudbase-init' = (Get-Content -Path "$init\cloudbase-init-unattend.conf") -contains 'allow_reboot=false'
    'cloudbase-init reads the user data' = "$(Get-Content -Path "$init\cloudbase-init.conf")".Contains('userdata.UserDataPlugin')
    'cloudbase-init has its answer file' = Test-Path -Path "$init\Unattend.xml"
    'sshd reads keys of administrators' = -not (Select-String -Path "$env:ProgramData\ssh\sshd_config" -Pattern '^Match Group administrators' -Quiet)
    'no host key is on the image' = -not (Test-Path -Path "$env:ProgramData\ssh\ssh_host_*")
    'the pause image is there' = $images.Contains($env:PAUSE_IMAGE)
}
foreach ($name in 'containerd', 'kubelet', 'hns', 'sshd', 'cloudbase-init') {
    $service = Get-Service -Name $name -ErrorAction SilentlyContinue
    $rows["$name starts with the machine"] = $null -ne $service -and $service.StartType -eq 'Automatic'
}
foreach ($program in $env:KUBERNETES_PROGRAMS.Split(' ')) { $rows["$program is there"] = Test-Path -Path "C:\k\$program.exe" }
if ("$env:CREDENTIAL_PROVIDER_URL" -ne '') {
    $rows['the credential provider is there'] = Test-Path -Path "C:\var\lib\kubelet\credential-provider\$env:CREDENTIAL_PROVIDER_NAME.exe"
}
foreach ($name in "$env:ADDITIONAL_REGISTRY_IMAGES_LIST".Split(',') | Where-Object { $_ -ne '' }) { $rows["$name is there"] = $images.Contains($name) }
$failed = @($rows.Keys | Where-Object { -not $rows[$_] })
if ($failed.Count -gt 0) { throw "the image lacks: $($failed -join '; ')" }
