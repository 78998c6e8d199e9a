# Installs cloudbase-init with the metadata service of the provider; it runs at the first boot of every machine.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:CLOUDBASE_INIT_URL -Hash $env:CLOUDBASE_INIT_SHA256 -Signer $env:CLOUDBASE_INIT_SIGNER -Path 'C:\k\image\cloudbase-init.msi'
Invoke-Checked -Program "$env:SystemRoot\System32\msiexec.exe" -Arguments @('/i', 'C:\k\image\cloudbase-init.msi', '/qn', '/norestart', 'RUN_SERVICE_AS_LOCAL_SYSTEM=1') -Good @(0, 3010)
$directory = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init"
Copy-Item -Path "$PSScriptRoot\cloudbase-init.conf" -Destination "$directory\conf\cloudbase-init.conf" -Force
Copy-Item -Path "$PSScriptRoot\cloudbase-init-unattend.conf" -Destination "$directory\conf\cloudbase-init-unattend.conf" -Force
if ("$env:CLOUDBASE_LOGGING_SERIAL_PORT" -ne '') {
    foreach ($name in 'cloudbase-init', 'cloudbase-init-unattend') {
        [IO.File]::AppendAllText("$directory\conf\$name.conf", "logging_serial_port_settings=$env:CLOUDBASE_LOGGING_SERIAL_PORT`r`n")
    }
}
Get-ChildItem -Path "$PSScriptRoot\transom_*" | Copy-Item -Destination "$directory\Python\Lib\site-packages" -Force
if ("$env:SECRET_STORE_PROXY" -ne '') {
    # cloudbase-init reads the secret store before the machine has a proxy: the proxy is in the answer
    $ca = Get-Content -Path 'C:\k\image\proxy-ca.pem' -Raw
    $settings = ConvertTo-Json -InputObject @{ proxy = $env:SECRET_STORE_PROXY; ca = $ca.Trim() + "`n" }
    [IO.File]::WriteAllText("$directory\Python\Lib\site-packages\transom_boothook.json", $settings)
}
New-Item -ItemType Directory -Force -Path "$directory\LocalScripts" | Out-Null
Copy-Item -Path "$PSScriptRoot\winrm-off.ps1" -Destination "$directory\LocalScripts\winrm-off.ps1" -Force
Set-Service -Name 'cloudbase-init' -StartupType Automatic
