# Generalises the machine and waits for the end: then Packer stops it and copies its disk.
$ErrorActionPreference = 'Stop'
Remove-Item -Path "$env:SystemRoot\System32\Sysprep\unattend.xml" -Force -ErrorAction SilentlyContinue
$unattend = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init\conf\Unattend.xml"
Remove-Item -Path 'C:\k\image' -Recurse -Force
Start-Process -FilePath "$env:SystemRoot\System32\Sysprep\Sysprep.exe" -ArgumentList @('/oobe', '/generalize', '/mode:vm', '/quiet', '/quit', "`"/unattend:$unattend`"") -Wait
$end = (Get-Date).AddMinutes(30)
while ((Get-ItemProperty -Path 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State').ImageState -ne 'IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE') {
    if ((Get-Date) -gt $end) {
        throw "sysprep did not end in 30 minutes: $env:SystemRoot\System32\Sysprep\Panther\setuperr.log says why"
    }
    Start-Sleep -Seconds 5
}
