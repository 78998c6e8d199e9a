# Installs kubelet as a service that kubeadm starts, and kubeadm; the first boot brings the machine's own arguments.
. "$PSScriptRoot\common.ps1"
foreach ($name in $env:KUBERNETES_PROGRAMS.Split(' ')) {
    $uri = "$env:KUBERNETES_BASE_URL/$name.exe"
    $checksum = [Environment]::GetEnvironmentVariable("$($name.ToUpper().Replace('-', '_'))_SHA256")
    Get-CheckedFile -Uri $uri -Hash "$checksum" -Published "$uri.sha256" -Path "C:\k\$name.exe"
}
New-Item -ItemType Directory -Force -Path 'C:\etc\kubernetes\pki', 'C:\var\lib\kubelet', 'C:\var\log\kubelet', 'C:\run' | Out-Null
$arguments = @(
    '--windows-service'
    '--cert-dir=C:\var\lib\kubelet\pki'
    '--config=C:\var\lib\kubelet\config.yaml'
    '--bootstrap-kubeconfig=C:\etc\kubernetes\bootstrap-kubelet.conf'
    '--kubeconfig=C:\etc\kubernetes\kubelet.conf'
    # the cluster's configuration has values for Linux
    '--cgroups-per-qos=false'
    '--enforce-node-allocatable='
    '--resolv-conf='
    # up to 1.35 kubeadm may leave it out of config.yaml, and the default of the kubelet is a socket of Linux
    '--container-runtime-endpoint=npipe:////./pipe/containerd-containerd'
)
# the kubelet writes only to standard error, which a service does not have
$logged = 'C:\k\kube-log-runner.exe --log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe '
New-Service -Name 'kubelet' -BinaryPathName ($logged + ($arguments -join ' ')) -StartupType Automatic -DependsOn 'containerd' | Out-Null
Invoke-Checked -Program "$env:SystemRoot\System32\sc.exe" -Arguments @('failure', 'kubelet', 'reset=', '0', 'actions=', 'restart/10000')
New-NetFirewallRule -Name 'kubelet' -DisplayName 'kubelet' -Direction Inbound -Protocol TCP -LocalPort 10250 -Action Allow | Out-Null
$path = [Environment]::GetEnvironmentVariable('Path', 'Machine')
[Environment]::SetEnvironmentVariable('Path', "$path;C:\k", 'Machine')
