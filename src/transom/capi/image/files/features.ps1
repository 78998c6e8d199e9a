# Installs Containers with the host networking service (HNS). Packer restarts the machine afterwards. Hyper-V is optional: it
# brings the cmdlets of virtual switches that some network agents call, and they also work without the hypervisor.
. "$PSScriptRoot\common.ps1"
Install-WindowsFeature -Name 'Containers' | Out-Null
if ($env:HYPER_V -ne 'true') { return }
# the network of the machine is created again at its next start: WinRM waits for it
Invoke-Checked -Program "$env:SystemRoot\System32\sc.exe" -Arguments @('config', 'winrm', 'start=', 'delayed-auto')
Install-WindowsFeature -Name 'Hyper-V-PowerShell' | Out-Null
$dism = "$env:SystemRoot\System32\Dism.exe"
# 3010 is a success that requires a restart; dism does not check whether the processor supports a hypervisor
Invoke-Checked -Program $dism -Arguments @('/online', '/enable-feature', '/featurename:Microsoft-Hyper-V', '/all', '/NoRestart') -Good @(0, 3010)
if ($env:DISABLE_HYPERVISOR -eq 'true') {
    Invoke-Checked -Program $dism -Arguments @('/online', '/disable-feature', '/featurename:Microsoft-Hyper-V-Online', '/NoRestart') -Good @(0, 3010)
}
