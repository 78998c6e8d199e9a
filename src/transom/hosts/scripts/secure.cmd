rem Only SYSTEM and Administrators can access the directory, before any other file is written to it.
if /i not "%SystemRoot%"=="C:\Windows" goto elsewhere
echo securing 1>&2
@WHOSE@
echo securing 1>&2
"%ICACLS%" "%BASE%" /setowner *S-1-5-32-544 >nul 2>nul
if errorlevel 1 goto refused
"%ICACLS%" "%BASE%" /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F >nul 2>nul
if errorlevel 1 goto refused
echo @OutputMarker.CLOSED@
