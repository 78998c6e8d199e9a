"""The PowerShell of a machine's first boot (Windows PowerShell 5.1); `userdata` fills in what stands between two `@`."""

from typing import Final

SCRIPT: Final = r"""$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
function Get-SignedInstaller($uri, $name) {
    [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
    $msi = Join-Path -Path $env:TEMP -ChildPath $name
    $proxy = @PROXY@
    if ($proxy) {
        Invoke-WebRequest -UseBasicParsing -Uri $uri -OutFile $msi -Proxy $proxy
    } else {
        Invoke-WebRequest -UseBasicParsing -Uri $uri -OutFile $msi
    }
    $signature = Get-AuthenticodeSignature -LiteralPath $msi
    if ($signature.Status -ne 'Valid') { throw "the signature of $uri is not valid" }
    $msi
}
function Install-Msi($msi) {
    $arguments = '/i "' + $msi + '" /qn /norestart'
    $installer = Start-Process -FilePath "$env:SystemRoot\System32\msiexec.exe" -ArgumentList $arguments -Wait -PassThru
    Remove-Item -LiteralPath $msi
    if ($installer.ExitCode -ne 0 -and $installer.ExitCode -ne 3010) { throw "the installer $msi failed" }
}
#[ first-boot: the proxy and the CAs, entered in the ledger before each is set
if (-not (Test-Path -LiteralPath 'HKLM:\SOFTWARE\Transom')) {
    New-Item -Path 'HKLM:\SOFTWARE\Transom' -Force | Out-Null
    $acl = New-Object -TypeName Security.AccessControl.RegistrySecurity
    $acl.SetSecurityDescriptorSddlForm('D:P(A;CI;KA;;;SY)(A;CI;KA;;;BA)', 'Access')
    Set-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom' -AclObject $acl
    New-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Transom' -Name 'Closed' -PropertyType DWord -Value 1 -Force | Out-Null
    New-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Transom' -Name 'Version' -PropertyType DWord -Value @SCHEMA@ -Force | Out-Null
    $certificates = @(
@CERTIFICATES@
    )
    foreach ($certificate in $certificates) {
        $path = 'HKLM:\SOFTWARE\Microsoft\SystemCertificates\' + $certificate.Store + '\Certificates\' + $certificate.Sha1
        if (-not (Test-Path -LiteralPath $path)) {
            $note = 'HKLM:\SOFTWARE\Transom\Certificates\' + $certificate.Store
            if (-not (Test-Path -LiteralPath $note)) { New-Item -Path $note -Force | Out-Null }
            $line = $certificate.Note
            New-ItemProperty -LiteralPath $note -Name $certificate.Sha1 -PropertyType String -Value $line -Force | Out-Null
            New-Item -Path $path -Force | Out-Null
            $blob = [Convert]::FromBase64String($certificate.Blob)
            New-ItemProperty -LiteralPath $path -Name 'Blob' -PropertyType Binary -Value $blob -Force | Out-Null
        }
    }
    $winHttp = @WINHTTP@
    if ($winHttp) {
        $path = 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Internet Settings\Connections'
        if (-not (Test-Path -LiteralPath $path)) { New-Item -Path $path -Force | Out-Null }
        $was = ''
        $held = (Get-ItemProperty -LiteralPath $path).WinHttpSettings
        if ($null -ne $held) {
            $data = [BitConverter]::ToString($held).Replace('-', '').ToLowerInvariant()
            $was = ',"was":{"name":"WinHttpSettings","type":3,"data":"' + $data + '"}'
        }
        $note = 'HKLM:\SOFTWARE\Transom'
        $line = '{"set":"' + @WINHTTP_HEX@ + '"' + $was + '}'
        New-ItemProperty -LiteralPath $note -Name 'WinHTTP' -PropertyType String -Value $line -Force | Out-Null
        $settings = [Convert]::FromBase64String($winHttp)
        New-ItemProperty -LiteralPath $path -Name 'WinHttpSettings' -PropertyType Binary -Value $settings -Force | Out-Null
    }
}
#]
#[ administrator: the built-in account, whatever its name is, has to be one that SSH lets in
foreach ($administrator in Get-LocalUser) {
    if ($administrator.SID.Value -like 'S-1-5-21-*-500' -and -not $administrator.Enabled) {
        $bytes = New-Object -TypeName 'byte[]' -ArgumentList 32
        [Security.Cryptography.RandomNumberGenerator]::Create().GetBytes($bytes)
        $random = 'aA1!' + [Convert]::ToBase64String($bytes)
        $password = ConvertTo-SecureString -String $random -AsPlainText -Force
        Set-LocalUser -SID $administrator.SID -Password $password
        Enable-LocalUser -SID $administrator.SID
    }
}
#]
if (-not (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue)) {
    for ($try = 1; $try -le 5; $try++) {
        try {
            Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
            break
        } catch {
            Start-Sleep -Seconds 5
        }
    }
}
if (-not (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue)) {
    Install-Msi (Get-SignedInstaller @MSI@ 'transom-openssh.msi')
}
Set-Service -Name 'sshd' -StartupType Automatic
Start-Service -Name 'sshd'
$keys = "$env:ProgramData\ssh\administrators_authorized_keys"
$lines = @()
if (Test-Path -LiteralPath $keys) { $lines = @(Get-Content -LiteralPath $keys) }
if (@($lines -match ' @COMMENT@$').Count -eq 0) {
    Set-Content -LiteralPath $keys -Value ($lines + @KEY@) -Encoding Ascii
}
& "$env:SystemRoot\System32\icacls.exe" $keys '/inheritance:r' '/grant:r' '*S-1-5-32-544:F' '/grant:r' '*S-1-5-18:F' | Out-Null
$config = "$env:ProgramData\ssh\sshd_config"
for ($try = 1; $try -le 20 -and -not (Test-Path -LiteralPath $config); $try++) { Start-Sleep -Seconds 1 }
$before = @(Get-Content -LiteralPath $config)
$after = @('PasswordAuthentication no', 'PubkeyAuthentication yes')
$after += @($before -notmatch '^\s*#?\s*(PasswordAuthentication|PubkeyAuthentication)\s')
if (($before -join "`n") -cne ($after -join "`n")) {
    Set-Content -LiteralPath $config -Value $after -Encoding Ascii
    Restart-Service -Name 'sshd' -Force
}
foreach ($port in 22, 9182, 10250) {
    $rule = "transom-$port"
    if (-not (Get-NetFirewallRule -Name $rule -ErrorAction SilentlyContinue)) {
        $shown = "Transom TCP $port"
        $allowed = @{ Direction = 'Inbound'; Action = 'Allow'; Protocol = 'TCP'; LocalPort = $port }
        New-NetFirewallRule -Name $rule -DisplayName $shown @allowed | Out-Null
    }
}
#[ aws: the routes to the metadata service have to outlive the switch that the overlay makes
$launch = "$env:ProgramFiles\Amazon\EC2Launch\EC2Launch.exe"
$version = $null
if (Test-Path -LiteralPath $launch) { $version = "$(& $launch 'version')".Trim() -as [version] }
if (-not $version -or $version -lt [version]'2.0.2107') {
    Install-Msi (Get-SignedInstaller @EC2LAUNCH@ 'transom-ec2launch.msi')
}
& $launch 'run-task' 'add-routes' '--persistent' | Out-Null
if ($LASTEXITCODE -ne 0) { throw 'EC2Launch did not add its routes' }
#]
"""
