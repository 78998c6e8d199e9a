mkdir "%OWN%\closed\below"
"%ICACLS%" "%OWN%\closed" /setowner *S-1-5-32-544 >nul 2>nul
if errorlevel 1 echo owner-refused
"%ICACLS%" "%OWN%\closed" /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F >nul 2>nul
if errorlevel 1 echo refused
>"%OWN%\closed\below\file.txt" echo closed
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'C:\TransomVerify\closed\below\file.txt').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;FA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if errorlevel 1 echo open
if not errorlevel 1 echo closed
