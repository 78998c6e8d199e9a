# Windows' own updates at the build, where they are wanted: Packer restarts the machine afterwards. They go through WinHTTP's
# proxy, not through that of the build.
. "$PSScriptRoot\common.ps1"
if ($env:WINDOWS_UPDATES -ne 'true') { return }
$session = New-Object -ComObject 'Microsoft.Update.Session'
$updates = $session.CreateUpdateSearcher().Search("IsInstalled=0 and IsHidden=0 and Type='Software'").Updates
if ($updates.Count -eq 0) { return }
foreach ($update in $updates) { if (-not $update.EulaAccepted) { $update.AcceptEula() } }
$downloader = $session.CreateUpdateDownloader()
$downloader.Updates = $updates
$downloader.Download() | Out-Null
$installer = $session.CreateUpdateInstaller()
$installer.Updates = $updates
# 2 is success, 3 success with errors (Microsoft: "OperationResultCode")
if ((2, 3) -notcontains $installer.Install().ResultCode) { throw 'the updates could not be installed' }
