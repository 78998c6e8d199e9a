# What the other scripts share: each begins with  . "$PSScriptRoot\common.ps1"
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12

# Puts a file in place and checks it: by the SHA-256 that is given, else by the one that stands beside it at its source, else
# by its Authenticode signature. A file that is none of these is not used. $Local is where an offline build has put it.
function Get-CheckedFile {
    param([string]$Uri, [string]$Hash, [string]$Published, [string]$Path)
    New-Item -ItemType Directory -Force -Path (Split-Path -Parent $Path) | Out-Null
    $local = Join-Path -Path 'C:\k\image\downloads' -ChildPath ([IO.Path]::GetFileName($Uri))
    if (Test-Path -Path $local) {
        Copy-Item -Path $local -Destination $Path -Force
    }
    else {
        $request = @{ Uri = $Uri; OutFile = $Path; UseBasicParsing = $true }
        if ($env:BUILD_HTTPS_PROXY -ne '') { $request['Proxy'] = $env:BUILD_HTTPS_PROXY }
        Invoke-WebRequest @request
        if ($Hash -eq '' -and $Published -ne '') {
            $request['Uri'] = $Published
            $request['OutFile'] = "$Path.sha256"
            Invoke-WebRequest @request
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
    if ((Get-AuthenticodeSignature -FilePath $Path).Status -ne 'Valid') {
        Remove-Item -Path $Path
        throw "${Uri}: no SHA-256 is given for it, and it is not signed"
    }
}

# Runs a program; any exit code but the given ones ends the build.
function Invoke-Checked {
    param([string]$Program, [string[]]$Arguments, [int[]]$Good = @(0))
    $done = Start-Process -FilePath $Program -ArgumentList $Arguments -Wait -PassThru -NoNewWindow
    if ($Good -notcontains $done.ExitCode) {
        throw "$Program ended with $($done.ExitCode)"
    }
}
