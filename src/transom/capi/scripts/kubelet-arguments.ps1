# Sets the arguments of the kubelet service: those of kubelet-arguments.txt, one per
# line, and the node's name from the join configuration. The service is changed, not created again: it keeps its environment.
$ErrorActionPreference = 'Stop'
$service = Get-CimInstance -ClassName Win32_Service -Filter "Name = 'kubelet'"
if ($null -eq $service) {
    Write-Error 'there is no service kubelet: the image was not made for Kubernetes'
}
$join = Get-Content -Path "$env:SystemDrive\run\kubeadm\kubeadm-join-config.yaml"
$named = $join | Select-String -Pattern '^\s+name:\s*["'']?([A-Za-z0-9.-]+)["'']?\s*$' | Select-Object -First 1
$arguments = @(Get-Content -Path 'C:\k\kubelet-arguments.txt' | Where-Object { $_ -ne '' })
if ($null -ne $named) {
    $arguments += '--hostname-override=' + $named.Matches[0].Groups[1].Value
}
$line = $service.PathName
foreach ($argument in $arguments) {
    $name = $argument.Split('=')[0]
    if ($line -notmatch "(^|\s)$([regex]::Escape($name))(=|\s|$)") {
        $line += " $argument"
    }
}
$changed = Invoke-CimMethod -InputObject $service -MethodName Change -Arguments @{ PathName = $line }
if ($changed.ReturnValue -ne 0) {
    Write-Error "the kubelet's service could not be changed: Win32_Service.Change gave $($changed.ReturnValue)"
}
