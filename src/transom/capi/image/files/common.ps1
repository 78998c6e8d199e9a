# What the other scripts share: each begins with  . "$PSScriptRoot\common.ps1"
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

# The build's proxy is that of this process alone, and by names that programs know: user and password in it are read, and
# exemptions hold.
foreach ($name in 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY') {
    $value = [Environment]::GetEnvironmentVariable("BUILD_$name")
    if ("$value" -ne '') { [Environment]::SetEnvironmentVariable($name, $value) }
}
# A proxy that looks into TLS has a CA of its own: it is trusted until the build ends.
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

# Puts a file in place and checks it: by the SHA-256 that is given, else by the one that stands beside it at its source, else
# by the Authenticode signature of whoever must have made it. A file that is none of these is not used. $Local is where an
# offline build has put it.
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

# curl.exe, which is part of Windows: it takes the proxy of the environment, with its credentials and exemptions.
function Get-RemoteFile {
    param([string]$Uri, [string]$Path)
    Invoke-Checked -Program "$env:SystemRoot\System32\curl.exe" -Arguments @('--fail', '--silent', '--show-error', '--location', '--retry', '5', '--ssl-no-revoke', '--output', "`"$Path`"", "`"$Uri`"")
}

# Runs a program; any exit code but the given ones ends the build.
function Invoke-Checked {
    param([string]$Program, [string[]]$Arguments, [int[]]$Good = @(0))
    $done = Start-Process -FilePath $Program -ArgumentList $Arguments -Wait -PassThru -NoNewWindow
    if ($Good -notcontains $done.ExitCode) {
        throw "$Program ended with $($done.ExitCode)"
    }
}
