# Containers, and with them the host networking service (HNS). Packer restarts the machine afterwards. Hyper-V, where it is
# wanted, brings the cmdlets of virtual switches that some networks' agents call; they work without the hypervisor, too.
. "$PSScriptRoot\common.ps1"
Install-WindowsFeature -Name 'Containers' | Out-Null
if ($env:HYPER_V -ne 'true') { return }
# the machine's network is made anew at its next start: WinRM waits for it
Invoke-Checked -Program "$env:SystemRoot\System32\sc.exe" -Arguments @('config', 'winrm', 'start=', 'delayed-auto')
Install-WindowsFeature -Name 'Hyper-V-PowerShell' | Out-Null
$dism = "$env:SystemRoot\System32\Dism.exe"
# 3010 is a success that wants a restart; dism leaves out what asks whether the processor can be a hypervisor's
Invoke-Checked -Program $dism -Arguments @('/online', '/enable-feature', '/featurename:Microsoft-Hyper-V', '/all', '/NoRestart') -Good @(0, 3010)
if ($env:DISABLE_HYPERVISOR -eq 'true') {
    Invoke-Checked -Program $dism -Arguments @('/online', '/disable-feature', '/featurename:Microsoft-Hyper-V-Online', '/NoRestart') -Good @(0, 3010)
}
