"""First-boot data: what a new Windows machine runs so that it can be reached over SSH, behind a proxy too.

The script runs at every boot (`persist`), so each part asks before it acts. It holds nothing secret: instance metadata can be
read by whoever runs on the machine.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate
from transom.windows.ledger import VERSION
from transom.windows.parts import certificates, winhttp_value

OPENSSH_MSI: Final = (
    "https://github.com/PowerShell/Win32-OpenSSH/releases/download/v9.8.3.0p2-Preview/OpenSSH-Win64-v9.8.3.0.msi"
)
EC2LAUNCH_MSI: Final = "https://s3.amazonaws.com/amazon-ec2launch-v2/windows/amd64/latest/AmazonEC2Launch.msi"
"""AWS, "Install the latest version of EC2Launch v2". From 2.0.2107 on `add-routes` persists (WMCO, pkg/secrets/secrets.go)."""
COMMENT: Final = "transom"
"""The comment of the public key in `administrators_authorized_keys`: the line is Transom's."""


class _Platform(msgspec.Struct, frozen=True):
    """How a platform's first boot takes the script.

    `limit`: bytes before anybody encodes them. `tags`: what stands around it, `{}` where it stands. `parts` of the script.
    """

    limit: int
    tags: str
    parts: frozenset[str] = frozenset(("administrator",))


_TAGGED: Final = "<powershell>\n{}</powershell>\n<persist>true</persist>\n"
"""As EC2Launch reads it, at every boot, and cloudbase-init, once."""
_PLATFORMS: Final = {
    # AWS, "Run commands when you launch an EC2 instance"
    "AWS": _Platform(16 * 1024, _TAGGED, frozenset(("administrator", "aws"))),
    # machine-api-provider-azure, virtualmachines.go: `powershell -File` runs custom data as it is, once; the user is its own.
    # Tags in comments are found by cloudbase-init, too
    "AZURE": _Platform(64 * 1024 - 1, "# <powershell>\n{}# </powershell>\n# <persist>true</persist>\n", frozenset()),
    # machine-api-provider-gcp, reconciler.go: metadata sysprep-specialize-script-ps1, once
    "GCP": _Platform(256 * 1024, "{}"),
    # cloudbase-init of the template, by guestinfo
    "VSPHERE": _Platform(64 * 1024, _TAGGED),
    # machine-api-provider-nutanix, vm.go: guest customization for cloudbase-init
    "NUTANIX": _Platform(32 * 1024, _TAGGED),
}
_OTHER: Final = _Platform(16 * 1024, _TAGGED)
"""Of any other, and of none: the least limit of all."""


class UserData(msgspec.Struct, frozen=True):
    """The text, and the certificates that it has no room for: hosts get those with their first pass."""

    text: str
    left_out: tuple[Certificate, ...] = ()


def user_data(public_key: str, egress: Egress, *, platform: str = "", openssh_msi: str = OPENSSH_MSI) -> UserData:
    """User data for a key (type and base64, as in `id_ed25519.pub`) and the settings of the cluster.

    `platform` is the type of OpenShift's Infrastructure. `openssh_msi` is where the installer of OpenSSH is when Windows cannot
    get the capability. Raises ValueError for a URL that is not https,
    and for a key that is not one line.
    """
    where = _PLATFORMS.get(platform.upper(), _OTHER)
    kept: list[Certificate] = []
    left_out = []
    size = 0
    for certificate in egress.trust:
        if kept:
            longer = size + len("\n") + len(_certificate(certificate).encode())
        else:
            # the first one brings the part of the script that reads them
            longer = len(_text(public_key, egress, [certificate], where, openssh_msi).encode())
        if longer > where.limit:
            left_out.append(certificate)
        else:
            kept.append(certificate)
            size = longer
    return UserData(_text(public_key, egress, kept, where, openssh_msi), tuple(left_out))


def _text(public_key: str, egress: Egress, trust: Iterable[Certificate], platform: _Platform, openssh_msi: str) -> str:
    return platform.tags.replace("{}", _script(public_key, egress, trust, platform.parts, openssh_msi))


def _script(
    public_key: str, egress: Egress, trust: Iterable[Certificate], parts_of_platform: frozenset[str], openssh_msi: str
) -> str:
    parts = public_key.split()
    if len(parts) < 2 or len(public_key.splitlines()) != 1:
        raise ValueError("a public key is one line: its type and its base64")
    if not openssh_msi.startswith("https://"):
        raise ValueError("the installer of OpenSSH must have an https URL")
    win_http = winhttp_value.settings(egress)
    proxy = winhttp_value.proxy_for_https(egress)
    values = {
        "CERTIFICATES": "\n".join(_certificate(one) for one in trust),
        "WINHTTP": _quoted(base64.b64encode(win_http).decode() if win_http else ""),
        "WINHTTP_HEX": _quoted(win_http.hex() if win_http else ""),
        "SCHEMA": str(VERSION),
        "PROXY": _quoted(f"http://{proxy}" if proxy else ""),
        "MSI": _quoted(openssh_msi),
        "EC2LAUNCH": _quoted(EC2LAUNCH_MSI),
        "KEY": _quoted(f"{parts[0]} {parts[1]} {COMMENT}"),
        "COMMENT": COMMENT,
    }
    chosen = parts_of_platform | (frozenset(("first-boot",)) if win_http or values["CERTIFICATES"] else frozenset())
    text = "".join(_chosen(SCRIPT, chosen))
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _chosen(template: str, parts: frozenset[str]) -> Iterator[str]:
    """The lines of the template; those between `#[ NAME:` and `#]` only where that is one of the parts."""
    part = ""
    for line in template.splitlines(keepends=True):
        if line.startswith("#["):
            part = line.removeprefix("#[ ").partition(":")[0]
        elif line.startswith("#]"):
            part = ""
        elif not part or part in parts:
            yield line


def _certificate(one: Certificate) -> str:
    store = certificates.ROOT if one.self_issued else certificates.CA
    blob = base64.b64encode(certificates.blob(one.der, one.sha1).data).decode()
    note = json.dumps({"added": True, "subject": one.subject}, separators=(",", ":"))
    # a list in a list would come out flat
    values = {"Store": store, "Sha1": one.sha1, "Note": note, "Blob": blob}
    return f"        @{{ {'; '.join(f'{name} = {_quoted(value)}' for name, value in values.items())} }}"


def _quoted(text: str) -> str:
    """A literal of PowerShell. Its parser takes the typographic quotes for plain ones, so each of them is doubled."""
    return "'" + "".join(character * 2 if character in "'‘’‚‛" else character for character in text) + "'"


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
