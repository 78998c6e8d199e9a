"""First-boot data: what a new Windows machine runs so that it can be reached over SSH, behind a proxy too.

The script runs at every boot (`persist`), so each part asks before it acts. It holds nothing secret: instance metadata can be
read by every program on the machine.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from transom.common.installers import (
    EC2LAUNCH_SIGNER,
    EC2LAUNCH_URL,
    OPENSSH_SHA256,
    OPENSSH_SIGNER,
    OPENSSH_URL,
)
from transom.proxy.plain_proxy import PlainProxy, is_exempt, iter_unreachable_urls, select_plain_proxy
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate
from transom.windows.ledger import VERSION
from transom.windows.parts import certificates, winhttp_value

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
    """The text, and the certificates that it has no room for: hosts get those with their first pass.

    `problems` are what machines cannot do at their first boot with these settings, and what to do.
    """

    text: str
    left_out: tuple[Certificate, ...] = ()
    problems: tuple[str, ...] = ()


def build_user_data(public_key: str, egress: Egress, *, platform: str = "", openssh_msi: str = OPENSSH_URL) -> UserData:
    """Build user data from a public key (type and base64, as in `id_ed25519.pub`) and the cluster settings.

    `platform` is the type of OpenShift's Infrastructure. `openssh_msi` is the URL of the OpenSSH installer, used when
    Windows cannot get the capability. Raises ValueError for a URL that is not https, and for a key that is not one line.
    """
    where = _PLATFORMS.get(platform.upper(), _OTHER)
    kept: list[Certificate] = []
    left_out = []
    size = 0
    for certificate in egress.trust:
        if kept:
            longer = size + len("\n") + len(_format_certificate(certificate).encode())
        else:
            # the first one brings the part of the script that reads them
            longer = len(_render_user_data(public_key, egress, [certificate], where, openssh_msi).encode())
        if longer > where.limit:
            left_out.append(certificate)
        else:
            kept.append(certificate)
            size = longer
    problems = tuple(find_first_boot_problems(egress, platform=platform, openssh_msi=openssh_msi))
    return UserData(_render_user_data(public_key, egress, kept, where, openssh_msi), tuple(left_out), problems)


def find_first_boot_problems(egress: Egress, *, platform: str = "", openssh_msi: str = OPENSSH_URL) -> Iterator[str]:
    """Yield what machines cannot do at their first boot with these settings, and what to do."""
    where = _PLATFORMS.get(platform.upper(), _OTHER)
    proxy = select_plain_proxy(egress.http_proxy, egress.https_proxy)
    why = " and ".join(f"{field} {problem}" for field, problem in proxy.problems)
    if list(iter_unreachable_urls(proxy, egress.no_proxy, (openssh_msi,))):
        yield (
            f"new machines cannot download their OpenSSH server: {why}, and NO_PROXY does not contain the host of"
            f" {openssh_msi}. Use an image with an OpenSSH server (Windows Server 2025 has one), or set --openssh-msi to a URL"
            " whose host NO_PROXY contains"
        )
    if "aws" in where.parts and list(iter_unreachable_urls(proxy, egress.no_proxy, (EC2LAUNCH_URL,))):
        yield (
            f"new machines cannot download EC2Launch: {why}, and NO_PROXY does not contain the host of {EC2LAUNCH_URL}. Use an "
            "image with EC2Launch 2.0.2107 or newer"
        )


def _render_user_data(
    public_key: str, egress: Egress, trust: Iterable[Certificate], platform: _Platform, openssh_msi: str
) -> str:
    return platform.tags.replace("{}", _render_script(public_key, egress, trust, platform.parts, openssh_msi))


def _render_script(
    public_key: str, egress: Egress, trust: Iterable[Certificate], parts_of_platform: frozenset[str], openssh_msi: str
) -> str:
    parts = public_key.split()
    if len(parts) < 2 or len(public_key.splitlines()) != 1:
        raise ValueError("a public key is one line: its type and its base64")
    if not openssh_msi.startswith("https://"):
        raise ValueError("the installer of OpenSSH must have an https URL")
    win_http = winhttp_value.build_first_boot_value(egress)
    proxy = select_plain_proxy(egress.http_proxy, egress.https_proxy)
    is_behind_proxy = bool(egress.https_proxy)
    values = {
        "CERTIFICATES": "\n".join(_format_certificate(item) for item in trust),
        "WINHTTP": _quote_powershell(base64.b64encode(win_http).decode() if win_http else ""),
        "WINHTTP_HEX": _quote_powershell(win_http.hex() if win_http else ""),
        "SCHEMA": str(VERSION),
        "WAYS": "'Installer', 'WindowsUpdate'" if is_behind_proxy else "'WindowsUpdate', 'Installer'",
        "MSI": _render_installer(
            openssh_msi, proxy, egress, OPENSSH_SIGNER, OPENSSH_SHA256 if openssh_msi == OPENSSH_URL else ""
        ),
        "EC2LAUNCH": _render_installer(EC2LAUNCH_URL, proxy, egress, EC2LAUNCH_SIGNER),
        "KEY": _quote_powershell(f"{parts[0]} {parts[1]} {COMMENT}"),
        "COMMENT": COMMENT,
    }
    chosen = parts_of_platform | (frozenset(("first-boot",)) if win_http or values["CERTIFICATES"] else frozenset())
    text = "".join(_iter_selected_lines(SCRIPT, chosen))
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _render_installer(uri: str, proxy: PlainProxy, egress: Egress, signer: str, sha256: str = "") -> str:
    """Return a table of PowerShell: where an installer is, by which proxy, and by what it is known."""
    used = proxy.address if proxy.address and not is_exempt(uri, egress.no_proxy) else ""
    values = {"Uri": uri, "Proxy": f"http://{used}" if used else "", "Signer": signer, "Sha256": sha256.upper()}
    return f"@{{ {'; '.join(f'{name} = {_quote_powershell(value)}' for name, value in values.items())} }}"


def _iter_selected_lines(template: str, parts: frozenset[str]) -> Iterator[str]:
    """Yield the template's lines; a `#[ NAME:` to `#]` section is included only if NAME is in `parts`."""
    part = ""
    for line in template.splitlines(keepends=True):
        if line.startswith("#["):
            part = line.removeprefix("#[ ").partition(":")[0]
        elif line.startswith("#]"):
            part = ""
        elif not part or part in parts:
            yield line


def _format_certificate(certificate: Certificate) -> str:
    store = certificates.ROOT if certificate.self_issued else certificates.CA
    blob = base64.b64encode(certificates.build_blob(certificate.der, certificate.sha1).data).decode()
    note = json.dumps({"added": True, "subject": certificate.subject}, separators=(",", ":"))
    # a list in a list would come out flat
    values = {"Store": store, "Sha1": certificate.sha1, "Note": note, "Blob": blob}
    return f"        @{{ {'; '.join(f'{name} = {_quote_powershell(value)}' for name, value in values.items())} }}"


def _quote_powershell(text: str) -> str:
    """Format a PowerShell string literal. PowerShell treats typographic quotes as quotes, so each is doubled."""
    return "'" + "".join(character * 2 if character in "'‘’‚‛" else character for character in text) + "'"


SCRIPT: Final = r"""$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
function Get-SignedInstaller($installer, $name) {
    [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
    $msi = Join-Path -Path $env:TEMP -ChildPath $name
    if ($installer.Proxy) {
        Invoke-WebRequest -UseBasicParsing -Uri $installer.Uri -OutFile $msi -Proxy $installer.Proxy
    } else {
        Invoke-WebRequest -UseBasicParsing -Uri $installer.Uri -OutFile $msi
    }
    $hash = (Get-FileHash -LiteralPath $msi -Algorithm SHA256).Hash
    $signature = Get-AuthenticodeSignature -LiteralPath $msi
    $subject = "$($signature.SignerCertificate.Subject)"
    $signer = '(^|, )(CN|O)="?' + [regex]::Escape($installer.Signer)
    if ($installer.Sha256 -and $hash -ne $installer.Sha256) {
        Remove-Item -LiteralPath $msi
        throw "the SHA-256 of $($installer.Uri) is $hash, not $($installer.Sha256)"
    }
    if ($signature.Status -ne 'Valid' -or $subject -cnotmatch $signer) {
        Remove-Item -LiteralPath $msi
        throw "$($installer.Uri) is not signed by $($installer.Signer), but by '$subject'"
    }
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
#[ administrator: the built-in account, whatever its name is, must be able to log in over SSH
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
$problem = ''
foreach ($way in @WAYS@) {
    for ($try = 1; $try -le 5 -and -not (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue); $try++) {
        try {
            if ($way -eq 'WindowsUpdate') {
                Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
            } else {
                Install-Msi (Get-SignedInstaller @MSI@ 'transom-openssh.msi')
            }
        } catch {
            $problem += "${way}: $($_.Exception.Message) "
            Start-Sleep -Seconds (5 * $try)
        }
    }
}
if (-not (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue)) { throw "OpenSSH Server was not installed: $problem" }
Set-Service -Name 'sshd' -StartupType Automatic
Start-Service -Name 'sshd'
$latin1 = [Text.Encoding]::GetEncoding(28591)
$keys = "$env:ProgramData\ssh\administrators_authorized_keys"
$text = ''
if (Test-Path -LiteralPath $keys) { $text = $latin1.GetString([IO.File]::ReadAllBytes($keys)) }
if ($text -notmatch '(?m) @COMMENT@\r?$') {
    if ($text -and -not $text.EndsWith("`n")) { $text += "`r`n" }
    [IO.File]::WriteAllBytes($keys, $latin1.GetBytes($text + @KEY@ + "`r`n"))
}
& "$env:SystemRoot\System32\icacls.exe" $keys '/inheritance:r' '/grant:r' '*S-1-5-32-544:F' '/grant:r' '*S-1-5-18:F' | Out-Null
$config = "$env:ProgramData\ssh\sshd_config"
for ($try = 1; $try -le 20 -and -not (Test-Path -LiteralPath $config); $try++) { Start-Sleep -Seconds 1 }
$before = $latin1.GetString([IO.File]::ReadAllBytes($config))
$mark = [regex]::Match($before, '^\xEF\xBB\xBF').Value
$set = '(?m)^[ \t]*#?[ \t]*(PasswordAuthentication|PubkeyAuthentication)[ \t][^\n]*(\n|\z)'
$after = $before.Substring($mark.Length) -replace $set
$after = $mark + "PasswordAuthentication no`r`nPubkeyAuthentication yes`r`n" + $after
if ($before -cne $after) {
    [IO.File]::WriteAllBytes($config, $latin1.GetBytes($after))
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
