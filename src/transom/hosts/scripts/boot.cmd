@echo off
rem Reboots the host after a few seconds, so that the connection ends in order.
"%SystemRoot%\System32\shutdown.exe" /r /t 5 /d p:2:4 /c "Transom: Windows has to boot to complete its preparation"
exit /b %ERRORLEVEL%
