# Lists the files on the image with their SHA-256: Packer downloads the list.
. "$PSScriptRoot\common.ps1"
$directories = @('C:\k', "$env:ProgramFiles\containerd", 'C:\opt\cni\bin', "$env:ProgramFiles\OpenSSH")
$files = Get-ChildItem -Path $directories -File -Recurse -ErrorAction SilentlyContinue | Where-Object { $_.FullName -notlike 'C:\k\image\*' }
$list = foreach ($file in $files) {
    [pscustomobject]@{ path = $file.FullName; size = $file.Length; sha256 = (Get-FileHash -Algorithm SHA256 -Path $file.FullName).Hash.ToLower() }
}
[IO.File]::WriteAllText('C:\k\image-manifest.json', (ConvertTo-Json -InputObject @($list) -Depth 3))
