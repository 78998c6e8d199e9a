# Installs Windows updates during the build, if requested: Packer restarts the machine afterwards. They use the proxy of
# WinHTTP, not the proxy of the build.
. "$PSScriptRoot\common.ps1"
$articles = @("$env:WINDOWS_UPDATES_KBS".Split(' ') | Where-Object { $_ -ne '' } | ForEach-Object { $_ -replace '^KB', '' })
$categories = @("$env:WINDOWS_UPDATES_CATEGORIES".Split(' ') | Where-Object { $_ -ne '' })
if ($env:WINDOWS_UPDATES -ne 'true' -and $articles.Count + $categories.Count -eq 0) { return }
$session = New-Object -ComObject 'Microsoft.Update.Session'
$found = $session.CreateUpdateSearcher().Search("IsInstalled=0 and IsHidden=0 and Type='Software'").Updates
$updates = New-Object -ComObject 'Microsoft.Update.UpdateColl'
foreach ($update in $found) {
    # image-builder writes the name of a category without spaces
    $named = @($update.Categories | ForEach-Object { $_.Name -replace ' ', '' })
    $chosen = @($update.KBArticleIDs | Where-Object { $articles -contains $_ }) + @($named | Where-Object { $categories -contains $_ })
    if ($env:WINDOWS_UPDATES -eq 'true' -or $chosen.Count -gt 0) { $updates.Add($update) | Out-Null }
}
if ($updates.Count -eq 0) { return }
foreach ($update in $updates) { if (-not $update.EulaAccepted) { $update.AcceptEula() } }
$downloader = $session.CreateUpdateDownloader()
$downloader.Updates = $updates
$downloader.Download() | Out-Null
$installer = $session.CreateUpdateInstaller()
$installer.Updates = $updates
# 2 is success, 3 success with errors (Microsoft: "OperationResultCode")
if ((2, 3) -notcontains $installer.Install().ResultCode) { throw 'the updates could not be installed' }
