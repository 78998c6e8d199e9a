# Generalises the machine, which then shuts down: Packer runs this as its shutdown_command and waits for the end.
$ErrorActionPreference = 'Stop'
Remove-Item -Path "$env:SystemRoot\System32\Sysprep\unattend.xml" -Force -ErrorAction SilentlyContinue
$unattend = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init\conf\Unattend.xml"
Remove-Item -Path $PSCommandPath -Force
Start-Process -FilePath "$env:SystemRoot\System32\Sysprep\Sysprep.exe" -ArgumentList @('/oobe', '/generalize', '/mode:vm', '/quiet', '/shutdown', "`"/unattend:$unattend`"")
