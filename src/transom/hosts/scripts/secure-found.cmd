rem The directory was there, and no ledger says that it is ours: whose is it?
if exist ledger.reg goto known
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$owner = (Get-Acl -LiteralPath '@BASE@').GetOwner([Security.Principal.SecurityIdentifier]).Value; $ours = 'S-1-5-18', 'S-1-5-32-544', [Security.Principal.WindowsIdentity]::GetCurrent().User.Value; if ($ours -notcontains $owner) { exit 1 }" >nul 2>nul
if errorlevel 1 goto refused
"%ICACLS%" "%BASE%" /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F >nul 2>nul
if errorlevel 1 goto refused
"%ICACLS%" "%BASE%" /setowner *S-1-5-32-544 >nul 2>nul
if errorlevel 1 goto refused
:known
