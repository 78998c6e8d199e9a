rem %1 an existing directory of the payload: its owner is SYSTEM, Administrators, TrustedInstaller or this user
:administrators
echo verifying 1>&2
@OWNER@
if not errorlevel 1 exit /b 0
set "BAD=1"
>>"%RESULT%" echo @ResultWord.FOREIGN@ %~1
exit /b 0

rem %1 a file that was sent, %2 its expected hash
:verify
set "STAGED=%BASE%\%~1"
if not exist "%STAGED%" goto unsent
echo verifying 1>&2
"%SystemRoot%\System32\certutil.exe" -hashfile "%STAGED%" SHA256 >"%HERE%\hash.txt" 2>nul
if "%ERRORLEVEL%"=="0" goto hashed
rem On some hosts a policy blocks it.
echo verifying 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "(Get-FileHash -LiteralPath '%STAGED%' -Algorithm SHA256).Hash" >"%HERE%\hash.txt" 2>nul
if not "%ERRORLEVEL%"=="0" goto unhashed
:hashed
for %%f in ("%HERE%\hash.txt") do if %%~zf EQU 0 goto unhashed
set "SAME="
for /f "usebackq delims=" %%a in ("%HERE%\hash.txt") do if /i "%%a"=="%~2" set "SAME=1"
if not defined SAME goto mismatch
exit /b 0
:unsent
set "BAD=1"
>>"%RESULT%" echo @ResultWord.UNSENT@ %~2
exit /b 0
:unhashed
set "BAD=1"
>>"%RESULT%" echo @ResultWord.UNHASHED@ %~2
exit /b 0
:mismatch
set "BAD=1"
del "%STAGED%" 2>nul
>>"%RESULT%" echo @ResultWord.MISMATCH@ %~2
exit /b 0
