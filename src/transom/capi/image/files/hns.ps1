# The host networking service must start with the machine, because kube-proxy and CNI create their networks with it. Also sets
# what image-builder sets for a node: HNS by release, more ports, no automatic updates (they restart the machine).
. "$PSScriptRoot\common.ps1"
Set-Service -Name 'hns' -StartupType Automatic
$system = 'HKLM:\SYSTEM\CurrentControlSet'
$overrides = "$system\Policies\Microsoft\FeatureManagement\Overrides"
$settings = @{
    '2019' = @(@("$system\Services\hns\State", 'HNSControlFlag', 80), @("$system\Services\wcifs", 'WcifsSOPCountDisabled', 0))
    '2022' = @(, @($overrides, '1114842764', 0))
    '2025' = @(, @($overrides, '520997518', 1))
}
$made = @($settings[$env:WINDOWS_YEAR])
# containers access shares by name, as group managed service accounts require (windows-gmsa#30)
$made += @(, @("$system\Services\hns\State", 'EnableCompartmentNamespace', 1))
if ($env:AUTOMATIC_UPDATES -ne 'true') {
    $updates = 'HKLM:\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU'
    $made += @(, @($updates, 'NoAutoUpdate', 1)) + @(, @($updates, 'AUOptions', 2))
}
# most hypervisors except Hyper-V and VMware give a machine a clock in UTC; Windows assumes local time
if ($env:CLOUDBASE_REAL_TIME_CLOCK_UTC -eq 'true') { $made += @(, @("$system\Control\TimeZoneInformation", 'RealTimeIsUniversal', 1)) }
foreach ($setting in $made) {
    if (-not (Test-Path -Path $setting[0])) { New-Item -Path $setting[0] -Force | Out-Null }
    New-ItemProperty -Path $setting[0] -Name $setting[1] -PropertyType DWord -Value $setting[2] -Force | Out-Null
}
Invoke-Checked -Program "$env:SystemRoot\System32\netsh.exe" -Arguments @('int', 'ipv4', 'set', 'dynamicportrange', 'tcp', '34000', '31536')
Start-Service -Name 'hns'
