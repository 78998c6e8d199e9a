mkdir "%OWN%\made"
"%ICACLS%" "%OWN%\made" /setowner *S-1-5-32-544 >nul 2>nul
"%ICACLS%" "%OWN%\made" /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F *S-1-5-32-545:(OI)(CI)RX *S-1-3-0:(OI)(CI)(IO)F >nul 2>nul
if errorlevel 1 echo refused
"%ICACLS%" "%OWN%\made" /grant *S-1-5-32-545:(CI)(IO)(WD,AD) >nul 2>nul
if errorlevel 1 echo refused
move /y "%OWN%\made" "%OWN%\open" >nul 2>nul
mkdir "%OWN%\open\pods"
>"%OWN%\open\pods\file.txt" echo open
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'C:\TransomVerify\open\pods\file.txt').Sddl -notmatch '\(A;ID;0x1200a9;;;BU\)') { exit 1 }" >nul 2>nul
if errorlevel 1 echo unreadable
if not errorlevel 1 echo readable
