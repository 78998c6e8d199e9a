# Shared by the other scripts: each begins with  . "$PSScriptRoot\common.ps1"
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

# Only this process uses the build's proxy, in variables that programs know: they use its user and password, and its
# exemptions.
foreach ($name in 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY') {
    $value = [Environment]::GetEnvironmentVariable("BUILD_$name")
    if ("$value" -ne '') { [Environment]::SetEnvironmentVariable($name, $value) }
}
# A proxy that decrypts TLS has its own CA: it is trusted until the build ends.
if ((Test-Path -Path 'C:\k\image\proxy-ca.pem') -and -not (Test-Path -Path 'C:\k\image\trusted-by-build.txt')) {
    $pem = Get-Content -Path 'C:\k\image\proxy-ca.pem' -Raw
    $trusted = foreach ($found in [regex]::Matches($pem, '(?s)-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----')) {
        [IO.File]::WriteAllText('C:\k\image\one-ca.pem', $found.Value)
        $thumbprint = (New-Object -TypeName 'System.Security.Cryptography.X509Certificates.X509Certificate2' -ArgumentList 'C:\k\image\one-ca.pem').Thumbprint
        if (-not (Test-Path -Path "Cert:\LocalMachine\Root\$thumbprint")) {
            Import-Certificate -FilePath 'C:\k\image\one-ca.pem' -CertStoreLocation 'Cert:\LocalMachine\Root' | Out-Null
            $thumbprint
        }
    }
    Set-Content -Path 'C:\k\image\trusted-by-build.txt' -Value @($trusted) -Encoding ascii
}

# Downloads a file and checks it: with the given SHA-256, or with the one next to it at its source, or with the Authenticode
# signature of the expected publisher. A file that does not match is not used. $Local is where an
# offline build has placed it.
function Get-CheckedFile {
    param([string]$Uri, [string]$Hash, [string]$Published, [string]$Signer, [string]$Path)
    New-Item -ItemType Directory -Force -Path (Split-Path -Parent $Path) | Out-Null
    $local = Join-Path -Path 'C:\k\image\downloads' -ChildPath ([IO.Path]::GetFileName($Uri))
    if (Test-Path -Path $local) {
        Copy-Item -Path $local -Destination $Path -Force
    }
    else {
        Get-RemoteFile -Uri $Uri -Path $Path
        if ($Hash -eq '' -and $Published -ne '') {
            Get-RemoteFile -Uri $Published -Path "$Path.sha256"
            $Hash = (Get-Content -Path "$Path.sha256" -Raw).Trim().Split(' ')[0]
            Remove-Item -Path "$Path.sha256"
        }
    }
    if ($Hash -ne '') {
        $found = (Get-FileHash -Algorithm SHA256 -Path $Path).Hash
        if ($found -ne $Hash) {
            Remove-Item -Path $Path
            throw "${Uri}: its SHA-256 is $found, not $Hash"
        }
        return
    }
    $signature = Get-AuthenticodeSignature -FilePath $Path
    if ($Signer -eq '' -or $signature.Status -ne 'Valid' -or $signature.SignerCertificate.Subject -notmatch "(^|, )(CN|O)=`"?$([regex]::Escape($Signer))") {
        Remove-Item -Path $Path
        throw "${Uri}: no SHA-256 is given for it, and it is not signed by '$Signer' but by '$($signature.SignerCertificate.Subject)'"
    }
}

# curl.exe is part of Windows and uses the proxy of the environment, with its credentials and exemptions.
function Get-RemoteFile {
    param([string]$Uri, [string]$Path)
    Invoke-Checked -Program "$env:SystemRoot\System32\curl.exe" -Arguments @('--fail', '--silent', '--show-error', '--location', '--retry', '5', '--ssl-no-revoke', '--output', "`"$Path`"", "`"$Uri`"")
}

# Runs a program; any other exit code ends the build.
function Invoke-Checked {
    param([string]$Program, [string[]]$Arguments, [int[]]$Good = @(0))
    $done = Start-Process -FilePath $Program -ArgumentList $Arguments -Wait -PassThru -NoNewWindow
    if ($Good -notcontains $done.ExitCode) {
        throw "$Program ended with $($done.ExitCode)"
    }
}
