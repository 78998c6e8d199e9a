mkdir "%OWN%" 2>nul
>"%OWN%\kept.txt" echo before
"%ICACLS%" "%OWN%\kept.txt" /inheritance:r /grant:r *S-1-5-18:F *S-1-5-32-544:F >nul 2>nul
if errorlevel 1 echo refused
>after.txt echo after
copy /y /b "%HERE%\after.txt" "%OWN%\kept.txt" >nul 2>nul
type "%OWN%\kept.txt"
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'C:\TransomVerify\kept.txt').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;FA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if errorlevel 1 echo lost
if not errorlevel 1 echo kept
