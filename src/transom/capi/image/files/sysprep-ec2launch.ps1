# Generalises the machine with EC2Launch, which stops the instance; Packer does not stop it (disable_stop_instance).
$ErrorActionPreference = 'Stop'
Remove-Item -Path "$env:SystemRoot\System32\Sysprep\unattend.xml" -Force -ErrorAction SilentlyContinue
$unattend = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init\conf\Unattend.xml"
Remove-Item -Path 'C:\k\image' -Recurse -Force
$second = "$env:ProgramFiles\Amazon\EC2Launch\EC2Launch.exe"
if (Test-Path -Path $second) {
    # Server 2022 and later have EC2Launch v2
    Copy-Item -Path $unattend -Destination "$env:ProgramData\Amazon\EC2Launch\sysprep\unattend.xml" -Force
    & $second 'sysprep' '--shutdown=true'
}
else {
    $first = "$env:ProgramData\Amazon\EC2-Windows\Launch"
    Copy-Item -Path $unattend -Destination "$first\Sysprep\Unattend.xml" -Force
    & "$first\Scripts\InitializeInstance.ps1" -Schedule
    & "$first\Scripts\SysprepInstance.ps1"
}
