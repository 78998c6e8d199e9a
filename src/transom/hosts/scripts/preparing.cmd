rem 3010: success, and a reboot is required (ERROR_SUCCESS_REBOOT_REQUIRED)
:containers
echo preparing 1>&2
"%SystemRoot%\System32\dism.exe" /online /enable-feature /featurename:Containers /all /norestart 1>&2
if "%ERRORLEVEL%"=="0" exit /b 0
if not "%ERRORLEVEL%"=="3010" goto nofeature
set "BOOT_FOR=%BOOT_FOR% containers"
exit /b 0
:nofeature
>>"%RESULT%" echo @ResultWord.UNPREPARED@ containers
set "FAILED=1"
exit /b 0

:name
echo preparing 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "Rename-Computer -NewName '%~1' -Force" >nul 2>nul
if errorlevel 1 goto noname
set "BOOT_FOR=%BOOT_FOR% name"
exit /b 0
:noname
>>"%RESULT%" echo @ResultWord.UNPREPARED@ name
set "FAILED=1"
exit /b 0

:port
echo preparing 1>&2
"%SystemRoot%\System32\netsh.exe" advfirewall firewall delete rule name="Transom TCP %~1" >nul 2>nul
"%SystemRoot%\System32\netsh.exe" advfirewall firewall add rule name="Transom TCP %~1" dir=in action=allow protocol=TCP localport=%~1 >nul 2>nul
if not errorlevel 1 exit /b 0
>>"%RESULT%" echo @ResultWord.UNPREPARED@ port %~1
set "FAILED=1"
exit /b 0

rem On EC2, EC2Launch keeps the routes to the metadata service, which the switch of an overlay removes otherwise. Versions before
rem 2.0.2107 have no --persistent.
:routes
set "LAUNCH=%SystemDrive%\Program Files\Amazon\EC2Launch\EC2Launch.exe"
if not exist "%LAUNCH%" exit /b 0
echo preparing 1>&2
"%LAUNCH%" run-task add-routes --persistent >nul 2>nul
if errorlevel 1 "%LAUNCH%" run-task add-routes >nul 2>nul
exit /b 0

rem The owner of an existing directory must be SYSTEM, Administrators, TrustedInstaller or this user.
:owned
if not exist "%~1\" exit /b 0
echo preparing 1>&2
@OWNER@
if not errorlevel 1 exit /b 0
>>"%RESULT%" echo @ResultWord.FOREIGN@ %~1
set "FAILED=1"
exit /b 0
